package topics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	_ "github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/ripc"
)

// NewCommand returns the command "dds".
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dds",
		Short: "List and show topics, read, write, record and play samples, explain why endpoints do not match, and reach other DDS programs",
		Long: `These commands work on the topics of one space (package dds). Each joins the group (--join) as a full member for as long as it runs. With --connect
it is a client outside of the group instead, of members that serve clients (--serve). The space must be the only subgroup of
the group, and be declared with its name and nothing else, but for its mode if it is persistent (--dir). Idl needs no group. A gateway has the group and the space in its file.`,
		Example: `  squall dds sub greetings --listen 127.0.0.1:7001              # bootstraps a group, in one terminal
  squall dds pub greetings "hello" --join 127.0.0.1:7001        # in another one
  squall dds ls --join 127.0.0.1:7001
  squall dds sub greetings --listen 127.0.0.1:7001 --serve 127.0.0.1:8001
  squall dds pub greetings "hello" --connect 127.0.0.1:8001     # without being a member
  squall dds explain greetings --join 127.0.0.1:7001
  squall dds record greetings greetings.mcap --join 127.0.0.1:7001
  squall dds play greetings.mcap --join 127.0.0.1:7002
  squall dds ui --join 127.0.0.1:7001                           # a web page
  squall dds gateway gateway.json                               # programs of other implementations of DDS take part`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newListCommand(), newSubCommand(), newPubCommand(), newExplainCommand(), newRecordCommand(), newPlayCommand(), newIDLCommand(), newTopCommand(), newUICommand(), newGatewayCommand())
	return cmd
}

// options are the flags of all commands.
type options struct {
	join    []string
	listen  string
	connect []string
	serve   string
	qos     string
	cluster string
	space   string
	secure  show.Certificates
	timeout time.Duration
	json    bool
	dir     string
	events  func(dds.Event)
}

func (o *options) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.join, "join", nil, "`HOST:PORT` of members of the group; none: this process bootstraps a group of its own, also when it is started again; the same list at all members never bootstraps a second one while a majority of it runs")
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`HOST:PORT` where this process is a member")
	f.StringSliceVar(&o.connect, "connect", nil, "`HOST:PORT` of members that serve clients (--serve): this process stays outside of the group")
	f.StringVar(&o.serve, "serve", "", "`HOST:PORT` where this process serves clients, as a member")
	f.StringVar(&o.cluster, "cluster", "dds", "`name` of the group")
	f.StringVar(&o.space, "space", "space", "`name` of the space, which is that of its subgroup")
	f.StringVar(&o.dir, "dir", "", "the space is persistent: `directory` with the log and the id of this process, as a member")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to wait until this process is a member")
	f.BoolVar(&o.json, "json", false, "print JSON")
	o.secure.Declare(f, ", if the group uses TLS", "the others")
	show.NoFiles(cmd, "join", "listen", "connect", "serve", "cluster", "space", "timeout")
}

// check checks the flags of a process.
func (o *options) check() error {
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %v: must be more than 0", o.timeout)
	}
	if len(o.connect) > 0 && (len(o.join) > 0 || o.serve != "" || o.dir != "") {
		return errors.New("--connect is for a process outside of the group: give it without --join, --serve and --dir")
	}
	return show.Addresses("--connect", o.connect)
}

// party is what a command has of a space: a participant and, if this process is a member, the
// member.
type party struct {
	*dds.Participant
	member *member.Member // nil: a client
}

// group returns the group of a member; nil: a client has none.
func (p party) group() *squall.Group {
	if p.member == nil {
		return nil
	}
	return p.member.Group()
}

// with calls f with a participant that is a member meanwhile, or a client.
func (o *options) with(ctx context.Context, f func(party) error) error {
	if err := o.check(); err != nil {
		return err
	}
	certificates, err := o.secure.Load()
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("this process is no member within %v", o.timeout))
	defer cancel()
	if len(o.connect) > 0 {
		c, err := dds.Dial(opening, dds.ClientConfig{
			Cluster: o.cluster, Space: o.space, Addresses: o.connect, Endpoint: ripc.Config{TLS: certificates}, Events: o.events,
		})
		if err == nil {
			err = o.end(ctx, c, f(party{c, nil}))
		}
		return err
	}
	m, err := o.member(opening, certificates)
	if err != nil {
		return err
	}
	if o.serve == "" {
		return o.end(ctx, m.Participant, f(party{m.Participant, m}))
	}
	relay, err := member.Serve(opening, member.RelayConfig{Member: m, Endpoint: ripc.Config{Listen: o.serve, TLS: certificates}})
	if err == nil {
		err = errors.Join(f(party{m.Participant, m}), relay.Close())
	}
	return o.end(ctx, m.Participant, err)
}

// member makes this process a member.
func (o *options) member(ctx context.Context, certificates *tls.Config) (*member.Member, error) {
	space := squall.SubgroupConfig{Name: o.space}
	id := squall.NodeID(rand.Uint64()>>1 | 1)
	if o.dir != "" {
		space.Mode, id = squall.Persistent, 0
	}
	initial := 0 // a majority of the list
	if len(o.join) == 0 {
		initial = 1
	}
	return member.Open(ctx, member.Config{
		Group: squall.Config{
			Cluster: o.cluster, ID: id, Dir: o.dir, Listen: o.listen, Join: o.join, InitialMembers: initial, TLS: certificates,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // what matters comes back as an error
		},
		Subgroup: space, Events: o.events,
	})
}

// end closes a participant after what was done with it.
func (o *options) end(ctx context.Context, p *dds.Participant, err error) error {
	return errors.Join(err, show.AfterEnd(ctx, o.timeout, p.Close))
}

// profiled declares the flag --qos of commands that open endpoints.
func (o *options) profiled(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.qos, "qos", "", "`FILE#PROFILE` with the policies of the endpoint, and of a topic that is declared")
}

// profile returns the profile of --qos; nil if there is none.
func (o *options) profile() (*dds.Profile, error) {
	if o.qos == "" {
		return nil, nil
	}
	p, err := dds.LoadProfile(o.qos)
	return &p, err
}

// find returns a topic. If there is none of the name, it is one of raw bytes, with the policies of
// a profile.
func find(p party, name string, profile *dds.Profile) dds.TopicInfo {
	for _, t := range p.Topics() {
		if t.Name == name {
			return t
		}
	}
	info := dds.TopicInfo{Name: name, Type: dds.Raw().Name()}
	if profile != nil {
		info.QoS = profile.Topic
	}
	return info
}

// open declares a topic as it is.
func open(ctx context.Context, p party, info dds.TopicInfo) (*dds.Topic[dds.Encoded], error) {
	return dds.NewTopic(ctx, p, info.Name, dds.EncodedAs(info.Type, info.Keyed), info.QoS)
}
