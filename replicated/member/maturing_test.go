package member

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
)

// The time of an operation begins when all members have it, and anew when one of them lacks it for
// a while.
func TestAnOperationMaturesWhileAllMembersHaveIt(t *testing.T) {
	e, start := enabling{delay: 10 * time.Minute}, time.Unix(1e9, 0)
	for i, x := range []struct {
		after time.Duration
		ready []string
		may   []string
		next  time.Duration
	}{
		{0, []string{"a"}, nil, 10 * time.Minute},
		{4 * time.Minute, []string{"a", "b"}, nil, 6 * time.Minute},
		{10 * time.Minute, []string{"a", "b"}, []string{"a"}, 4 * time.Minute},
		{11 * time.Minute, nil, nil, 0},
		{12 * time.Minute, []string{"b"}, nil, 10 * time.Minute},
		{22 * time.Minute, []string{"b"}, []string{"b"}, 0},
	} {
		if may, next := e.mature(x.ready, start.Add(x.after)); !slices.Equal(may, x.may) || next != x.next {
			t.Errorf("step %d: %q, the next one after %v", i, may, next)
		}
	}
	e = enabling{delay: -1}
	e.mature([]string{"a"}, start)
	if may, next := e.mature([]string{"a"}, start.Add(1000*time.Hour)); len(may) != 0 || next != 0 {
		t.Errorf("with a negative delay: %q, %v", may, next)
	}
}

// A caller that looked for an operation before it was enabled looks once more, and is not refused.
func TestWhatWasEnabledMeanwhileIsNotLacking(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	step := replicated.NewCommand[int, int]("step")
	o := New(squall.SubgroupConfig{Name: "steps"}, func() *struct{} { return &struct{}{} },
		Handle(step, func(_ *struct{}, _ *Context, n int) (int, error) { return n, nil }))
	g, err := Open(ctx, squall.Config{Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, Logger: slog.New(slog.DiscardHandler)}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	if _, err := step.Call(ctx, o, 1); err != nil {
		t.Fatal(err)
	}
	if err := o.object.lacking("step"); err != nil {
		t.Errorf("an operation that is enabled: %v", err)
	}
	if err := o.object.lacking("jump"); err == nil {
		t.Error("an operation that no member has is not lacking")
	}
}
