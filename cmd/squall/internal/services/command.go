// Package services has the commands of "squall ripc", which find, call and ping services of package
// ripc.
package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory"
)

// NewCommand returns the command "ripc".
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ripc",
		Short: "Find, call and ping services, and run a directory of them",
		Long: `Ripc uses services of package ripc: those of this host, which are registered with OneHost, or, with --directory, those in the directory of a
group.`,
		Example: `  squall ripc ls                                        # the services of this host
  squall ripc ping quotes
  squall ripc directory --listen localhost:7100         # a directory for trying it
  squall ripc call orders '{"buy":1}' --directory localhost:7100`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newListCommand(), newCallCommand(), newPingCommand(), newDirectoryCommand())
	return cmd
}

// options are the flags of all commands that use services.
type options struct {
	directory []string
	domain    string
	secret    string
	secure    show.Certificates
	timeout   time.Duration
}

func (o *options) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.directory, "directory", nil, "`HOST:PORT` of members with a directory; none: the services of this host")
	f.StringVar(&o.domain, "domain", "", "`name` that the services of this host have in common")
	f.StringVar(&o.secret, "secret-file", "", "`file` with the secret of the endpoints")
	f.DurationVar(&o.timeout, "timeout", 5*time.Second, "how long to wait for each answer")
	o.secure.Declare(f, ", for endpoints that use TLS", "the others")
	show.NoFiles(cmd, "directory", "domain", "timeout")
}

// endpoint is the configuration of an endpoint that knows no directory.
func (o *options) endpoint() (cfg ripc.Config, err error) {
	if o.timeout <= 0 {
		return cfg, fmt.Errorf("--timeout %v: must be more than 0", o.timeout)
	}
	cfg = ripc.Config{Resolver: ripc.OneHost(o.domain), MoveTimeout: o.timeout}
	if cfg.TLS, err = o.secure.Load(); err != nil {
		return cfg, err
	}
	if cfg.TLS != nil {
		cfg.Listen = "127.0.0.1:0"
	}
	cfg.Secret, err = show.Secret(o.secret)
	return cfg, err
}

// client opens an endpoint that finds services as the flags say, and the client of a directory if
// there is one.
func (o *options) client(ctx context.Context) (s *ripc.Service, c *directory.Client, closing func() error, err error) {
	cfg, err := o.endpoint()
	if err != nil {
		return nil, nil, nil, err
	}
	if len(o.directory) > 0 {
		c, err = directory.Dial(ctx, directory.ClientConfig{Addresses: o.directory, TLS: cfg.TLS, Secret: cfg.Secret})
		if err != nil {
			return nil, nil, nil, err
		}
		cfg.Resolver = c
	}
	e, err := ripc.Open(ctx, cfg)
	if err == nil {
		s, err = e.Register(ctx, "")
	}
	closing = func() (err error) {
		if e != nil {
			err = e.Close()
		}
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, closing())
	}
	return s, c, closing, nil
}

// Listed is a service in what "squall ripc ls --json" prints.
type Listed struct {
	Service ripc.ID      `json:"service"`
	Domain  string       `json:"domain,omitempty"`
	Process string       `json:"process,omitempty"` // of this host
	Owner   string       `json:"owner,omitempty"`   // in a directory
	Shared  bool         `json:"shared,omitempty"`
	Places  []ripc.Place `json:"places"`
}

func newListCommand() *cobra.Command {
	var o options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [flags] [PREFIX]",
		Short: "List services and where they are",
		Example: `  squall ripc ls
  squall ripc ls --directory 10.0.0.1:7100,10.0.0.2:7100
  squall ripc ls --json web | jq '.[].places'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			all, err := o.list(cmd.Context(), prefix)
			if err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), all)
			}
			print(cmd.OutOrStdout(), all)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as a JSON array")
	o.declare(cmd)
	return cmd
}

// list finds the services whose ids begin with a prefix.
func (o *options) list(ctx context.Context, prefix string) (all []Listed, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(o.timeout, time.Millisecond))
	defer cancel()
	all = []Listed{}
	if len(o.directory) == 0 {
		services, err := ripc.LocalServices(ctx)
		for _, s := range services {
			if s.Domain == o.domain && strings.HasPrefix(string(s.Service), prefix) {
				all = append(all, Listed{Service: s.Service, Domain: s.Domain, Process: s.Process, Places: []ripc.Place{s.Place}})
			}
		}
		return all, err
	}
	_, c, closing, err := o.client(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := c.List(ctx, prefix)
	for _, e := range entries {
		all = append(all, Listed{Service: e.Service, Owner: e.Owner, Shared: e.Shared, Places: slices.Concat([]ripc.Place{}, e.Places)})
	}
	return all, errors.Join(err, closing())
}

// print prints a line for each place.
func print(w io.Writer, all []Listed) {
	t := show.Table(w, "service", "place", "of")
	for _, l := range all {
		service, of := show.Text(l.Service), show.Text(l.Process+l.Owner)
		if len(of) > 24 {
			of = of[:24] + "…"
		}
		if len(l.Places) == 0 {
			t.AppendRow(table.Row{service, "nowhere; the name is held", of})
		}
		for _, p := range l.Places {
			where := show.Text(p.Addr)
			if where == "" {
				where = "this host"
			}
			t.AppendRow(table.Row{service, where, of})
		}
	}
	t.Render()
}

// complete completes the id of a service of this host. A directory is not asked: a shell that waits
// for a machine is no help.
func (o *options) complete(cmd *cobra.Command, args []string, typed string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 || len(o.directory) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := o.list(cmd.Context(), typed)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, l := range all {
		ids = append(ids, string(l.Service))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// oneID checks that there is an id, and at most so many arguments.
func oneID(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("ID is missing: the id of a service\nsee %s --help", cmd.CommandPath())
		}
		if args[0] == "" {
			return fmt.Errorf("ID is empty: the id of a service\nsee %s --help", cmd.CommandPath())
		}
		if len(args) > most {
			return fmt.Errorf("%q is one argument too many\nsee %s --help", args[most], cmd.CommandPath())
		}
		return nil
	}
}
