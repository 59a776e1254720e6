package registry

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

const realm = "test"

// owner is the author of records, with a key, or with an identity that a member vouches for.
type owner struct {
	key     ed25519.PrivateKey
	speaker string
	origin  string
	most    int
	number  uint64
}

func newOwner(seed byte) *owner {
	return &owner{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

// say is a record, signed if it has to be.
func (o *owner) say(r Record) Command {
	if r.Number == 0 {
		o.number++
		r.Number = o.number
	}
	r.Realm = realm
	if o.key != nil {
		r.Sign(o.key)
	}
	return Command{Record: &r, Speaker: o.speaker, Origin: o.origin, Most: o.most}
}

func begun() *Registry {
	r := &Registry{}
	r.Apply(Command{Begin: realm})
	return r
}

func at(k int) Place {
	return Place{Incarnation: fmt.Sprint("endpoint ", k), Addr: fmt.Sprintf("10.0.0.%d:1", k)}
}

// clone is a registry that went through a snapshot.
func clone(t *testing.T, r *Registry) *Registry {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	var c Registry
	if err := c.Read(&b); err != nil {
		t.Fatal(err)
	}
	return &c
}

func text(t *testing.T, r *Registry) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Owners, names, places, replays and steps of time at random. All invariants hold after each
// command (RD1 to RD8).
func TestARegistryUnderRandomCommands(t *testing.T) {
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	owners := []*owner{newOwner(1), newOwner(2), newOwner(3), {speaker: IdentityOwner("CN=four")}, {speaker: MemberOwner}}
	names := []string{"a", "b", "c", Reserved + "d"}
	r, other := begun(), begun()
	var said []Command // that were accepted
	outcomes := map[string]int{}
	for range testutil.Seeds(2000, 6000) {
		var c Command
		who := owners[rnd.IntN(len(owners))]
		who.origin, who.most = []string{"", "process 1", "process 2"}[rnd.IntN(3)], rnd.IntN(3)
		switch k := rnd.IntN(20); {
		case k == 0:
			c = Command{From: r.Time, By: Time(rnd.IntN(2 * MaxStep))}
		case k < 4 && len(said) > 0:
			c = said[rnd.IntN(len(said))]
		default:
			c = who.say(Record{
				Action: Action(1 + rnd.IntN(3)), Name: names[rnd.IntN(len(names))], Place: at(rnd.IntN(4)), Shared: rnd.IntN(5) == 0,
				Until: r.Time + Time(rnd.IntN(20_000)), Hold: Time(rnd.IntN(2) * 10_000),
			})
		}
		before := clone(t, r)
		o := r.Apply(c)
		if rnd.IntN(50) == 0 {
			other = clone(t, other)
		}
		other.Apply(c)
		if c.Record != nil && o.Err == nil {
			said = append(said, c)
		}
		outcomes[outcome(o.Err)]++
		judge(t, before, r, c, o)
		if t.Failed() {
			t.Fatalf("by %+v %+v, from\n%s to\n%s", c, c.Record, text(t, before), text(t, r))
		}
	}
	if text(t, r) != text(t, other) {
		t.Errorf("RD7: through snapshots\n%s\nand without\n%s", text(t, other), text(t, r))
	}
	for _, want := range []error{nil, ErrOwned, ErrStale, ErrMoved, ErrEnded, ErrMixed, ErrMany} {
		if outcomes[outcome(want)] == 0 {
			t.Errorf("no command ended with %v: %v", want, outcomes)
		}
	}
}

func outcome(err error) string {
	for _, known := range []error{ErrOwned, ErrStale, ErrMoved, ErrEnded, ErrMixed, ErrMany} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

// judge compares the states before and after a command.
func judge(t *testing.T, before, after *Registry, c Command, o Outcome) {
	t.Helper()
	if c.By > 0 {
		twice := clone(t, after)
		twice.Apply(c)
		if twice.Time != after.Time || after.Time > before.Time+MaxStep {
			t.Errorf("RD3: a step from %d to %d led to %d when it came again", before.Time, after.Time, twice.Time)
		}
	}
	if rec := c.Record; rec != nil && o.Err == nil {
		owner := c.Speaker
		if len(rec.Key) > 0 {
			owner = KeyOwner(rec.Key)
		}
		if e := before.Find(rec.Name); e != nil {
			for _, s := range e.Spots {
				if s.Owner == owner && s.Record.Place.Incarnation == rec.Place.Incarnation && s.Record.Number >= rec.Number {
					t.Errorf("RD2: record %d of %s at %v took effect after record %d", rec.Number, e.Name, rec.Place, s.Record.Number)
				}
			}
		}
	}
	for _, e := range after.Entries {
		var was Entry
		if b := before.Find(e.Name); b != nil && b.Number == e.Number {
			was = *b
		}
		held := len(was.Places()) > 0 || was.Held > before.Time
		changed := !reflect.DeepEqual(was.Places(), e.Places())
		if held && was.Owner != e.Owner {
			t.Errorf("RD1: %s was taken from its owner", e.Name)
		}
		if changed && c.Record != nil {
			speaker := c.Speaker
			if len(c.Record.Key) > 0 {
				speaker = KeyOwner(c.Record.Key)
			}
			if speaker != e.Owner || c.Record.Name != e.Name {
				t.Errorf("RD1: %s was changed by %s", e.Name, speaker)
			}
		}
		if changed != (e.Version != was.Version) || changed != slices.Contains(o.News, e) {
			t.Errorf("RD6: the places of %s changed: %v, the version went from %d to %d", e.Name, changed, was.Version, e.Version)
		}
		living := e.Places()
		if !e.Shared && len(living) > 1 {
			t.Errorf("RD5: %s has the places %v", e.Name, living)
		}
		for _, s := range e.Spots {
			if !s.Gone && s.Record.Until <= after.Time {
				t.Errorf("RD4: %s is known at %v until %d, and it is %d", e.Name, s.Record.Place, s.Record.Until, after.Time)
			}
			if k := slices.IndexFunc(was.Spots, func(b *Spot) bool {
				return b.Owner == s.Owner && b.Record.Place.Incarnation == s.Record.Place.Incarnation
			}); k >= 0 && was.Spots[k].Record.Number > s.Record.Number {
				t.Errorf("RD2: %s at %v went from record %d to %d", e.Name, s.Record.Place, was.Spots[k].Record.Number, s.Record.Number)
			}
		}
	}
	was, is := shares(before), shares(after)
	for key, s := range is {
		most := c.Most
		if strings.HasPrefix(key, originShare("")) {
			most *= ownersForOrigin
		}
		if more := s.names > was[key].names && s.names > most || s.spots > was[key].spots && s.spots > spotsForName*most; more && most > 0 && key != MemberOwner &&
			!(c.Speaker == MemberOwner && len(c.Record.Key) == 0) {
			t.Errorf("RD8: %s has %d names at %d places, and may have %d", key, s.names, s.spots, most)
		}
	}
	if after.shares != nil && !maps.Equal(after.shares, is) {
		t.Errorf("RD8: %v are counted, there are %v", after.shares, is)
	}
	for _, b := range before.Entries {
		for _, s := range b.Spots {
			e := after.Find(b.Name)
			if s.Kept > after.Time && (e == nil || !slices.ContainsFunc(e.Spots, func(a *Spot) bool {
				return a.Owner == s.Owner && a.Record.Place.Incarnation == s.Record.Place.Incarnation
			})) {
				t.Errorf("RD2: what was said about %s at %v is forgotten before it has ended", b.Name, s.Record.Place)
			}
		}
	}
}

// shares counts what the owners and origins of a registry have.
func shares(r *Registry) map[string]share {
	counted := Registry{Entries: r.Entries}
	counted.countAll()
	return counted.shares
}

// An owner that has as many names as one may have gets no further ones, and no process gets more
// with many keys; others do (RD8). What it has goes on, and it gets others when names are free
// again.
func TestTheNamesOfAnOwnerAreBounded(t *testing.T) {
	const most = 3
	r := begun()
	claim := func(o *owner, name string, hold Time) error {
		return r.Apply(o.say(Record{Action: Claim, Name: name, Place: at(1), Until: r.Time + 4_000, Hold: hold})).Err
	}
	greedy := newOwner(1)
	greedy.origin, greedy.most = "process 1", most
	for k := range most {
		if err := claim(greedy, fmt.Sprint("name ", k), 3_000); err != nil {
			t.Fatal(err)
		}
	}
	err := claim(greedy, "one more", 0)
	if !errors.Is(err, ErrMany) || !strings.Contains(err.Error(), "raise MaxNamesPerOwner") || r.Find("one more") != nil {
		t.Fatal(err)
	}
	if err := claim(greedy, "name 0", 3_000); err != nil {
		t.Errorf("a name that it has: %v", err)
	}
	taken := most
	for seed := byte(2); ; seed++ { // with one key after the other
		o := newOwner(seed)
		o.origin, o.most = greedy.origin, most
		if err := claim(o, fmt.Sprint("of key ", seed), 3_000); err != nil {
			if !errors.Is(err, ErrMany) {
				t.Fatal(err)
			}
			break
		}
		if taken++; taken > most*ownersForOrigin {
			t.Fatalf("one process has %d names", taken)
		}
	}
	if taken != most*ownersForOrigin {
		t.Errorf("one process has %d names", taken)
	}
	other := newOwner(200)
	other.origin, other.most = "process 2", most
	if err := claim(other, "of another", 0); err != nil {
		t.Errorf("another process: %v", err)
	}
	r = clone(t, r) // what is counted does not depend on snapshots
	for _, held := range []bool{true, false} {
		for range 4 {
			r.Apply(Command{From: r.Time, By: 1_000})
		}
		if err := claim(greedy, "one more", 0); errors.Is(err, ErrMany) != held {
			t.Errorf("at %d, names are held %v: %v", r.Time, held, err)
		}
	}
}

// An owner that withdraws services from ever more endpoints has a bounded number of places.
func TestThePlacesOfAnOwnerAreBounded(t *testing.T) {
	r, o := begun(), newOwner(1)
	o.most = 2
	for k := range 2*spotsForName + 1 {
		err := r.Apply(o.say(Record{Action: Withdraw, Name: fmt.Sprint(k % 2), Place: at(k), Until: 4_000})).Err
		if full := k == 2*spotsForName; errors.Is(err, ErrMany) != full || !full && err != nil {
			t.Errorf("place %d: %v", k, err)
		}
	}
}

// A record that was said once takes no effect again, whatever happened meanwhile (RD2).
func TestAReplayTakesNoEffect(t *testing.T) {
	r, o := begun(), newOwner(1)
	first := o.say(Record{Action: Claim, Name: "service", Place: at(1), Until: 10_000})
	steps := []Command{
		first,
		o.say(Record{Action: Claim, Name: "service", Place: at(2), Until: 8_000}),
		o.say(Record{Action: Withdraw, Name: "service", Place: at(2), Until: 9_000}),
		{From: 0, By: 5_000}, {From: 5_000, By: 4_500},
	}
	for k, c := range steps {
		if o := r.Apply(c); o.Err != nil {
			t.Fatalf("step %d: %v", k, o.Err)
		}
		places := fmt.Sprint(r.Find("service").Places())
		for _, again := range steps[:k+1] {
			if r.Apply(again); fmt.Sprint(r.Find("service").Places()) != places {
				t.Fatalf("after step %d: %v again led from %v to %v", k, again.Record, places, r.Find("service").Places())
			}
		}
	}
	r.Apply(Command{From: 9_500, By: 1_000})
	if o := r.Apply(first); !errors.Is(o.Err, ErrEnded) || len(r.Entries) != 0 {
		t.Error(o.Err, r.Entries)
	}
}

// A claim that comes after the record by which its owner withdrew it takes no effect (RD2).
func TestAClaimThatComesAfterItsWithdrawalTakesNoEffect(t *testing.T) {
	for _, known := range []bool{false, true} { // the name, by a claim of another endpoint
		r, o := begun(), newOwner(1)
		if known {
			r.Apply(o.say(Record{Action: Claim, Name: "service", Place: at(2), Until: 10_000, Shared: true}))
		}
		claim := o.say(Record{Action: Claim, Name: "service", Place: at(1), Until: MaxLease, Shared: true})
		withdraw := o.say(Record{Action: Withdraw, Name: "service", Place: at(1), Until: 5_000, Shared: true})
		if o := r.Apply(withdraw); o.Err != nil || len(o.News) > 0 {
			t.Fatal(o.Err, o.News)
		}
		for r.Time < MaxLease {
			if o := r.Apply(claim); !errors.Is(o.Err, ErrStale) || o.Last != 2+map[bool]uint64{true: 1}[known] {
				t.Fatalf("at %d: %v, record %d", r.Time, o.Err, o.Last)
			}
			if heir := newOwner(2); !known && r.Time == 10*MaxStep { // the name is free meanwhile
				if o := r.Apply(heir.say(Record{Action: Claim, Name: "service", Place: at(3), Until: r.Time + MaxStep})); o.Err != nil {
					t.Fatal(o.Err)
				}
				r.Apply(Command{From: r.Time, By: MaxStep})
			}
			r.Apply(Command{From: r.Time, By: MaxStep})
		}
		if o := r.Apply(claim); !errors.Is(o.Err, ErrEnded) || len(r.Entries) > 0 {
			t.Error(o.Err, r.Entries)
		}
	}
}

// A record is forged if anything in it was changed, if another key signed it, or if it has no
// signature.
func TestAForgedRecordIsRefused(t *testing.T) {
	r, o, thief := begun(), newOwner(1), newOwner(2)
	good := *o.say(Record{Action: Claim, Name: "42", Place: at(1), Until: 9_000, Hold: 5}).Record
	for what, change := range map[string]func(*Record){
		"another action": func(r *Record) { r.Action = Withdraw }, "another name": func(r *Record) { r.Name = "43" },
		"another place": func(r *Record) { r.Place.Addr = "10.6.6.6:6" }, "another host": func(r *Record) { r.Place.Host, r.Place.Socket = r.Place.Socket, "x" },
		"longer": func(r *Record) { r.Until++ }, "held": func(r *Record) { r.Hold++ }, "a later number": func(r *Record) { r.Number++ },
		"shared": func(r *Record) { r.Shared = true }, "another key": func(r *Record) { r.Key = thief.key.Public().(ed25519.PublicKey) },
		"no signature": func(r *Record) { r.Signature = nil }, "half a key": func(r *Record) { r.Key = r.Key[:16] },
		"no key": func(r *Record) { r.Key = nil },
	} {
		forged := good
		change(&forged)
		if o := r.Apply(Command{Record: &forged}); !errors.Is(o.Err, ErrForged) || len(r.Entries) > 0 {
			t.Errorf("%s: %v", what, o.Err)
		}
	}
	elsewhere := good
	elsewhere.Realm = "another directory"
	elsewhere.Sign(o.key)
	if o := r.Apply(Command{Record: &elsewhere}); !errors.Is(o.Err, ErrRealm) {
		t.Error(o.Err)
	}
	if o := r.Apply(Command{Record: &good}); o.Err != nil {
		t.Error(o.Err)
	}
	if o := r.Apply(thief.say(Record{Action: Claim, Name: "42", Place: at(6), Until: 9_000})); !errors.Is(o.Err, ErrOwned) {
		t.Error(o.Err)
	}
	if o := r.Apply(thief.say(Record{Action: Claim, Name: Reserved + "x", Place: at(6), Until: 9_000})); !errors.Is(o.Err, ErrOwned) {
		t.Error(o.Err)
	}
}

// A name that is withdrawn without a hold is free at once; with one, or when its lease ends, after
// the hold.
func TestANameIsFreeAfterItsHold(t *testing.T) {
	for _, c := range []struct {
		name     string
		withdraw bool
		hold     Time
		free     Time // for another owner, from then on
	}{
		{"withdrawn", true, 0, 0}, {"withdrawn and held", true, 3_000, 3_000}, {"ended", false, 0, 4_000}, {"ended and held", false, 3_000, 7_000},
	} {
		r, o, heir := begun(), newOwner(1), newOwner(2)
		r.Apply(o.say(Record{Action: Claim, Name: "x", Place: at(1), Until: 4_000, Hold: c.hold}))
		if c.withdraw {
			r.Apply(o.say(Record{Action: Withdraw, Name: "x", Place: at(1), Until: 4_000, Hold: c.hold}))
		}
		for ; ; r.Apply(Command{From: r.Time, By: 1_000}) {
			o := r.Apply(heir.say(Record{Action: Claim, Name: "x", Place: at(2), Until: r.Time + 5_000}))
			if (o.Err == nil) != (r.Time >= c.free) {
				t.Errorf("%s: at %d: %v", c.name, r.Time, o.Err)
			}
			if r.Time >= c.free {
				break
			}
		}
	}
}

// The end of one place of a shared service ends no hold while there is another place.
func TestASharedNameIsHeldForItsOtherPlaces(t *testing.T) {
	r, o, heir := begun(), newOwner(1), newOwner(2)
	for k := range 2 {
		r.Apply(o.say(Record{Action: Claim, Name: "x", Place: at(1 + k), Until: 4_000, Hold: 3_000, Shared: true}))
	}
	r.Apply(o.say(Record{Action: Withdraw, Name: "x", Place: at(1), Until: 4_000, Shared: true}))
	for ; r.Time < 8_000; r.Apply(Command{From: r.Time, By: 1_000}) {
		o := clone(t, r).Apply(heir.say(Record{Action: Claim, Name: "x", Place: at(3), Until: r.Time + 5_000}))
		if free := o.Err == nil; free != (r.Time >= 7_000) {
			t.Errorf("at %d: %v", r.Time, o.Err)
		}
	}
}

// Two processes of an owner whose clocks are behind give their records the same numbers: the later
// record does not pass for the one that was heard.
func TestAnotherRecordWithTheSameNumberWasNotHeard(t *testing.T) {
	for _, place := range []int{1, 2} {
		r, o := begun(), newOwner(1)
		first := o.say(Record{Action: Claim, Name: "a", Place: at(1), Until: 100, Number: 7})
		if o := r.Apply(first); o.Err != nil {
			t.Fatal(o.Err)
		}
		if o := r.Apply(first); !errors.Is(o.Err, ErrStale) || o.Last != 7 {
			t.Errorf("the record again: %v, after %d", o.Err, o.Last)
		}
		if o := r.Apply(o.say(Record{Action: Claim, Name: "a", Place: at(place), Until: 101, Number: 7})); !errors.Is(o.Err, ErrStale) || o.Last < 8 {
			t.Errorf("another record at place %d: %v, after %d", place, o.Err, o.Last)
		}
	}
}
