package status

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// options are the flags of the command.
type options struct {
	secure  show.Certificates
	file    string // that has the secret
	secret  []byte
	timeout time.Duration
	hash    bool
	json    bool
}

// The help of this command.
const (
	statusHelp = `Status asks the members of a group how they are. It needs the address of one member; with several, it uses the first one that answers. That member
names the others, and each of them is asked, too.

A table shows the members of the view. A table for each subgroup shows how many positions of the order each member lacks that another member has
received, delivered or written to its disk. A position is a message, or the turn of a member that had none to send. With --hash the members of each
replicated object take a hash of their state after the same command, and the hashes are compared. Commands wait while the state is encoded.

The exit status is 1 if a member does not answer, is not ready, or is suspected, and if views, groups or hashes differ.`
	statusExamples = `  squall status 10.0.0.1:7000
  squall status --hash 10.0.0.1:7000 10.0.0.2:7000
  squall status --json 10.0.0.1:7000 | jq .problems`
)

// NewCommand returns the command "status".
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "status HOST:PORT...",
		Short:   "Show the members of a group, and whether they are well",
		Long:    statusHelp,
		Example: statusExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the address of a member: HOST:PORT")
			}
			return show.Addresses("ADDRESS", args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := o.gather(cmd.Context(), args)
			if err != nil {
				return err
			}
			return o.report(cmd.OutOrStdout(), r)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.hash, "hash", false, "have the members of each replicated object take a hash of their state, and compare the hashes")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "how long to wait for each member to answer")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	o.secure.Declare(f, ", for a group that uses TLS", "the members")
	f.StringVar(&o.file, "secret-file", "", "`FILE` with the secret of the group, for a group that has one")
	show.NoFiles(cmd, "timeout")
	return cmd
}

// report prints a report. Problems of the group are an error.
func (o *options) report(w io.Writer, r *Report) error {
	if o.json {
		if err := show.JSON(w, r); err != nil {
			return err
		}
	} else {
		r.print(w)
	}
	if n := len(r.Problems); n > 0 {
		return fmt.Errorf("the group has %s", show.Counted(n, "problem", "problems"))
	}
	return nil
}

// gather asks a member, and then all others of its view.
func (o *options) gather(ctx context.Context, addrs []string) (*Report, error) {
	if o.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v: must be more than 0", o.timeout)
	}
	security, err := o.secure.Load()
	if err != nil {
		return nil, err
	}
	if o.secret, err = show.Secret(o.file); err != nil {
		return nil, err
	}
	first, err := o.first(ctx, addrs, security)
	if err != nil {
		return nil, err
	}
	answers, errs := o.others(ctx, first, security)
	r := newReport(first, answers, errs)
	if o.hash {
		r, err = o.compared(ctx, r, first, security)
	}
	return r, err
}

// others asks every member of the view of the first status.
func (o *options) others(ctx context.Context, first *squall.Status, security *tls.Config) (answers []*squall.Status, errs map[squall.NodeID]error) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	answers, errs = []*squall.Status{first}, map[squall.NodeID]error{}
	for _, m := range first.Members {
		if m.Node == first.Node {
			continue
		}
		asking.Go(func() {
			s, err := o.ask(ctx, m.Addr, security, false)
			if err == nil && s.Node != m.Node {
				err = fmt.Errorf("%s is the address of member %d now", m.Addr, s.Node)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[m.Node] = err
				return
			}
			answers = append(answers, s)
		})
	}
	asking.Wait()
	return answers, errs
}

// compared has a member of each shard take new hashes, and asks again until all members of a shard
// that answer have the last one.
func (o *options) compared(ctx context.Context, r *Report, first *squall.Status, security *tls.Config) (*Report, error) {
	for _, s := range r.askers() {
		if _, err := o.ask(ctx, s.Addr, security, true); err != nil {
			return nil, err
		}
	}
	for deadline := time.Now().Add(o.timeout); ; {
		again, err := o.ask(ctx, first.Addr, security, false)
		if err != nil {
			return nil, err
		}
		answers, errs := o.others(ctx, again, security)
		r = newReport(again, answers, errs)
		if r.hashed() || time.Now().After(deadline) {
			return r, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// first returns the status of the first member that answers.
func (o *options) first(ctx context.Context, addrs []string, security *tls.Config) (*squall.Status, error) {
	var errs []error
	for _, addr := range addrs {
		s, err := o.ask(ctx, addr, security, false)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (o *options) ask(ctx context.Context, addr string, security *tls.Config, fresh bool) (*squall.Status, error) {
	within := o.timeout
	if fresh {
		within = max(within, hashWithin)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer in %v", within))
	defer cancel()
	return squall.AskStatus(ctx, addr, squall.StatusConfig{TLS: security, Secret: o.secret, Fresh: fresh})
}

// hashWithin is the least time that members get to encode a state.
const hashWithin = 30 * time.Second
