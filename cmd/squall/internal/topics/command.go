package topics

import (
	"context"
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
)

// NewCommand returns the command "dds".
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dds",
		Short: "List topics, read and write samples, and explain why endpoints do not match",
		Long: `Dds uses the topics of a space (package dds). Each command is a member of the group while it runs: it joins the members that --join names. The space must be
the only subgroup of the group, and be declared with its name and nothing else.`,
		Example: `  squall dds sub greetings --listen 127.0.0.1:7001              # founds a group, in one terminal
  squall dds pub greetings "hello" --join 127.0.0.1:7001        # in another one
  squall dds ls --join 127.0.0.1:7001
  squall dds explain greetings --join 127.0.0.1:7001`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newListCommand(), newSubCommand(), newPubCommand(), newExplainCommand())
	return cmd
}

// options are the flags of all commands.
type options struct {
	join    []string
	listen  string
	cluster string
	space   string
	secure  show.Certificates
	timeout time.Duration
	json    bool
}

func (o *options) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.join, "join", nil, "`HOST:PORT` of members of the group; none: a group is founded")
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`HOST:PORT` where this process is a member")
	f.StringVar(&o.cluster, "cluster", "dds", "`name` of the group")
	f.StringVar(&o.space, "space", "space", "`name` of the space, which is that of its subgroup")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to wait until this process is a member")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.secure.Cert, "tls-cert", "", "`file` with this machine's certificate, if the group uses TLS")
	f.StringVar(&o.secure.Key, "tls-key", "", "`file` with its key")
	f.StringVar(&o.secure.CA, "tls-ca", "", "`file` with the certificates of the authorities that signed the certificates of the others")
	for _, name := range []string{"join", "listen", "cluster", "space", "timeout"} {
		cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// with calls f with a participant that is a member meanwhile.
func (o *options) with(ctx context.Context, f func(*dds.Participant) error) error {
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %v: must be more than 0", o.timeout)
	}
	certificates, err := o.secure.Load()
	if err != nil {
		return err
	}
	p := dds.NewParticipant(dds.Config{Subgroup: squall.SubgroupConfig{Name: o.space}})
	opening, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("this process is no member within %v", o.timeout))
	defer cancel()
	err = p.Open(opening, squall.Config{
		Cluster: o.cluster, ID: squall.NodeID(rand.Uint64()>>1 | 1), Listen: o.listen, Join: o.join, InitialMembers: 1, TLS: certificates,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // what matters comes back as an error
	})
	if err != nil {
		return err
	}
	err = f(p)
	closing, cancelClosing := context.WithTimeout(context.WithoutCancel(ctx), o.timeout)
	defer cancelClosing()
	return errors.Join(err, p.Close(closing))
}

// find returns a topic. If there is none of the name, it is one of raw bytes.
func find(p *dds.Participant, name string) dds.TopicInfo {
	for _, t := range p.Topics() {
		if t.Name == name {
			return t
		}
	}
	return dds.TopicInfo{Name: name, Type: dds.Raw().Name()}
}

// open declares a topic as it is.
func open(ctx context.Context, p *dds.Participant, info dds.TopicInfo) (*dds.Topic[dds.Encoded], error) {
	return dds.NewTopic(ctx, p, info.Name, dds.EncodedAs(info.Type, info.Keyed), info.QoS)
}
