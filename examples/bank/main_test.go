package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated/squalltest"
)

// The test's program is the example, too, for members that are killed.
func TestMain(m *testing.M) {
	testutil.BecomeProgram(main)
	os.Exit(m.Run())
}

// process is a member of the bank in a process of its own.
type process struct {
	*testutil.Program
	clients string // its address for clients
}

// start starts the member with a number out of a list. It serves clients once a majority of the
// list has started.
func start(t *testing.T, id int, list string) *process {
	t.Helper()
	clients := testutil.FreeAddress(t)
	return &process{testutil.StartProgram(t, "member", "-id", fmt.Sprint(id), "-members", list, "-clients", clients), clients}
}

func (p *process) serves() *process {
	p.Await("clients at " + p.clients)
	return p
}

func addresses(t *testing.T, n int) string {
	var list []string
	for range n {
		list = append(list, testutil.FreeAddress(t))
	}
	return strings.Join(list, ",")
}

// ask has a client do one thing, and returns what it prints, or the error.
func ask(t *testing.T, members string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, append([]string{"client", "-members", members}, args...), &out); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out.String())
}

// TestAMemberThatIsStartedAgainWithItsOwnCommandIsInTheSameBank kills the first member of the list,
// which bootstrapped the bank.
func TestAMemberThatIsStartedAgainWithItsOwnCommandIsInTheSameBank(t *testing.T) {
	list := addresses(t, 3)
	all := []*process{start(t, 1, list), start(t, 2, list), start(t, 3, list)}
	for _, p := range all {
		p.serves()
	}
	if got := ask(t, all[0].clients, "deposit", "ann", "100"); got != "100" {
		t.Fatal(got)
	}
	all[0].Kill()
	again := start(t, 1, list).serves()
	if got := ask(t, again.clients, "balance", "ann"); got != "100" {
		t.Errorf("the member that was started again says that ann has %s", got)
	}
	if got := ask(t, again.clients, "deposit", "ann", "5"); got != "105" {
		t.Errorf("after another deposit she has %s", got)
	}
	if got := ask(t, all[1].clients, "balance", "ann"); got != "105" {
		t.Errorf("another member says that she has %s", got)
	}
}

// TestAMemberThatIsTerminatedLeavesTheBank sends SIGTERM, as service managers do.
func TestAMemberThatIsTerminatedLeavesTheBank(t *testing.T) {
	list := addresses(t, 3)
	all := []*process{start(t, 1, list), start(t, 2, list), start(t, 3, list)}
	for _, p := range all {
		p.serves()
	}
	for _, p := range all {
		p.Interrupt(syscall.SIGTERM) // which ends well if the member could leave
	}
}

func TestClientsUseABankOfThreeMembers(t *testing.T) {
	list := addresses(t, 3)
	all := []*process{start(t, 1, list), start(t, 2, list), start(t, 3, list)}
	a, b, c := all[0].serves().clients, all[1].serves().clients, all[2].serves().clients
	leave := func() {
		all[1].Interrupt(os.Interrupt)
	}
	for _, step := range []struct{ do, want string }{
		{"deposit ann 100", "100"},
		{"transfer ann bob 30", "70"},
		{"balance bob", "30"},
		{"transfer ann bob 71", errNotCovered.Error()},
		{"leave", ""},
		{"balance bob", "30"},
		{"deposit bob 1", "31"},
		{"balance", errUsage.Error()},
	} {
		if step.do == "leave" {
			leave()
		} else if got := ask(t, b+","+a+","+c, strings.Fields(step.do)...); got != step.want {
			t.Errorf("%s: %q, want %q", step.do, got, step.want)
		}
	}
}

// TestTheBankKeepsItsMoney has clients move money in simulated groups whose members fail.
func TestTheBankKeepsItsMoney(t *testing.T) {
	squalltest.Run(t, squalltest.Config{}, newObject, func(c *squalltest.Client) {
		for range 10 {
			who := []string{"ann", "bob", "eve"}[c.Rand().IntN(3)]
			switch cents := int64(c.Rand().IntN(50)); c.Rand().IntN(3) {
			case 0:
				_, _ = Deposit.Call(c.Context(), c.Object(), Amount{who, cents})
			case 1:
				_, _ = Transfer.Call(c.Context(), c.Object(), Payment{who, "bob", cents})
			default:
				_, _ = Balance.Call(c.Context(), c.Object(), who)
			}
		}
	}, func(b *Bank) error {
		for who, cents := range b.Balances {
			if cents < 0 {
				return fmt.Errorf("%s has %d cents", who, cents)
			}
		}
		return nil
	})
}

// TestTheServiceIsShort counts the lines of code of the service: lines with more than a comment.
func TestTheServiceIsShort(t *testing.T) {
	text, err := os.ReadFile("bank.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	t.Logf("%d lines", lines)
	if lines > 50 {
		t.Errorf("the service has %d lines of code, more than 50", lines)
	}
}
