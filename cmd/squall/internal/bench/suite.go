// Package bench is the harness of all measurements: "squall bench" and the commands below it.
//
// A workload is what the processes of one measurement do: package messages streams messages through
// a group, package large sends large messages among small ones, package logs keeps messages on
// disk, package rdmc relays one large message. Each of them has its own flags, cases and bars in a
// Suite; everything else is here.
//
// Life of a measurement: the flags of a Suite choose Sets, which are tables of bars, and of the
// cases that these are about → TakeTurns measures all cases once, then all again, so that whatever
// else the machine does hits all of them → a case starts a Fleet of processes, which tell where
// they listen, connect, and answer requests → the samples of the processes become one run → the
// bars are judged over the runs of their cases → a Report prints rows, series and JSON.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/internal/errs"
)

// Refuse returns an error that says why, if on and the command line has any of some flags.
func Refuse(f *pflag.FlagSet, on bool, why string, names ...string) error {
	var bad []string
	for _, name := range names {
		if f.Changed(name) {
			bad = append(bad, "--"+name)
		}
	}
	if !on || len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", strings.Join(bad, ", "), why)
}

// Suite is a command that measures tables of cases and bars. R is what one run of a case comes to.
type Suite[R any] struct {
	Use, Short, Long, Example string

	Runs             int            // the default of --runs
	Warmup, Duration *time.Duration // of each case, which the flags set; their values are the defaults. nil: a case takes its own time
	Bars             *bool          // which --bars sets: all that is promised is measured, and printed in Markdown. nil: there is no such flag
	Flags            func(f *pflag.FlagSet)
	Check            func(f *pflag.FlagSet, faults *errs.Faults)             // reports what is wrong with these flags
	Sections         []Section[R]                                            // of which --only chooses some
	Sets             func() []Set[R]                                         // what is measured in place of the sections, unless it is nothing
	Title            func() string                                           // what was measured
	Foreign          func(R) float64                                         // how many cores other programs used in a run; nil: that is unknown
	Start            func(ctx context.Context) (end func() error, err error) // starts what all cases need
	After            func(r *Report[R]) error                                // completes the report before it is printed
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
		PreRunE: func(cmd *cobra.Command, _ []string) error { return s.check(cmd.Flags(), &o) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.run(cmd.Context(), &o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	s.declare(cmd.Flags(), &o)
	return cmd
}

func (s *Suite[R]) declare(f *pflag.FlagSet, o *suiteFlags) {
	f.SortFlags = false
	s.Flags(f)
	if s.Bars != nil {
		f.BoolVar(s.Bars, "bars", false, "measure all that Squall promises, and print a table in Markdown")
	}
	f.IntVar(&o.runs, "runs", s.Runs, "runs of everything; the table shows medians")
	if s.Duration != nil {
		f.DurationVar(s.Warmup, "warmup", *s.Warmup, "time before each measurement")
		f.DurationVar(s.Duration, "duration", *s.Duration, "time of each measurement")
	}
	if len(s.Sections) > 0 {
		f.StringSliceVar(&o.only, "only", s.names(), "what to measure")
	}
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
func (s *Suite[R]) check(f *pflag.FlagSet, o *suiteFlags) error {
	var faults errs.Faults
	s.Check(f, &faults)
	faults.If(o.runs < 1 || o.runs > 1000, "--runs is %d: 1 to 1000", o.runs)
	if s.Duration != nil {
		faults.If(*s.Warmup < 0 || *s.Duration < time.Millisecond || *s.Warmup+*s.Duration > time.Hour,
			"--warmup is %v and --duration is %v: together up to an hour", *s.Warmup, *s.Duration)
	}
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

func (s *Suite[R]) sets(only []string) (sets []Set[R]) {
	if s.Sets != nil {
		sets = s.Sets()
	}
	if len(sets) > 0 {
		return sets
	}
	for _, name := range only {
		sets = append(sets, s.Set(name))
	}
	return sets
}

func (s *Suite[R]) run(ctx context.Context, o *suiteFlags, out, messages io.Writer) (err error) {
	if s.Start != nil {
		end, failed := s.Start(ctx)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	r, err := Measure(ctx, o.runs, s.sets(o.only), s.Foreign, messages)
	if err != nil {
		return err
	}
	if s.After != nil {
		if err := s.After(&r); err != nil {
			return err
		}
	}
	title := fmt.Sprintf("%v\n%s; medians of %d runs", r.Machine, s.Title(), r.Runs)
	if s.Duration != nil {
		title += fmt.Sprintf(" of %v", *s.Duration)
	}
	return r.Print(out, Output{JSON: o.json, Markdown: o.markdown || s.Bars != nil && *s.Bars, Title: title + ", in parentheses their range"})
}
