package member_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

var digest = replicated.NewCommand[[]byte, []byte]("digest")

// Large arguments are ordered large messages, which do not go through the ring.
func TestArgumentsOf8MiB(t *testing.T) {
	t.Parallel()
	all := open(t, 2, func(int) *member.Object[*sharer] {
		return member.New(squall.SubgroupConfig{Name: "sharer", MaxMessageBytes: 9 << 20}, func() *sharer { return &sharer{} },
			member.Handle(digest, func(s *sharer, _ *member.Context, b []byte) ([]byte, error) {
				sum := sha256.Sum256(b)
				s.Bytes = sum[:]
				return s.Bytes, nil
			}))
	}, nil)
	for _, size := range []int{100, 8 << 20, 0, 1 << 20} {
		data := bytes.Repeat([]byte("large"), size/5+1)[:size]
		want := sha256.Sum256(data)
		if got, err := digest.Call(t.Context(), all[size%2].bank, data); err != nil || !bytes.Equal(got, want[:]) {
			t.Errorf("%d bytes: %x, %v", size, got, err)
		}
		for i, m := range all {
			if err := m.bank.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.bank.View(func(s *sharer) {
				if !bytes.Equal(s.Bytes, want[:]) {
					t.Errorf("%d bytes: member %d has another digest", size, i+1)
				}
			})
		}
	}
	if _, err := digest.Call(t.Context(), all[0].bank, make([]byte, 10<<20)); !errors.Is(err, squall.ErrTooLarge) {
		t.Errorf("more than the subgroup takes: %v", err)
	}
}

// liar is a codec whose size is not that of what it appends; it fails, or panics, for some values.
type liar struct{}

func (liar) Size(v *string) int { return len(*v) + strings.Count(*v, "!") }

func (liar) Append(b []byte, v *string) ([]byte, error) {
	switch *v {
	case "error":
		return b, errors.New("no such value")
	case "panic":
		panic("no such value")
	}
	return append(b, *v...), nil
}

func (liar) Decode(data []byte, v *string) error {
	*v = string(data)
	return nil
}

func TestACodecThatFailsHoldsUpNothing(t *testing.T) {
	t.Parallel()
	say := replicated.NewCommand[string, string]("say").Encoded(liar{}, liar{})
	all := open(t, 2, func(int) *member.Object[*sharer] {
		return member.New(squall.SubgroupConfig{Name: "sharer"}, func() *sharer { return &sharer{} },
			member.Handle(say, func(_ *sharer, _ *member.Context, s string) (string, error) { return s, nil }))
	}, nil)
	call := func(s string) (got string, err error) {
		defer func() {
			if what := recover(); what != nil {
				err = errors.New("it panicked")
			}
		}()
		return say.Call(t.Context(), all[0].bank, s)
	}
	for _, s := range []string{"error", "panic", "!"} {
		if got, err := call(s); err == nil {
			t.Errorf("%q: %q", s, got)
		}
		if got, err := call("fine"); err != nil || got != "fine" {
			t.Errorf("after %q: %q, %v", s, got, err)
		}
	}
}
