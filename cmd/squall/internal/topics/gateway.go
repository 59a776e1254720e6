package topics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps"
)

// file is the configuration of a gateway as JSON.
type file struct {
	Group struct {
		Cluster        string
		ID             uint64
		Dir            string
		Listen         string
		Join           []string
		InitialMembers int `json:"initial_members"`
	}
	Space struct {
		Name            string
		Persistent      bool
		RingBytes       int `json:"ring_bytes"`
		Window          int
		MaxMessageBytes int `json:"max_message_bytes"`
	}
	Domain    int
	Side      string
	Interface string
	Index     *int
	Multicast bool
	Peers     []string
	Lease     string
	Silent    string
	UserData  string `json:"user_data"`
	Topics    []fileTopic
}

// fileTopic is a topic in the file.
type fileTopic struct {
	Name       string
	DDSName    string `json:"dds_name"`
	Type       string
	Direction  string
	Durability string
	Keep       int  // samples of each instance that late readers get; 0: all
	BestEffort bool `json:"best_effort"`
	Exclusive  bool
	BySource   bool `json:"by_source"`
	XCDR2      bool `json:"xcdr2"`
	Partitions []string
	// PartitionsOut are the partitions of the gateway's writers.
	PartitionsOut []string `json:"partitions_out"`
}

const gatewayExample = `{
  "group": {"cluster": "fleet", "id": 9, "listen": "127.0.0.1:0", "join": ["127.0.0.1:7000"], "initial_members": 3},
  "space": {"name": "fleet"},
  "domain": 0, "interface": "lo",
  "topics": [
    {"name": "positions", "type": "Fleet::Position { @key long vehicle; double x; double y; }", "direction": "both", "durability": "transient", "keep": 1}
  ]
}`

func newGatewayCommand() *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "gateway [flags] FILE",
		Short: "Carry topics between a group and a domain of DDS",
		Long: `Gateway becomes a member of a group that has a space of topics, and a participant of a domain of DDS over RTPS, and carries the topics of the
file FILE in JSON between them until it is interrupted. Several gateways of a domain stand in for each other. The group and the space are declared as its other
members declare them, and have no other subgroups. Directions are in, out and both, seen from the group; durabilities are volatile, transient_local, transient and
persistent. docs/dds.md says what is carried and how. A file:

` + gatewayExample,
		Example: `  squall dds gateway gateway.json
  squall dds gateway gateway.json --report 10s`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			f, err := parse(b)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), every)
		},
	}
	cmd.Flags().DurationVar(&every, "report", 0, "time between two lines with what was carried; 0: none")
	show.NoFiles(cmd, "report")
	return cmd
}

func parse(b []byte) (f file, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, err
	}
	if len(f.Topics) == 0 {
		return f, errors.New("no topics")
	}
	_, err = f.gateway()
	return f, err
}

var (
	directions   = map[string]rtps.Direction{"in": rtps.In, "out": rtps.Out, "both": rtps.Both}
	durabilities = map[string]qos.Durability{
		"": qos.Volatile, "volatile": qos.Volatile, "transient_local": qos.TransientLocal, "transient": qos.Transient, "persistent": qos.Persistent,
	}
)

// topic is a topic as the gateway carries it.
func (in *fileTopic) topic() (t rtps.Topic, err error) {
	t = rtps.Topic{Name: in.Name, DDSName: in.DDSName, Partitions: in.Partitions, PartitionsOut: in.PartitionsOut, XCDR2: in.XCDR2}
	if t.Type, err = rtps.ParseType(in.Type); err != nil {
		return t, fmt.Errorf("topic %q: %w", in.Name, err)
	}
	var ok bool
	if t.Direction, ok = directions[in.Direction]; !ok {
		return t, fmt.Errorf("topic %q: direction %q is not in, out or both", in.Name, in.Direction)
	}
	if t.QoS.Durability, ok = durabilities[in.Durability]; !ok {
		return t, fmt.Errorf("topic %q: durability %q", in.Name, in.Durability)
	}
	if t.QoS.Durability > qos.Volatile {
		t.QoS.Service.History = qos.KeepAll()
		if in.Keep > 0 {
			t.QoS.Service.History = qos.KeepLast(in.Keep)
		}
	}
	if in.BestEffort {
		t.QoS.Reliability.Kind = qos.BestEffort
	}
	if in.Exclusive {
		t.QoS.Ownership = qos.Exclusive
	}
	if in.BySource {
		t.QoS.Order = qos.BySource
	}
	return t, nil
}

// gateway is the configuration without the participant.
func (f *file) gateway() (c rtps.Config, err error) {
	c = rtps.Config{Side: f.Side, Domain: f.Domain, Interface: f.Interface, Index: rtps.AnyIndex, Multicast: f.Multicast, Peers: f.Peers, UserData: []byte(f.UserData)}
	if f.Index != nil {
		c.Index = *f.Index
	}
	if f.Lease != "" {
		if c.Lease, err = time.ParseDuration(f.Lease); err != nil || c.Lease < time.Second {
			return c, fmt.Errorf("lease %q is no duration of a second or more", f.Lease)
		}
	}
	if f.Silent != "" {
		if c.ReaderTimeout, err = time.ParseDuration(f.Silent); err != nil || c.ReaderTimeout < time.Second {
			return c, fmt.Errorf("silent %q is no duration of a second or more", f.Silent)
		}
	}
	for i := range f.Topics {
		t, err := f.Topics[i].topic()
		if err != nil {
			return c, err
		}
		c.Topics = append(c.Topics, t)
	}
	return c, nil
}

// closeTime is how long it may take to end what a command has opened.
const closeTime = 10 * time.Second

// run carries until the context ends.
func (f *file) run(ctx context.Context, out io.Writer, log *slog.Logger, every time.Duration) (err error) {
	sub := squall.SubgroupConfig{Name: f.Space.Name, RingBytes: f.Space.RingBytes, Window: f.Space.Window, MaxMessageBytes: f.Space.MaxMessageBytes}
	if f.Space.Persistent {
		sub.Mode = squall.Persistent
	}
	m, err := member.Open(ctx, member.Config{Subgroup: sub, Group: squall.Config{
		Cluster: f.Group.Cluster, ID: squall.NodeID(f.Group.ID), Dir: f.Group.Dir, Listen: f.Group.Listen, Join: f.Group.Join, InitialMembers: f.Group.InitialMembers, Logger: log,
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, show.AfterEnd(ctx, closeTime, m.Close)) }()
	c, err := f.gateway()
	if err != nil {
		return err
	}
	c.Member, c.Logger = m, log
	g, err := rtps.Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, show.AfterEnd(ctx, closeTime, g.Close)) }()
	fmt.Fprintf(out, "gateway of domain %d at %s, member %d of group %q at %s\n", f.Domain, g.Addr(), m.Group().ID(), f.Group.Cluster, m.Group().Addr())
	return report(ctx, out, m.Group(), g, every)
}

// report prints what the gateway did, now and then, until the context or the group ends.
func report(ctx context.Context, out io.Writer, group *squall.Group, g *rtps.Gateway, every time.Duration) error {
	var tick <-chan time.Time
	if every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-group.Done():
			return group.Err()
		case <-tick:
			s := g.Stats()
			fmt.Fprintf(out, "carries: %v, participants: %d, writers: %d, in: %d of %d acknowledged, out: %d, refused: %d\n",
				s.Active, s.Participants, s.Writers, s.Acknowledged, s.Received, s.Written, s.Malformed)
		}
	}
}
