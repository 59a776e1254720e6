package objects

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/replicated"
)

// caller is the command "call" with its flags.
type caller struct {
	options
	local  bool
	base64 bool
	key    string
	shard  int
}

// The help of this command.
const (
	callHelp = `Call has a command executed, or runs a query, and prints the reply. A command runs in a session: it is executed exactly once, whichever members fail
during the call. If no member answers in time the command may or may not have been executed. The error of a handler is printed, and the exit status is 1.

Arguments and replies of CBOR are JSON here. Without JSON the arguments are null, which a handler sees as the zero value; "-" stands for the standard
input. Byte strings are {"$bytes": "…"} with base64, tags {"$tag": 1, "$value": …}.

An object in shards is called on one of them: --key names what the arguments are about, and the shard of that key is called, as by a program that
declares the operation with this key; --shard names the shard itself.

Arguments and replies of raw bytes are text, as it is, or base64 with --base64. Other encodings, such as protocol buffers, need a program that has the types.`
	callExamples = `  go run ./examples/bank member -id 1 -members 127.0.0.1:7001   # a bank of one member, in another terminal
  squall call --connect 127.0.0.1:8001 bank deposit '{"Account":"ann","Cents":100}'
  squall call --connect 127.0.0.1:8001 bank balance '"ann"'
  squall call --connect 127.0.0.1:8001 --local bank balance - < account.json
  squall call --connect 127.0.0.1:8001 --key colour kv get '"colour"'`
)

// NewCallCommand returns the command "call".
func NewCallCommand() *cobra.Command {
	var c caller
	cmd := &cobra.Command{
		Use:               "call --connect HOST:PORT [flags] OBJECT OPERATION [JSON]",
		Short:             "Call an operation of a replicated object, and print its reply",
		Long:              callHelp,
		Example:           callExamples,
		Args:              operands,
		ValidArgsFunction: c.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := arguments(args[2:], cmd.InOrStdin())
			if err != nil {
				return err
			}
			reply, err := c.call(cmd.Context(), args[0], args[1], text)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(reply)
			return err
		},
	}
	c.declare(cmd)
	f := cmd.Flags()
	f.BoolVar(&c.local, "local", false, "run a query on the copy of one member as it is, without asking the others")
	f.StringVar(&c.key, "key", "", "`key` whose shard is called")
	f.IntVar(&c.shard, "shard", -1, "`number` of the shard that is called, from 0")
	f.BoolVar(&c.base64, "base64", false, "arguments and replies of raw bytes are base64")
	return cmd
}

// arguments are those of an operation, or what "-" stands for.
func arguments(args []string, in io.Reader) (string, error) {
	text := strings.Join(args, "")
	if text != "-" {
		return text, nil
	}
	data, err := io.ReadAll(in)
	return string(data), err
}

// operands checks that there are an object and an operation, and at most three arguments.
func operands(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("OBJECT is missing: the name of an object\nsee %s --help", cmd.CommandPath())
	case len(args) == 1:
		return fmt.Errorf("OPERATION is missing: the name of an operation of %q\nsee %s --help", args[0], cmd.CommandPath())
	case len(args) > 3:
		return fmt.Errorf("%q is one argument too many: JSON is one argument, in quotes\nsee %s --help", args[3], cmd.CommandPath())
	}
	return nil
}

// call calls an operation and returns its reply as it is printed.
func (c *caller) call(ctx context.Context, object, operation, text string) (_ []byte, err error) {
	o, op, err := c.operation(ctx, object, operation)
	if err != nil {
		return nil, err
	}
	shard, err := c.place(o)
	if err != nil {
		return nil, err
	}
	args, err := c.encode(op, text)
	if err != nil {
		return nil, err
	}
	if err := known(op, "reply", op.Reply); err != nil { // before a command is executed
		return nil, err
	}
	client, err := c.dial(ctx, o.Cluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	var target replicated.Target = client.Object(o.Name)
	if shard >= 0 {
		target = client.Object(o.Name).Shard(shard)
	}
	reply, err := c.execute(ctx, target, op, args)
	if err != nil {
		return nil, err
	}
	return c.decode(op, reply)
}

// execute has a command executed, or runs a query, and returns the encoded reply.
func (c *caller) execute(ctx context.Context, target replicated.Target, op replicated.OperationInfo, args []byte) (reply []byte, err error) {
	err = c.ask(ctx, func(ctx context.Context) (err error) {
		switch {
		case !op.Query:
			reply, err = replicated.NewCommand[[]byte, []byte](op.Name).Call(ctx, target, args)
		case c.local:
			reply, err = replicated.NewQuery[[]byte, []byte](op.Name).Local(ctx, target, args)
		default:
			reply, err = replicated.NewQuery[[]byte, []byte](op.Name).Call(ctx, target, args)
		}
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) && !op.Query {
		err = fmt.Errorf("the command may be executed or not: %w", err)
	}
	return reply, err
}

// operation finds an object and its operation, which has to be of the kind that the flags are for.
func (c *caller) operation(ctx context.Context, object, name string) (o replicated.ObjectInfo, op replicated.OperationInfo, err error) {
	all, err := c.list(ctx)
	if err == nil {
		o, err = choose(all, object)
	}
	if err == nil {
		op, err = find(o, name)
	}
	switch {
	case err != nil:
	case c.local && !op.Query:
		err = fmt.Errorf("--local is for queries: %q is a command", op.Name)
	case c.base64 && op.Arguments != "raw" && op.Reply != "raw":
		err = fmt.Errorf("--base64 is for raw bytes: %q has none", op.Name)
	}
	return o, op, err
}

// place returns the shard that is called, or -1 for an object without shards.
func (c *caller) place(o replicated.ObjectInfo) (int, error) {
	n := len(o.Shards)
	switch {
	case n == 0 && (c.key != "" || c.shard >= 0):
		return 0, fmt.Errorf("--key and --shard are for objects in shards: %q is in none", o.Name)
	case n == 0:
		return -1, nil
	case c.key != "" && c.shard >= 0:
		return 0, errors.New("give one of --key and --shard")
	case c.key != "":
		return replicated.ShardOf(c.key, n), nil
	case c.shard < 0:
		return 0, fmt.Errorf("object %q is in %d shards: give --key or --shard", o.Name, n)
	case c.shard >= n:
		return 0, fmt.Errorf("--shard %d: object %q has the shards 0 to %d", c.shard, o.Name, n-1)
	}
	return c.shard, nil
}

// choose finds an object by its name.
func choose(all []replicated.ObjectInfo, name string) (o replicated.ObjectInfo, err error) {
	var names, clusters []string
	for _, i := range all {
		names = append(names, i.Name)
		if i.Name == name {
			o = i
			clusters = append(clusters, i.Cluster)
		}
	}
	slices.Sort(names)
	switch {
	case len(all) == 0:
		return o, fmt.Errorf("no object %q: the member serves none", name)
	case len(clusters) == 0:
		return o, fmt.Errorf("no object %q: there is %s", name, strings.Join(slices.Compact(names), ", "))
	case len(clusters) > 1:
		return o, fmt.Errorf("several groups have an object %q: give --cluster, one of %s", name, strings.Join(clusters, ", "))
	}
	return o, nil
}

// find finds an operation by its name.
func find(o replicated.ObjectInfo, name string) (replicated.OperationInfo, error) {
	var all []string
	for _, op := range o.Operations {
		if op.Name == name {
			return op, nil
		}
		all = append(all, kind(op)+" "+op.Name)
	}
	return replicated.OperationInfo{}, fmt.Errorf("object %q has no operation %q: it has %s", o.Name, name, strings.Join(all, ", "))
}

// known returns an error if a codec is none that can be converted.
func known(op replicated.OperationInfo, part, codec string) error {
	switch codec {
	case "cbor", "raw":
		return nil
	case "":
		return fmt.Errorf("the %s of %q: the codec has no name; only a program that has the types can call it", part, op.Name)
	}
	return fmt.Errorf("the %s of %q: the encoding is %s; only a program that has the types can call it", part, op.Name, codec)
}

// encode converts the arguments.
func (c *caller) encode(op replicated.OperationInfo, text string) (data []byte, err error) {
	if err := known(op, "arguments", op.Arguments); err != nil {
		return nil, err
	}
	switch {
	case op.Arguments == "cbor":
		if text == "" {
			text = "null"
		}
		data, err = fromJSON(text)
	case c.base64:
		data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	default:
		data = []byte(text)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments of %q: %w", op.Name, err)
	}
	return data, nil
}

// decode converts a reply.
func (c *caller) decode(op replicated.OperationInfo, data []byte) ([]byte, error) {
	switch {
	case op.Reply == "cbor":
		text, err := toJSON(data)
		if err != nil {
			err = fmt.Errorf("the reply of %q, which has been executed: %w", op.Name, err)
		}
		return text, err
	case c.base64:
		return append([]byte(base64.StdEncoding.EncodeToString(data)), '\n'), nil
	}
	return data, nil
}
