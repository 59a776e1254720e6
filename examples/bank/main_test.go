package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/replicated/squalltest"
)

// begin runs a member until stop is called, and returns its two addresses.
func begin(t *testing.T, args ...string) (members, clients string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var done sync.WaitGroup
	done.Go(func() {
		err := run(ctx, append([]string{"member"}, args...), w)
		w.CloseWithError(err)
		if err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(line, "member "+args[1]+": members at %s clients at %s", &members, &clients); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return strings.TrimSuffix(members, ","), clients, stop
}

func TestClientsUseABankOfThreeMembers(t *testing.T) {
	first, a, _ := begin(t, "-id", "1")
	_, b, leave := begin(t, "-id", "2", "-join", first)
	_, c, _ := begin(t, "-id", "3", "-join", first)
	ask := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var out bytes.Buffer
		if err := run(ctx, append([]string{"client", "-members", b + "," + a + "," + c}, args...), &out); err != nil {
			return err.Error()
		}
		return strings.TrimSpace(out.String())
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
		} else if got := ask(strings.Fields(step.do)...); got != step.want {
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
