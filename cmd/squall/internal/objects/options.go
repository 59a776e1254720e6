package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/ripc"
)

// options are the flags of both commands.
type options struct {
	connect []string
	cluster string
	secret  string
	secure  show.Certificates
	timeout time.Duration
}

func (o *options) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.connect, "connect", nil, "`HOST:PORT` at which members serve clients; one is used, and another one when that fails")
	f.StringVar(&o.cluster, "cluster", "", "group `NAME` (default: any)")
	f.StringVar(&o.secret, "secret-file", "", "`file` with the secret of the members' servers")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "how long to wait for each answer")
	o.secure.Declare(f, ", for members that use TLS", "the members")
	show.NoFiles(cmd, "connect", "cluster", "timeout")
}

// dial returns a client of a group, or of all groups if cluster is empty.
func (o *options) dial(ctx context.Context, cluster string) (*replicated.Client, error) {
	if len(o.connect) == 0 {
		return nil, errors.New("--connect is missing: HOST:PORT at which a member serves clients")
	}
	if o.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v: must be more than 0", o.timeout)
	}
	if err := show.Addresses("--connect", o.connect); err != nil {
		return nil, err
	}
	security, err := o.secure.Load()
	if err != nil {
		return nil, err
	}
	endpoint := ripc.Config{TLS: security}
	if endpoint.Secret, err = show.Secret(o.secret); err != nil {
		return nil, err
	}
	return replicated.Dial(ctx, replicated.ClientConfig{
		Cluster: cluster, Addresses: o.connect, Endpoint: endpoint,
		MemberTimeout: min(replicated.DefaultMemberTimeout, o.timeout/time.Duration(len(o.connect)+1)+time.Millisecond),
	})
}

// ask has f ask a member, and explains why there is no answer in time.
func (o *options) ask(ctx context.Context, f func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	err := f(asking)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer from %s within %v: %w", strings.Join(o.connect, ", "), o.timeout, err)
	}
	return err
}

// list describes the objects of the members.
func (o *options) list(ctx context.Context) (all []replicated.ObjectInfo, err error) {
	c, err := o.dial(ctx, o.cluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	err = o.ask(ctx, func(ctx context.Context) error {
		all, err = c.Objects(ctx)
		return err
	})
	return all, err
}

// patience is how long a shell waits for the names that complete a line.
const patience = time.Second

// complete completes the name of an object, and behind it, if there are operations, that of one of
// its operations. It asks the members that the line names, for a second at most.
func (o *options) complete(cmd *cobra.Command, args []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 1 || len(o.connect) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	o.timeout = min(o.timeout, patience)
	all, err := o.list(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	add := func(name, what string) {
		if strings.HasPrefix(name, typed) {
			names = append(names, cobra.CompletionWithDesc(name, what))
		}
	}
	for _, object := range all {
		if len(args) == 0 {
			add(object.Name, "object of the group "+object.Cluster)
			continue
		}
		if object.Name == args[0] {
			for _, op := range object.Operations {
				add(op.Name, kind(op))
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// kind is the word for what an operation is.
func kind(op replicated.OperationInfo) string {
	if op.Query {
		return "query"
	}
	return "command"
}
