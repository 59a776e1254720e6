// Package fabric is the command "fabric": it checks what connects two hosts, as a group uses it.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

const (
	listenHelp = `Listen waits for "squall fabric check" of another host, and takes part in its checks, until it is interrupted.

Any process that reaches the address may check. Nothing is encrypted.`
	checkHelp = `Check connects to a process of "squall fabric listen", by shared memory (on the same host), TCP, and RDMA (verbs, if both ends are built with the tag
"verbs" and have a device). For each it sends messages in both directions, and checks every byte of each message, the order of each sender,
and that both ends deliver the same order. Bytes that are visible too late, or words that are torn, show as wrong messages.

The latency is the time from sending a message to its delivery at the sender, when the other end has it, so a round trip. The exit status is 1
if anything is wrong, or if a fabric that was named does not connect.`
)

// options are the flags of the commands.
type options struct {
	listen   string
	fabrics  []string
	duration time.Duration
	json     bool
}

var fabrics = map[string]squall.Fabric{"shm": squall.FabricSHM, "tcp": squall.FabricTCP, "verbs": squall.FabricTransport}

// names are those of the fabrics, in the order in which they are checked.
var names = []string{"shm", "tcp", "verbs"}

// NewCommand returns the command "fabric".
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "fabric", Short: "Check what connects two hosts: order, whole words, latency and bandwidth"}
	cmd.AddCommand(newListen(), newCheck())
	return cmd
}

func newListen() *cobra.Command {
	return &cobra.Command{
		Use:     "listen HOST:PORT",
		Short:   "Wait for a check of another host",
		Long:    listenHelp,
		Example: "  squall fabric listen 10.0.0.1:7500",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name the address to listen on: HOST:PORT")
			}
			return show.Addresses("ADDRESS", args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return listen(cmd.Context(), args[0], func(addr string) {
				fmt.Fprintf(cmd.OutOrStdout(), "listening: squall fabric check %s\n", addr)
			})
		},
	}
}

func newCheck() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "check HOST:PORT",
		Short: "Check what connects this host to one where squall fabric listen runs",
		Long:  checkHelp,
		Example: `  squall fabric check 10.0.0.1:7500
  squall fabric check --fabric verbs --duration 10s 10.0.0.1:7500
  squall fabric check --json 10.0.0.1:7500 | jq '.[].latency_p50_ns'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name the address of squall fabric listen: HOST:PORT")
			}
			return show.Addresses("ADDRESS", args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.fabrics, "fabric", nil, "`FABRICS` to check: shm, tcp, verbs; all that connect the two if not given")
	f.DurationVar(&o.duration, "duration", 2*time.Second, "how long to send, for each direction and for both at once")
	f.StringVar(&o.listen, "listen", ":0", "`HOST:PORT` at which the other end reaches this process")
	f.BoolVar(&o.json, "json", false, "print the results as a JSON array")
	show.NoFiles(cmd, "duration", "listen")
	show.Choices(cmd, "fabric", names...)
	return cmd
}

// mostDuration bounds what a check may ask of the other end.
const mostDuration = time.Minute

// run checks each fabric, and prints the results.
func (o *options) run(ctx context.Context, addr string, out io.Writer) error {
	if err := o.valid(); err != nil {
		return err
	}
	var results []*Result
	wrong := 0
	for _, name := range names {
		asked := slices.Contains(o.fabrics, name)
		if len(o.fabrics) > 0 && !asked || name == "shm" && !asked && !isHere(addr) {
			continue
		}
		r := &Result{Fabric: name}
		if err := check(ctx, addr, o, r); err != nil {
			r.Error = err.Error()
		}
		if r.Wrong > 0 || r.Error != "" && (asked || r.Link != "" || name == "tcp") {
			wrong++
		}
		if results = append(results, r); !o.json {
			r.print(out)
		}
	}
	if o.json {
		if err := show.JSON(out, results); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%s failed", show.Counted(wrong, "check", "checks"))
	}
	return nil
}

func (o *options) valid() error {
	if o.duration <= 0 || o.duration > mostDuration {
		return fmt.Errorf("--duration %v: must be more than 0, and at most %v", o.duration, mostDuration)
	}
	for _, name := range o.fabrics {
		if _, is := fabrics[name]; !is {
			return fmt.Errorf("--fabric %s: there are shm, tcp and verbs", name)
		}
	}
	return nil
}

// isHere reports whether an address is of this host.
func isHere(addr string) bool {
	host, _, _ := net.SplitHostPort(addr)
	ips, err := net.LookupIP(host)
	own, failed := net.InterfaceAddrs()
	return err == nil && failed == nil && slices.ContainsFunc(ips, func(ip net.IP) bool {
		return ip.IsLoopback() || slices.ContainsFunc(own, func(a net.Addr) bool {
			n, is := a.(*net.IPNet)
			return is && n.IP.Equal(ip)
		})
	})
}

// Result is what a check of one fabric found.
type Result struct {
	Fabric      string        `json:"fabric"`
	Link        string        `json:"link,omitempty"` // empty: they did not connect
	Error       string        `json:"error,omitempty"`
	LatencyP50  time.Duration `json:"latency_p50_ns"`
	LatencyP99  time.Duration `json:"latency_p99_ns"`
	ThereBytesS float64       `json:"there_bytes_per_s"` // from the process that checks to the one that listens
	BackBytesS  float64       `json:"back_bytes_per_s"`
	Messages    uint64        `json:"messages"` // that were checked, at both ends
	Wrong       uint64        `json:"wrong"`    // of them, in content or order
	SameOrder   bool          `json:"same_order"`
}

func (r *Result) print(w io.Writer) {
	switch {
	case r.Link == "":
		fmt.Fprintf(w, "%-5s not connected: %s\n", r.Fabric, show.Line(r.Error))
		return
	case r.Error != "":
		fmt.Fprintf(w, "%-5s failed: %s\n", r.Fabric, show.Line(r.Error))
		return
	}
	order := "the same order at both ends"
	if !r.SameOrder {
		order = "DIFFERENT ORDERS at both ends"
	}
	fmt.Fprintf(w, "%-5s latency %v (p99 %v), %.0f MB/s there, %.0f MB/s back; %d messages, %d wrong, %s\n", r.Link,
		r.LatencyP50.Round(100*time.Nanosecond), r.LatencyP99.Round(100*time.Nanosecond), r.ThereBytesS/1e6, r.BackBytesS/1e6, r.Messages, r.Wrong, order)
}
