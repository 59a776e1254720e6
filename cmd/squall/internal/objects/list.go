package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/replicated"
)

// Listed is an object in what "squall objects --json" prints.
type Listed struct {
	Object     string          `json:"object"`
	Cluster    string          `json:"cluster"`
	Member     squall.NodeID   `json:"member"` // that described it
	Members    []squall.NodeID `json:"members"`
	Version    string          `json:"version"` // view:position of the last record
	Executed   uint64          `json:"executed"`
	Sessions   int             `json:"sessions"`
	Persistent bool            `json:"persistent"`
	Operations []Operation     `json:"operations"`
	Shards     []Shard         `json:"shards,omitempty"` // of an object in shards; version, executed and sessions are of the shard of member
}

// Shard is a shard in what "squall objects --json" prints.
type Shard struct {
	Shard   int             `json:"shard"`
	Members []squall.NodeID `json:"members"`
}

// Operation is an operation in what "squall objects --json" prints.
type Operation struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // command or query
	Enabled   bool   `json:"enabled"`
	Arguments string `json:"arguments,omitempty"` // name of the codec
	Reply     string `json:"reply,omitempty"`
	Ready     bool   `json:"ready,omitempty"` // all members have it, and it waits to be enabled
}

// NewListCommand returns the command "objects".
func NewListCommand() *cobra.Command {
	var o options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "objects --connect HOST:PORT [flags]",
		Short: "List replicated objects and their operations",
		Long: `Objects lists the replicated objects that a member serves to clients: their operations and how arguments and replies are encoded, the members, the
position of the last record, and how many clients have sessions.`,
		Example: `  go run ./examples/bank member -id 1 -members 127.0.0.1:7001   # a bank of one member, in another terminal
  squall objects --connect 127.0.0.1:8001
  squall objects --connect 127.0.0.1:8001 --json | jq '.[].operations[].name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := o.list(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return show.JSON(cmd.OutOrStdout(), listed(all))
			}
			print(cmd.OutOrStdout(), all)
			return nil
		},
	}
	o.declare(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as a JSON array")
	cmd.AddCommand(newEnableCommand())
	return cmd
}

func newEnableCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "enable --connect HOST:PORT [flags] OBJECT",
		Short: "Enable the operations that all members of an object have",
		Long: `Enable enables the commands of an object that every member can execute and that wait to be enabled, at once. From then on a program that lacks one of
them can be no member: there is no way back to the older program. In an object in shards it enables those of the shard of the member that answers.`,
		Example: `  squall objects --connect 127.0.0.1:8001           # shows which commands wait
  squall objects enable --connect 127.0.0.1:8001 bank`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one object")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := o.enable(cmd.Context(), args[0])
			if err == nil && len(names) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no command waits to be enabled")
			}
			for _, name := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "enabled %s\n", show.Text(name))
			}
			return err
		},
	}
	o.declare(cmd)
	return cmd
}

// enable returns the names of the operations that it enabled.
func (o *options) enable(ctx context.Context, object string) (names []string, err error) {
	c, err := o.dial(ctx, o.cluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return c.EnableOperations(ctx, object)
}

func listed(all []replicated.ObjectInfo) []Listed {
	list := []Listed{}
	for _, o := range all {
		l := Listed{
			Object: o.Name, Cluster: o.Cluster, Member: o.Member, Members: o.Members, Version: o.Version.String(),
			Executed: o.Executed, Sessions: o.Sessions, Persistent: o.Persistent, Operations: []Operation{},
		}
		for _, op := range o.Operations {
			l.Operations = append(l.Operations, Operation{Name: op.Name, Kind: kind(op), Enabled: op.Enabled, Ready: op.Ready, Arguments: op.Arguments, Reply: op.Reply})
		}
		for i, members := range o.Shards {
			l.Shards = append(l.Shards, Shard{i, members})
		}
		list = append(list, l)
	}
	return list
}

// print prints a line for each object, and a table of its operations.
func print(w io.Writer, all []replicated.ObjectInfo) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no objects")
	}
	for _, o := range all {
		persistent := ""
		if o.Persistent {
			persistent = ", persistent"
		}
		of := "of " + joined(o.Members)
		if len(o.Shards) > 0 {
			of = "in no shard"
		}
		if o.Shard > 0 && o.Shard <= len(o.Shards) {
			of = fmt.Sprintf("of %s in shard %d", joined(o.Shards[o.Shard-1]), o.Shard-1)
		}
		fmt.Fprintf(w, "%s of the group %s%s: version %v at member %d %s; %s executed, %s\n", o.Name, o.Cluster, persistent, o.Version, o.Member,
			of, show.Counted(int(o.Executed), "command", "commands"), show.Counted(o.Sessions, "session", "sessions"))
		for i, members := range o.Shards {
			fmt.Fprintf(w, "shard %d: members %s\n", i, joined(members))
		}
		printOperations(w, o.Operations)
	}
}

func printOperations(w io.Writer, all []replicated.OperationInfo) {
	t := show.Table(w, "operation", "kind", "arguments", "reply", "enabled")
	for _, op := range all {
		enabled := "yes"
		switch {
		case op.Ready:
			enabled = "not yet"
		case !op.Enabled:
			enabled = "not by all members"
		}
		t.AppendRow(table.Row{show.Text(op.Name), kind(op), named(op.Arguments), named(op.Reply), enabled})
	}
	t.Render()
}

// joined is a list of members, or a dash.
func joined(members []squall.NodeID) string {
	if len(members) == 0 {
		return "-"
	}
	var all []string
	for _, m := range members {
		all = append(all, fmt.Sprint(m))
	}
	return strings.Join(all, ", ")
}

// named is the name of a codec in a table.
func named(codec string) string {
	if codec == "" {
		return "?"
	}
	return codec
}
