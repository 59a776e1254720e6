package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

// children are the functions that this test binary runs when it is started again as one.
var children = map[string]func(ctx context.Context, p *Parent) error{
	// echo sends back its configuration and then every line.
	"echo": func(ctx context.Context, p *Parent) error {
		var line any
		for err := p.Config(&line); ; err = p.Receive(ctx, &line) {
			if errors.Is(err, ErrParentGone) {
				return nil
			} else if err != nil {
				return err
			}
			p.Send(line)
		}
	},
	// fail writes lines and fails.
	"fail": func(context.Context, *Parent) error {
		for i := range 20 {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
		return errors.New("no luck today")
	},
	// panic dies of one.
	"panic": func(context.Context, *Parent) error {
		fmt.Fprintln(os.Stderr, "before")
		panic("out of cheese")
	},
	// garbage sends what is no JSON.
	"garbage": func(ctx context.Context, _ *Parent) error {
		fmt.Println("hello")
		<-ctx.Done()
		return nil
	},
	// deaf never ends by itself.
	"deaf": func(context.Context, *Parent) error { select {} },
	// watch listens, is told where others do, and sends the address of each that goes.
	"watch": func(ctx context.Context, p *Parent) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() {
			for here := []net.Conn{}; ; { // which keeps them from being closed as garbage
				c, err := l.Accept()
				if err != nil {
					return
				}
				here = append(here, c)
			}
		}()
		p.Send(l.Addr().String())
		var others []string
		if err := p.Receive(ctx, &others); err != nil {
			return err
		}
		for _, addr := range others {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			go func() {
				c.Read(make([]byte, 1))
				p.Send(addr)
			}()
		}
		p.Send("all are there")
		select {}
	},
	// nest starts a deaf child, tells its pid, and never ends.
	"nest": func(ctx context.Context, p *Parent) error {
		c, err := Start(context.Background(), "deaf", nil, Options{})
		if err != nil {
			return err
		}
		p.Send(c.Pid())
		select {}
	},
}

func TestMain(m *testing.M) {
	for name, run := range children {
		Become(Program{name, run})
	}
	os.Exit(m.Run())
}

func start(t *testing.T, name string, config any, opts Options) *Child {
	t.Helper()
	c, err := Start(testutil.Within(t), name, config, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		c.Wait()
	})
	return c
}

func TestParentAndChildTalkUntilTheInputCloses(t *testing.T) {
	ctx := testutil.Within(t)
	c := start(t, "echo", "config", Options{ID: 1})
	want := []string{"config"}
	for i := range 200 { // more than waits in the child
		want = append(want, strings.Repeat("x", i*i))
		if err := c.Send(want[i+1]); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := c.Receive(ctx, &got); err != nil || got != want[i] {
			t.Fatalf("line %d: %.20q, %v", i, got, err)
		}
	}
	var got string
	if err := c.Receive(ctx, &got); err != nil || got != want[200] {
		t.Fatalf("last line: %.20q, %v", got, err)
	}
	c.CloseInput()
	if err := c.Receive(ctx, &got); err != io.EOF {
		t.Fatalf("after the end: %v, not io.EOF", err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := c.Send("late"); err != io.EOF {
		t.Fatalf("send after the end: %v, not io.EOF", err)
	}
}

func TestAReceiveThatWasGivenUpLosesNothing(t *testing.T) {
	c := start(t, "echo", "config", Options{})
	var got string
	if err := c.Receive(testutil.Within(t), &got); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := c.Receive(ctx, &got); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	c.Send("later")
	if err := c.Receive(testutil.Within(t), &got); err != nil || got != "later" {
		t.Fatal(got, err)
	}
}

func TestAKilledChildIsNamed(t *testing.T) {
	c := start(t, "deaf", nil, Options{ID: 2})
	if err := syscall.Kill(c.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var v any
	err := c.Receive(testutil.Within(t), &v)
	want := fmt.Sprintf("member 2 (pid %d) was killed by signal 9 (killed)", c.Pid())
	var exit *Exit
	if !errors.As(err, &exit) || exit.Signal != syscall.SIGKILL || err.Error() != want {
		t.Fatalf("%v, not %s", err, want)
	}
	if err := c.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for err = nil; err == nil; err = c.Send(strings.Repeat("x", 4096)) {
	}
	if !errors.As(err, &exit) {
		t.Fatalf("send: %v", err)
	}
}

func TestNoneNoticesAnotherOnesEndWhenThePowerIsCut(t *testing.T) {
	var children []*Child
	var addrs []string
	hear := func(c *Child) (said string, err error) {
		err = c.Receive(testutil.Within(t), &said)
		return said, err
	}
	for i := range 4 {
		children = append(children, start(t, "watch", nil, Options{ID: i + 1}))
		addr, err := hear(children[i])
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, addr)
	}
	for _, c := range children {
		c.Send(addrs)
		if _, err := hear(c); err != nil {
			t.Fatal(err)
		}
	}
	CutPower(children...)
	for _, c := range children {
		said, err := hear(c)
		if exit := (*Exit)(nil); !errors.As(err, &exit) || exit.Signal != syscall.SIGKILL {
			t.Errorf("member %d: %v, after %q", c.ID(), err, said)
		}
	}
}

func TestAFailedChildTellsItsStatusAndLastLines(t *testing.T) {
	c := start(t, "fail", nil, Options{ID: 7, Role: "node", Lines: 2})
	err := c.Wait()
	want := fmt.Sprintf("node 7 (pid %d) ended with exit status 1: line 19\n\tno luck today", c.Pid())
	if err == nil || err.Error() != want {
		t.Fatalf("%v, not %s", err, want)
	}
}

func TestAPanicIsShownFromItsFirstLine(t *testing.T) {
	c := start(t, "panic", nil, Options{Lines: 1})
	var exit *Exit
	if err := c.Wait(); !errors.As(err, &exit) || len(exit.Stderr) != 1 || !strings.HasPrefix(exit.Stderr[0], "panic: out of cheese") {
		t.Fatal(err)
	}
}

func TestALineThatIsNoValueIsShown(t *testing.T) {
	c := start(t, "garbage", nil, Options{ID: 1})
	var v any
	if err := c.Receive(testutil.Within(t), &v); err == nil || !strings.Contains(err.Error(), `"hello\n"`) {
		t.Fatal(err)
	}
	c.CloseInput()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestTheEndOfTheContextKillsTheChild(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c, err := Start(ctx, "deaf", nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.Wait(); err == nil {
		t.Fatal("the child ended well")
	}
}

func TestWaitClosesWhatNobodyReceives(t *testing.T) {
	c := start(t, "echo", "unread", Options{})
	c.CloseInput()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*os.File{"input": c.in, "output": c.pipe} {
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the child's %s is open: %v", name, err)
		}
	}
	var got string
	if err := c.Receive(testutil.Within(t), &got); err != io.EOF {
		t.Errorf("received %q, %v", got, err)
	}
}

func TestNoChildOutlivesItsParent(t *testing.T) {
	c := start(t, "nest", nil, Options{})
	var pid int
	if err := c.Receive(testutil.Within(t), &pid); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	c.Wait()
	testutil.AwaitGone(t, pid)
}

func TestAChildStartedByHandSaysSo(t *testing.T) {
	echo := Program{"echo", children["echo"]}
	if err := echo.Serve(context.Background(), strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), "not by hand") {
		t.Fatal(err)
	}
}
