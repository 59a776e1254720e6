package replicated

import (
	"log/slog"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// TestFewCopiesOfThePastAreKept asks for more moments than copies are kept.
func TestFewCopiesOfThePastAreKept(t *testing.T) {
	t.Parallel()
	type counter struct{ N int }
	add, read := NewCommand[int, int]("add"), NewQuery[struct{}, int]("read")
	o := New(squall.SubgroupConfig{Name: "counter", Mode: squall.Persistent}, func() *counter { return &counter{} },
		Handle(add, func(c *counter, _ *Context, by int) (int, error) { c.N += by; return c.N, nil }),
		Handle(read, func(c *counter, _ *Context, _ struct{}) (int, error) { return c.N, nil }))
	g, err := Open(t.Context(), squall.Config{
		Cluster: "test", ID: 1, Listen: testutil.FreeAddress(t), InitialMembers: 1, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(testutil.Within(t)) })
	var versions []squall.Version
	for range 3 * maxPast {
		f, err := add.Go(t.Context(), o, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, v, err := f.WaitVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
	}
	for i := len(versions) - 1; i >= 0; i-- { // each one is before all that are kept
		if n, err := read.At(t.Context(), o, versions[i], struct{}{}); n != i+1 || err != nil {
			t.Errorf("at %v: %d, %v; want %d", versions[i], n, err, i+1)
		}
		if h := &o.history; len(h.copies) > maxPast || h.copies[len(h.copies)-1].upTo != versions[i] {
			t.Fatalf("%d copies are kept", len(h.copies))
		}
	}
}
