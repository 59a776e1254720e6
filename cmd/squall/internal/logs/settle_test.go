package logs

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// asked are the commands that want a time to be settled.
var asked = map[string]string{
	"cat --at 2030-01-01": "2030-01-01T00:00:00Z", "cat --until 2030-01-01": "2029-12-31T23:59:59.999999999Z", "dump --at 2030-01-01": "2030-01-01T00:00:00Z",
}

func TestATimeThatIsNotSettledIsWaitedForAloudAndNotForEver(t *testing.T) {
	t.Parallel()
	addr, _ := settling(t, func(ctx context.Context, _ order.Time) error { <-ctx.Done(); return context.Cause(ctx) }, records(25)...)
	for line, at := range asked {
		var out, errs bytes.Buffer
		err := executeWith(t.Context(), &out, &errs, append(strings.Fields(line), "--timeout", "600ms", addr)...)
		if err == nil || !strings.Contains(err.Error(), at+" is not settled") || !strings.Contains(err.Error(), "600ms") || out.Len() > 0 {
			t.Errorf("%s: %q, %v", line, out.String(), err)
		}
		if want := "waiting until " + at + " is settled\n"; !strings.HasSuffix(errs.String(), want) {
			t.Errorf("%s: %q, not %q", line, errs.String(), want)
		}
	}
	if out := must(t, "cat", "--since", "2030-01-01", addr) + must(t, "cat", "--limit", "1", "--from", "3", addr); strings.Count(out, "\n") != 1 {
		t.Errorf("what has no end in time waits for none: %s", out)
	}
}

func TestATimeIsAnsweredWhenItIsSettled(t *testing.T) {
	t.Parallel()
	var l *persist.Log
	var addr string
	addr, l = settling(t, func(ctx context.Context, at order.Time) error {
		if l.Info().Count == 3 { // what was under way comes now
			return errors.Join(l.Import(ctx, record(3)), l.Sync(ctx))
		}
		return nil
	}, records(3)...)
	out := must(t, "dump", "--at", "2026-03-04T12:00:30Z", addr)
	if !strings.Contains(out, `"version":"1:9"`) || !strings.Contains(out, `"records":4`) {
		t.Errorf("without what came meanwhile:\n%s", out)
	}
}

func TestADirectoryAnswersFromWhatIsInIt(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(3)...)
	for line := range asked {
		if out := must(t, append(strings.Fields(line), dir)...); !strings.Contains(out, "1:6") {
			t.Errorf("%s:\n%s", line, out)
		}
	}
}
