package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	_ "github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory"
)

// serving is the command "directory" with its flags.
type serving struct {
	listen, dir, secret string
	secure              show.Certificates
}

func newDirectoryCommand() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "directory",
		Short: "Run a directory with one member, for trying it",
		Long: `Directory runs a group of its own, with this process as the only member, and serves a directory of services until it is interrupted. It is for trying: a directory that must not
fail is a subgroup of a group with several members (package ripc/directory).`,
		Example: `  squall ripc directory --listen localhost:7100
  squall ripc ls --directory localhost:7100`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.listen, "listen", "localhost:7100", "`HOST:PORT` for clients")
	f.StringVar(&s.dir, "dir", "", "`directory` for a log, so that owners are known after a restart; none: all is forgotten")
	f.StringVar(&s.secret, "secret-file", "", "`file` with a secret that clients must know")
	s.secure.Declare(f, ", for TLS", "the clients")
	show.NoFiles(cmd, "listen")
	cmd.MarkFlagDirname("dir")
	return cmd
}

func (s *serving) run(ctx context.Context, out io.Writer) error {
	security, err := s.secure.Load()
	if err != nil {
		return err
	}
	cfg := ripc.Config{Listen: s.listen, TLS: security}
	if cfg.Secret, err = show.Secret(s.secret); err != nil {
		return err
	}
	d := directory.New(directory.Config{Persistent: s.dir != ""})
	cfg.Resolver = d
	e, err := ripc.Open(ctx, cfg)
	if err != nil {
		return err
	}
	g, err := squall.Open(ctx, squall.Config{
		Cluster: "squall ripc directory", ID: 1, Dir: s.dir, Listen: "127.0.0.1:0", InitialMembers: 1,
		Logger: slog.New(slog.DiscardHandler), Subgroups: []squall.SubgroupConfig{d.Subgroup()},
	})
	if err != nil {
		return errors.Join(err, e.Close())
	}
	fmt.Fprintf(out, "a directory is at %s\n", e.Addr())
	err = d.Serve(ctx, g, e)
	return errors.Join(err, e.Close(), show.AfterEnd(ctx, 5*time.Second, g.Close))
}
