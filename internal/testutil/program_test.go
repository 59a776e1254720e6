package testutil

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	BecomeProgramOf(program)
	os.Exit(m.Run())
}

// program prints its arguments, and then its input. With the argument "parent" it starts one more,
// prints the number of that process, and stays.
func program(args []string) error {
	if slices.Equal(args, []string{"parent"}) {
		p := StartProgram(&testing.T{}, "child")
		fmt.Println(p.cmd.Process.Pid)
		select {}
	}
	fmt.Println(args)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "fail" {
			return errors.New("no luck today")
		}
		fmt.Println("read", in.Text())
	}
	return nil
}

func TestAProgramIsAskedAndEndsWithItsInput(t *testing.T) {
	p := StartProgram(t, "a", "b")
	if line := p.Next(); line != "[a b]" {
		t.Error(line)
	}
	p.Ask("one", "read one")
	fmt.Fprintln(p.In, "two")
	if lines := p.Finish(); !slices.Equal(lines, []string{"read two"}) {
		t.Errorf("%q", lines)
	}
}

func TestAProgramThatFailsSaysWhy(t *testing.T) {
	p := StartProgram(t)
	fmt.Fprintln(p.In, "fail")
	if lines, errs := p.End(); len(lines) != 1 || !strings.Contains(errs, "no luck today") {
		t.Errorf("%q, %q", lines, errs)
	}
}

func TestNoProgramOutlivesItsTest(t *testing.T) {
	p := StartProgram(t, "parent")
	var pid int
	if _, err := fmt.Sscan(p.Next(), &pid); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	AwaitGone(t, pid)
}
