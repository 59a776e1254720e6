// Package bench is the harness of all measurements: "squall bench" and the commands below it.
//
// A workload is what the processes of one measurement do: package messages streams messages through
// a group, package large sends large messages among small ones, package logs keeps messages on
// disk, package rdmc relays one large message. Each of them has its own flags, cases and bars;
// everything else is here.
//
// Life of a measurement: a Set names cases and the bars that they have to reach → TakeTurns
// measures all cases once, then all again, so that whatever else the machine does hits all of them
// → a case starts a Fleet of processes, which tell where they listen, connect, and answer requests
// → the samples of the processes become one run → the bars are judged over the runs of their cases
// → a Report prints rows, series and JSON.
package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/internal/errs"
)

// Given returns the named flags that the command line sets, in its form.
func Given(f *pflag.FlagSet, names ...string) (all []string) {
	for _, name := range names {
		if f.Changed(name) {
			all = append(all, "--"+name)
		}
	}
	return all
}

// OneAtATime returns an error if the command line has more than one of some flags.
func OneAtATime(f *pflag.FlagSet, names ...string) error {
	if what := Given(f, names...); len(what) > 1 {
		return fmt.Errorf("%s: one of them at a time", strings.Join(what, " and "))
	}
	return nil
}

// Refuse returns an error that says why, if on and the command line has any of some flags.
func Refuse(f *pflag.FlagSet, on bool, why string, names ...string) error {
	if bad := Given(f, names...); on && len(bad) > 0 {
		return fmt.Errorf("%s: %s", strings.Join(bad, ", "), why)
	}
	return nil
}

// Suite is a command below "bench" that measures sections, each a table of cases and bars. R is
// what one run of a case comes to.
type Suite[R any] struct {
	Use, Short, Long, Example string

	Runs             int
	Warmup, Duration *time.Duration // of each case, which the flags set; their values are the defaults
	Sections         []Section[R]
	Title            string                 // printed after the machine
	Flags            func(f *pflag.FlagSet) // declares the suite's own flags, before those of all suites
	Limits           func(f *pflag.FlagSet) // declares the flags that name other programs
	Check            func(*errs.Faults)
	Instead          func() (s Set[R], ok bool) // what is measured in place of the sections, if ok
	After            func(r Report[R]) error    // is called before the report is printed
}

// Section is a part of a suite that can be measured alone.
type Section[R any] struct {
	Name string
	Set  func(s *Set[R])
}

// suiteFlags are the flags of all suites.
type suiteFlags struct {
	runs           int
	only           []string
	json, markdown bool
}

// Command returns the suite's command.
func (s Suite[R]) Command() *cobra.Command {
	var o suiteFlags
	cmd := &cobra.Command{
		Use: s.Use, Short: s.Short, Long: s.Long, Example: s.Example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(&o); err != nil {
				return err
			}
			return s.run(cmd.Context(), &o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	s.declare(cmd.Flags(), &o)
	return cmd
}

func (s *Suite[R]) declare(f *pflag.FlagSet, o *suiteFlags) {
	f.SortFlags = false
	s.Flags(f)
	f.IntVar(&o.runs, "runs", s.Runs, "runs of everything; the table shows medians")
	f.DurationVar(s.Warmup, "warmup", *s.Warmup, "time before each measurement")
	f.DurationVar(s.Duration, "duration", *s.Duration, "time of each measurement")
	f.StringSliceVar(&o.only, "only", s.names(), "what to measure")
	s.Limits(f)
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	f.BoolVar(&o.markdown, "markdown", false, "print the tables in Markdown")
}

func (s *Suite[R]) names() (all []string) {
	for _, x := range s.Sections {
		all = append(all, x.Name)
	}
	return all
}

// check reports all faults at once.
func (s *Suite[R]) check(o *suiteFlags) error {
	var faults errs.Faults
	s.Check(&faults)
	faults.If(o.runs < 1 || o.runs > 1000, "--runs is %d: 1 to 1000", o.runs)
	faults.If(*s.Warmup < 0 || *s.Duration < time.Millisecond || *s.Warmup+*s.Duration > time.Hour,
		"--warmup is %v and --duration is %v: together up to an hour", *s.Warmup, *s.Duration)
	for _, name := range o.only {
		faults.If(!slices.Contains(s.names(), name), "--only %s: one of %v", name, s.names())
	}
	return faults.Err()
}

// Set returns the cases and bars of a section.
func (s *Suite[R]) Set(name string) (set Set[R]) {
	for _, x := range s.Sections {
		if x.Name == name {
			x.Set(&set)
		}
	}
	return set
}

func (s *Suite[R]) run(ctx context.Context, o *suiteFlags, out, messages io.Writer) error {
	var sets []Set[R]
	for _, name := range o.only {
		sets = append(sets, s.Set(name))
	}
	if s.Instead != nil {
		if set, ok := s.Instead(); ok {
			sets = []Set[R]{set}
		}
	}
	r, err := Measure(ctx, o.runs, sets, nil, messages)
	if err != nil {
		return err
	}
	if s.After != nil {
		if err := s.After(r); err != nil {
			return err
		}
	}
	title := fmt.Sprintf("%v; %smedians of %d runs", r.Machine, s.Title, r.Runs)
	return r.Print(out, Output{JSON: o.json, Markdown: o.markdown, Title: title})
}
