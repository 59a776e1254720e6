package proc

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// Program is what a child runs: this executable, started with the name as its argument, calls the
// function.
type Program struct {
	Name string
	Run  func(ctx context.Context, p *Parent) error
}

// Become makes this process a child if it was started as one: if its argument is the name of one of
// the programs, it runs that and ends. It is the first that the TestMain of a package calls whose
// tests start children, because Start runs this executable again, and that is the test's.
func Become(programs ...Program) {
	if len(os.Args) != 2 {
		return
	}
	at := slices.IndexFunc(programs, func(p Program) bool { return p.Name == os.Args[1] })
	if at < 0 {
		return
	}
	if err := programs[at].Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
