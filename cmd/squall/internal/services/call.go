package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc"
)

func newCallCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "call [flags] ID [BODY]",
		Short: "Call a service, and print its reply",
		Long:  "Call sends BODY, or without it what it reads from its standard input, to a service, and prints the reply as it is.",
		Example: `  squall ripc call greeter world
  squall ripc call --directory 10.0.0.1:7100 orders < order.json`,
		Args:              oneID(2),
		ValidArgsFunction: o.complete,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var body []byte
			if len(args) > 1 {
				body = []byte(args[1])
			} else if body, err = io.ReadAll(cmd.InOrStdin()); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), max(o.timeout, time.Millisecond))
			defer cancel()
			s, _, closing, err := o.client(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, closing()) }()
			m, err := s.Call(ctx, s.To(ripc.ID(args[0])), body)
			if err != nil {
				return err
			}
			defer m.Release()
			_, err = cmd.OutOrStdout().Write(m.Data)
			return err
		},
	}
	o.declare(cmd)
	return cmd
}

// Pinged is what "squall ripc ping --json" prints.
type Pinged struct {
	Service   ripc.ID `json:"service"`
	Transport string  `json:"transport"`
	TimesNs   []int64 `json:"times_ns"`
	Lost      int     `json:"lost"`
	MinNs     int64   `json:"min_ns"`
	MedianNs  int64   `json:"median_ns"`
	MaxNs     int64   `json:"max_ns"`
}

// pinging is the command "ping" with its flags.
type pinging struct {
	options
	count int
	every time.Duration
	json  bool
}

func newPingCommand() *cobra.Command {
	var p pinging
	cmd := &cobra.Command{
		Use:   "ping [flags] ID",
		Short: "Measure round trips to the process with a service",
		Long:  "Ping measures round trips to the endpoint with a service. The service itself is not called.",
		Example: `  squall ripc ping quotes
  squall ripc ping --count 100 --interval 1ms --json quotes | jq .median_ns`,
		Args:              oneID(1),
		ValidArgsFunction: p.complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd, ripc.ID(args[0])) },
	}
	f := cmd.Flags()
	f.IntVarP(&p.count, "count", "c", 5, "number of round trips")
	f.DurationVarP(&p.every, "interval", "i", time.Second, "time between two of them")
	f.BoolVar(&p.json, "json", false, "print the result as one JSON object")
	p.declare(cmd)
	show.NoFiles(cmd, "count", "interval")
	return cmd
}

func (p *pinging) run(cmd *cobra.Command, id ripc.ID) (err error) {
	if p.count < 1 || p.every < 0 {
		return fmt.Errorf("--count %d, --interval %v: at least 1, and 0", p.count, p.every)
	}
	ctx := cmd.Context()
	s, _, closing, err := p.client(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	to := s.To(id)
	opening, cancel := context.WithTimeout(ctx, p.timeout)
	err = to.Connect(opening)
	cancel()
	if err != nil {
		return err
	}
	result := Pinged{Service: to.ID(), Transport: to.Transport()}
	for k := range p.count {
		if k > 0 {
			if err := wait.Sleep(ctx, p.every); err != nil {
				return err
			}
		}
		if took, err := result.ping(ctx, to, p.timeout); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), err)
		} else if !p.json {
			fmt.Fprintf(cmd.OutOrStdout(), "%s over %s: %v\n", to.ID(), to.Transport(), took)
		}
	}
	return result.finish(cmd.OutOrStdout(), p.json)
}

// ping measures one round trip.
func (p *Pinged) ping(ctx context.Context, to *ripc.Remote, within time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	took, err := to.Ping(ctx)
	if err != nil {
		p.Lost++
	} else {
		p.TimesNs = append(p.TimesNs, took.Nanoseconds())
	}
	return took, err
}

// finish prints the summary. It is an error if nothing came back.
func (p Pinged) finish(w io.Writer, asJSON bool) (err error) {
	sorted := slices.Sorted(slices.Values(p.TimesNs))
	if len(sorted) > 0 {
		p.MinNs, p.MedianNs, p.MaxNs = sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1]
	}
	if asJSON {
		err = show.JSON(w, p)
	} else {
		_, err = fmt.Fprintf(w, "%d round trips, %d lost; shortest %v, median %v, longest %v\n",
			len(sorted), p.Lost, time.Duration(p.MinNs), time.Duration(p.MedianNs), time.Duration(p.MaxNs))
	}
	if err == nil && len(sorted) == 0 {
		err = fmt.Errorf("%s did not answer", p.Service)
	}
	return err
}
