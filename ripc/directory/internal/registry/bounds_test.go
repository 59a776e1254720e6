package registry

import (
	"errors"
	"fmt"
	"testing"
)

// A lease and a hold are not longer than they may be, and a name has no more places, and a
// directory no more names, than there may be.
func TestTheBoundsOfARegistry(t *testing.T) {
	for _, c := range []struct {
		name        string
		until, hold Time
		want        error
	}{
		{"the longest lease and hold", MaxLease, MaxHold, nil},
		{"a longer lease", MaxLease + 1, 0, ErrEnded},
		{"a longer hold", 1000, MaxHold + 1, ErrEnded},
		{"the shortest lease", 1, 0, nil},
		{"a lease that is over", 0, 0, ErrEnded},
	} {
		r := begun()
		r.Apply(Command{From: 0, By: 500})
		o := r.Apply(newOwner(1).say(Record{Action: Claim, Name: "service", Place: at(1), Until: r.Time + c.until, Hold: c.hold}))
		if !errors.Is(o.Err, c.want) || c.want == nil && o.Err != nil {
			t.Errorf("%s: %v", c.name, o.Err)
		}
	}
	r, o := begun(), &owner{speaker: MemberOwner}
	for k := range MaxPlaces + 1 {
		err := r.Apply(o.say(Record{Action: Claim, Name: "shared", Place: at(k), Until: MaxLease, Shared: true})).Err
		if full := k == MaxPlaces; errors.Is(err, ErrFull) != full || !full && err != nil {
			t.Fatalf("place %d: %v", k, err)
		}
	}
	r = begun()
	r.Entries = make([]*Entry, MaxNames-1)
	for k := range r.Entries {
		r.Entries[k] = &Entry{Name: fmt.Sprintf("name %08d", k), Owner: MemberOwner, Held: MaxHold}
	}
	for k, want := range []error{nil, ErrFull} {
		if err := r.Apply(o.say(Record{Action: Claim, Name: fmt.Sprint("new ", k), Place: at(1), Until: MaxLease})).Err; !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("name %d: %v", MaxNames+k, err)
		}
	}
}
