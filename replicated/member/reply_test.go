package member_test

import (
	"bytes"
	"maps"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

var (
	share  = replicated.NewCommand[string, map[string]int64]("share")
	shared = replicated.NewQuery[string, map[string]int64]("shared")
	keep   = replicated.NewCommand[[]byte, []byte]("keep")
	kept   = replicated.NewQuery[[]byte, []byte]("kept")
	echo   = replicated.NewCommand[[]byte, []byte]("echo")
)

// sharer is an object whose handlers return parts of its state, and of their arguments.
type sharer struct {
	Map   map[string]int64
	Bytes []byte
}

func sharers(int) *member.Object[*sharer] {
	return member.New(squall.SubgroupConfig{Name: "sharer"}, func() *sharer { return &sharer{Map: map[string]int64{}} },
		member.Handle(share, func(s *sharer, _ *member.Context, key string) (map[string]int64, error) {
			s.Map[key]++
			return s.Map, nil
		}),
		member.Handle(shared, func(s *sharer, _ *member.Context, _ string) (map[string]int64, error) { return s.Map, nil }),
		member.Handle(keep, func(s *sharer, _ *member.Context, b []byte) ([]byte, error) {
			s.Bytes = bytes.Clone(b)
			return s.Bytes, nil
		}),
		member.Handle(kept, func(s *sharer, _ *member.Context, _ []byte) ([]byte, error) { return s.Bytes, nil }),
		member.Handle(echo, func(_ *sharer, _ *member.Context, b []byte) ([]byte, error) { return b, nil }))
}

func TestAReplyOfThisProcessSharesNothingWithTheState(t *testing.T) {
	t.Parallel()
	o := open(t, 1, sharers, nil)[0].bank
	want := map[string]int64{"a": 1}
	m, err := share.Call(t.Context(), o, "a")
	if err != nil || !maps.Equal(m, want) {
		t.Fatalf("got %v, %v", m, err)
	}
	m["b"] = 1
	for range 2 {
		if m, err = shared.Call(t.Context(), o, ""); err != nil || !maps.Equal(m, want) {
			t.Fatalf("the state is %v, %v; want %v", m, err, want)
		}
		m["c"] = 1
	}
	b, err := keep.Call(t.Context(), o, []byte("bytes"))
	if err != nil {
		t.Fatal(err)
	}
	b[0] = 'x'
	for range 2 {
		if b, err = kept.Local(t.Context(), o, nil); err != nil || string(b) != "bytes" {
			t.Fatalf("the state is %q, %v", b, err)
		}
		b[0] = 'y'
	}
}

func TestAReplyIsNotOverwrittenByLaterArguments(t *testing.T) {
	t.Parallel()
	o := open(t, 1, sharers, nil)[0].bank
	want := bytes.Repeat([]byte("first"), 800)
	first, err := echo.Call(t.Context(), o, bytes.Clone(want))
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Repeat([]byte("later"), 800)
	for range 2000 { // more than the ring holds
		if _, err := echo.Call(t.Context(), o, later); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first, want) {
		t.Errorf("the reply is now %.20q", first)
	}
}
