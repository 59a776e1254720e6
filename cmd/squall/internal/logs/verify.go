package logs

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// The help of this command.
const (
	verifyHelp = `Verify reads everything in the directories of members that do not run: each checksum, that numbers, versions and times grow, that
nothing is missing in between, and the snapshots. Of several directories, it compares the logs of the same name record by record: where
all of them have records, these must be the same; a log may begin later than another one, or end earlier.

With --keys, every record must be vouched for by a signature of its member. The file has a line for each member: its node id and its
Ed25519 public key, in base64 or hexadecimal; what follows a # is not looked at.

Nothing is changed. Exit status 0 says that everything is as it was written.`
	verifyExamples = `  squall log verify /var/lib/squall
  squall log verify --keys members.keys /var/lib/squall
  squall log verify --json node1 node2 node3 | jq '.compared[] | {log, records, differ}'`
)

func newVerifyCommand() *cobra.Command {
	var keyFile string
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:               "verify [flags] DIR…",
		Short:             "Check the logs in directories, and compare several members'",
		Long:              verifyHelp,
		Example:           verifyExamples,
		Args:              directories,
		ValidArgsFunction: completeDirectories,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			v := verification{dirs: dirs}
			if err := v.complete(keyFile); err != nil {
				return err
			}
			if !quiet {
				v.bar = show.NewProgress(show.ProgressConfig{To: cmd.ErrOrStderr(), Unit: "blocks", After: barAfter})
			}
			err := v.run(cmd.Context())
			v.bar.End()
			if err != nil {
				return err
			}
			return errors.Join(v.print(cmd.OutOrStdout(), asJSON), v.verdict())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&keyFile, "keys", "", "`file` with the members' public keys: every record must be signed")
	f.BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	f.BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	return cmd
}

func (v *verification) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return show.JSONLine(w, v.result())
	}
	_, err := io.WriteString(w, v.text())
	return err
}

// verification is one run, and what came of it.
type verification struct {
	dirs []string
	keys map[order.NodeID]ed25519.PublicKey // nil: signatures are not asked for
	bar  *show.Progress

	reports     []persist.Report
	compared    []persist.Comparison
	notCompared string  // why not
	faults      []error // that are in no report
}

func (v *verification) complete(keyFile string) (err error) {
	for i, dir := range v.dirs {
		if err := still(dir, "a member that runs checks what it reads; stop it and name its directory to have all of it checked"); err != nil {
			return err
		}
		for _, other := range v.dirs[:i] {
			if dir == other {
				return fmt.Errorf("%s: is named twice", dir)
			}
		}
	}
	if keyFile != "" {
		v.keys, err = readKeys(keyFile)
	}
	return err
}

// run checks and compares.
func (v *verification) run(ctx context.Context) error {
	for _, dir := range v.dirs {
		report, err := persist.Verify(ctx, dir, v.keys, func(p persist.Progress) { v.read(dir, p) })
		if err != nil {
			return inUse(dir, err, stopIt)
		}
		v.reports = append(v.reports, report)
		v.signed(&report)
	}
	if len(v.dirs) == 1 {
		return nil
	}
	if v.notCompared = v.obstacle(); v.notCompared != "" {
		return nil
	}
	v.bar.Begin("comparing", 0)
	var err error
	v.compared, err = persist.CompareLogs(ctx, v.dirs...)
	for _, c := range v.compared {
		if c.Differ != "" {
			v.fault("log %v: %s", c.Log, c.Differ)
		}
	}
	return err
}

// barAfter is how long work takes before it is shown how far it is: what is over at once needs
// none.
const barAfter = 500 * time.Millisecond

// read shows how many blocks of a log have been read.
func (v *verification) read(dir string, at persist.Progress) {
	v.bar.Begin(dir+", log "+at.Log.String(), int64(at.Last-at.First+1))
	v.bar.Set(int64(at.Block - at.First + 1))
}

// obstacle says why directories cannot be compared: logs of two clusters are unrelated, whatever
// their names are, and the original content of a damaged log is unknown.
func (v *verification) obstacle() string {
	var faulty []string
	var first *persist.Report // the first report with a known owner
	other := ""
	for i := range v.reports {
		r := &v.reports[i]
		switch {
		case !r.OK():
			faulty = append(faulty, r.Dir)
		case first == nil:
			first = r
		case r.Cluster != first.Cluster && other == "":
			other = r.Dir + " is of another cluster"
			v.fault("%s is of cluster %q, %s of %q: %w", first.Dir, first.Cluster, r.Dir, r.Cluster, persist.ErrOtherCluster)
		}
	}
	switch {
	case len(faulty) == 1:
		return faulty[0] + " has faults"
	case len(faulty) > 1:
		return strings.Join(faulty, ", ") + " have faults"
	}
	return other
}

func (v *verification) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Errorf(format, args...))
}

// signed reports the logs that no trusted key vouches for, if signatures are to be checked.
func (v *verification) signed(r *persist.Report) {
	if v.keys == nil {
		return
	}
	if v.keys[r.Node] == nil {
		v.fault("%s: --keys has no key of node %d", r.Dir, r.Node)
		return
	}
	for _, l := range r.Logs {
		if l.Vouched < l.Records {
			v.fault("%s: log %s.%d: node %d's signatures vouch for %d of %d records", r.Dir, l.Name, l.Shard, r.Node, l.Vouched, l.Records)
		}
	}
}

// verdict is the error that the command ends with.
func (v *verification) verdict() error {
	faults := v.faults
	for _, r := range v.reports {
		if n := faultsIn(&r); n > 0 {
			faults = append(faults, fmt.Errorf("%s: %s", r.Dir, show.Counted(n, "fault", "faults")))
		}
	}
	return errors.Join(faults...)
}

// result is all of it, for programs.
func (v *verification) result() *Verified {
	r := &Verified{OK: v.verdict() == nil, Directories: v.reports, Compared: []Compared{}, NotCompared: v.notCompared}
	for i := range v.compared {
		r.Compared = append(r.Compared, comparedOf(&v.compared[i]))
	}
	for _, err := range v.faults {
		r.Faults = append(r.Faults, err.Error())
	}
	return r
}

func faultsIn(r *persist.Report) int {
	n := len(r.Faults)
	for _, l := range r.Logs {
		n += len(l.Faults)
	}
	return n
}

// shownFaults is how many faults of a log people are shown: a key that is another one's makes one
// of every block.
const shownFaults = 20

// text is the result for people.
func (v *verification) text() string {
	var b strings.Builder
	for _, r := range v.reports {
		fmt.Fprintf(&b, "%s: %s\n", r.Dir, whose(&r))
		for _, f := range r.Faults {
			fmt.Fprintf(&b, "  FAULT  %v\n", f)
		}
		if len(r.Foreign) > 0 {
			fmt.Fprintf(&b, "  in logs/, and not looked at: %s\n", strings.Join(r.Foreign, ", "))
		}
		for _, l := range r.Logs {
			fmt.Fprintf(&b, "  %s\n", v.logText(&l))
			for _, f := range l.Faults[:min(len(l.Faults), shownFaults)] {
				fmt.Fprintf(&b, "    FAULT  %v\n", f)
			}
			if more := len(l.Faults) - shownFaults; more > 0 {
				fmt.Fprintf(&b, "    and %s; --json lists all\n", show.Counted(more, "fault more", "faults more"))
			}
		}
	}
	for _, c := range v.compared {
		b.WriteString(v.comparisonText(&c))
	}
	if why := v.notCompared; why != "" {
		fmt.Fprintf(&b, "not compared: %s\n", why)
	}
	return b.String()
}

// whose returns the owner of a directory as text.
func whose(r *persist.Report) string {
	if r.Node == 0 {
		return "of an unknown owner"
	}
	return fmt.Sprintf("node %d of %q", r.Node, r.Cluster)
}

func (v *verification) logText(l *persist.LogReport) string {
	text := fmt.Sprintf("%s.%d (%s): %s", l.Name, l.Shard, cmp.Or(l.Engine, "engine unknown"), show.Counted(int(l.Records), "record", "records"))
	if l.First != nil {
		text += fmt.Sprintf(" from %s to %s", l.First.Version, l.Last.Version)
	}
	text += fmt.Sprintf(" in %s, %s", show.Counted(int(l.Blocks), "block", "blocks"), humanize.Bytes(l.Bytes))
	if l.Snapshot != nil {
		text += fmt.Sprintf(", after a snapshot of %s", l.Snapshot.Version)
	}
	switch {
	case v.keys != nil && l.Vouched == l.Records:
		text += "; signed, all of them"
	case l.Hashed > 0 && v.keys == nil:
		text += "; signed, not checked without --keys"
	}
	if l.Torn != nil {
		text += fmt.Sprintf("; its last write, from record %d on, did not end or is damaged, and is not in it", l.Torn.Number)
	}
	if len(l.Faults) == 0 {
		return text + "; good"
	}
	return text + "; " + show.Counted(len(l.Faults), "fault", "faults")
}

// comparisonText says what is the same, and which directories have less of it.
func (v *verification) comparisonText(c *persist.Comparison) string {
	switch {
	case c.Differ != "":
		return fmt.Sprintf("log %v DIFFERS after %s: %s\n", c.Log, show.Counted(int(c.Records), "record", "records"), c.Differ)
	case len(c.Dirs) == 1:
		return fmt.Sprintf("log %v is in %s only\n", c.Log, c.Dirs[0])
	case c.Records == 0:
		return fmt.Sprintf("log %v: %s have no records in common\n", c.Log, strings.Join(c.Dirs, ", "))
	}
	return fmt.Sprintf("log %v: %s from %v to %v, the same in %s\n", c.Log, show.Counted(int(c.Records), "record", "records"), c.From, c.To, strings.Join(c.Dirs, ", "))
}

// Verified is what "squall log verify --json" prints.
type Verified struct {
	OK          bool             `json:"ok"`
	Directories []persist.Report `json:"directories"`
	Compared    []Compared       `json:"compared"`               // of several directories
	NotCompared string           `json:"not_compared,omitempty"` // why not
	Faults      []string         `json:"faults,omitempty"`       // that are in no directory's own report
}

// Compared is a log that several directories may have.
type Compared struct {
	Log     string   `json:"log"`
	Dirs    []string `json:"dirs"`    // that have the log
	Records uint64   `json:"records"` // that are the same everywhere
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`     // with it
	Differ  string   `json:"differ,omitempty"` // where, and what stands there; empty: nowhere
}

func comparedOf(c *persist.Comparison) Compared {
	return Compared{c.Log.String(), c.Dirs, c.Records, versionOrNothing(c.From), versionOrNothing(c.To), c.Differ}
}
