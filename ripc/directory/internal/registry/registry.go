package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Limits of a directory.
const (
	MaxNames  = 1 << 16
	MaxPlaces = 256     // of one name
	MaxLease  = 600_000 // 10 minutes
	MaxHold   = 30 * 24 * 3_600_000
	MaxStep   = 5_000 // of the time: members that were held up do not let all leases end at once
)

// Errors that an owner gets.
var (
	ErrOwned = errors.New("the name belongs to another owner")
	ErrStale = errors.New("a later record is known")
	ErrMoved = errors.New("the service is at another place")
	ErrEnded = errors.New("the lease has ended, or is too long")
	ErrRealm = errors.New("it is for another directory")
	ErrFull  = errors.New("the directory is full")
	ErrMany  = errors.New("the owner has too many names")
	ErrMixed = errors.New("the name is shared, or is not, unlike the record")
)

// Registry is the state of a directory. The zero value is an empty one.
type Registry struct {
	Realm   string   `json:"realm"`   // tells this directory from others
	Time    Time     `json:"time"`    // only grows
	Numbers uint64   `json:"numbers"` // that were given to entries
	Entries []*Entry `json:"entries"` // by name

	shares map[string]share // of each owner and origin; nil: not counted yet
}

// Entry is one name.
type Entry struct {
	Name    string  `json:"name"`
	Number  uint64  `json:"number"` // of this entry: a name that is given up and taken again gets another one
	Version uint64  `json:"version"`
	Owner   string  `json:"owner"`
	Shared  bool    `json:"shared,omitempty"`
	Origin  string  `json:"origin,omitempty"` // from where the owner claimed it
	Held    Time    `json:"held"`             // until then the name is the owner's
	Spots   []*Spot `json:"spots"`            // by owner and incarnation
}

// Spot is the last that an owner said about a name at one endpoint. It is kept until nothing that
// was said before can take effect again.
type Spot struct {
	Record Record `json:"record"`
	Owner  string `json:"owner"`
	Origin string `json:"origin,omitempty"` // from where it was said first
	Gone   bool   `json:"gone,omitempty"`   // the service is not there any more
	Kept   Time   `json:"kept"`             // the latest end of a lease of the owner there
}

// Places returns the places at which the service is.
func (e *Entry) Places() (places []Place) {
	for _, s := range e.Spots {
		if !s.Gone {
			places = append(places, s.Record.Place)
		}
	}
	return places
}

// Command is one step of a registry.
type Command struct {
	Begin   string  `json:"begin,omitempty"` // the realm, if there is none yet
	From    Time    `json:"from,omitempty"`  // the time that passes, and how much: of a step
	By      Time    `json:"by,omitempty"`
	Record  *Record `json:"record,omitempty"`
	Speaker string  `json:"speaker,omitempty"` // the owner that speaks a record without a key, as the member says that passed it on
	Origin  string  `json:"origin,omitempty"`  // the process or the host from which the record came, as that member says; empty: the member itself
	Most    int     `json:"most,omitempty"`    // names that one owner may have; 0: any number
	Ticket  uint64  `json:"ticket,omitempty"`  // of the member that waits for the outcome
}

// Outcome is what became of a command.
type Outcome struct {
	Err  error    // why a record was refused
	Last uint64   // of ErrStale: the record's own number if it was heard before, and otherwise one that its next number has to pass
	News []*Entry // whose places changed
}

// Apply takes one step.
func (r *Registry) Apply(c Command) (o Outcome) {
	if r.Realm == "" {
		r.Realm = c.Begin
	}
	if c.By > 0 && c.From == r.Time { // RD3
		r.Time += min(c.By, MaxStep)
		o.News = r.expire()
	}
	if c.Record != nil {
		e, last, err := r.heed(&c)
		o.Err, o.Last = err, last
		if e != nil {
			o.News = append(o.News, e)
		}
	}
	return o
}

// expire drops what has ended (RD4), and returns the entries whose places changed.
func (r *Registry) expire() (news []*Entry) {
	r.Entries = slices.DeleteFunc(r.Entries, func(e *Entry) bool {
		changed := false
		e.Spots = slices.DeleteFunc(e.Spots, func(s *Spot) bool {
			ended := s.Record.Until <= r.Time
			changed = changed || ended && !s.Gone
			s.Gone = s.Gone || ended
			if s.Kept > r.Time {
				return false
			}
			r.count(s.Owner, s.Origin, 0, -1)
			return true
		})
		if changed {
			e.Version++
			news = append(news, e)
		}
		if len(e.Spots) > 0 || e.Held > r.Time {
			return false
		}
		r.count(e.Owner, e.Origin, -1, 0)
		return true
	})
	return news
}

// Find returns the entry of a name, or nil.
func (r *Registry) Find(name string) *Entry {
	if k, ok := r.index(name); ok {
		return r.Entries[k]
	}
	return nil
}

func (r *Registry) index(name string) (int, bool) {
	return slices.BinarySearchFunc(r.Entries, name, func(e *Entry, name string) int { return strings.Compare(e.Name, name) })
}

// From returns the entries from a name on.
func (r *Registry) From(name string) []*Entry {
	k, _ := r.index(name)
	return r.Entries[k:]
}

// check looks at a record by itself.
func (r *Registry) check(rec *Record, owner string) error {
	switch err := rec.Check(); {
	case err != nil:
		return err
	case owner == "":
		return ErrForged
	case rec.Realm != r.Realm:
		return ErrRealm
	case rec.Until <= r.Time || rec.Until > r.Time+MaxLease || rec.Hold > MaxHold:
		return fmt.Errorf("%w: until %d, it is %d", ErrEnded, rec.Until, r.Time)
	case strings.HasPrefix(rec.Name, Reserved) && owner != MemberOwner:
		return fmt.Errorf("%w: %s… is reserved", ErrOwned, Reserved)
	}
	return nil
}

// heed takes in a record, and returns the entry if its places changed.
func (r *Registry) heed(c *Command) (changed *Entry, last uint64, err error) {
	rec, owner := c.Record, c.Speaker
	if len(rec.Key) > 0 {
		owner = KeyOwner(rec.Key)
	}
	if err := r.check(rec, owner); err != nil {
		return nil, 0, err
	}
	e := r.Find(rec.Name)
	if e == nil {
		if err := r.leaves(owner, c.Origin, 1, 1, c.Most); err != nil {
			return nil, 0, err
		}
		if e, err = r.enter(c, owner); err != nil {
			return nil, 0, err
		}
	}
	if last, err := e.permits(rec, owner, r.Time); err != nil {
		return nil, last, err
	}
	if err := r.admit(e, c, owner); err != nil {
		return nil, 0, err
	}
	if e.put(rec, owner, c.Origin, r.Time) {
		e.Version++
		return e, 0, nil
	}
	return nil, 0, nil
}

// enter makes an entry for a name.
func (r *Registry) enter(c *Command, owner string) (*Entry, error) {
	rec := c.Record
	if len(r.Entries) >= MaxNames {
		return nil, fmt.Errorf("%w: %d names", ErrFull, MaxNames)
	}
	r.Numbers++
	e := &Entry{Name: rec.Name, Number: r.Numbers, Owner: owner, Origin: c.Origin, Shared: rec.Shared}
	r.count(owner, c.Origin, 1, 0)
	k, _ := r.index(rec.Name)
	r.Entries = slices.Insert(r.Entries, k, e)
	return e, nil
}

// permits reports why a record must not take effect, and the number that stands in its way.
func (e *Entry) permits(rec *Record, owner string, now Time) (last uint64, err error) {
	k, known := e.index(owner, rec.Place.Incarnation)
	if known && rec.Number <= e.Spots[k].Record.Number { // RD2
		if last = e.Spots[k].Record.Number; last == rec.Number && !reflect.DeepEqual(e.Spots[k].Record, *rec) {
			last++ // it is the number of another record, too
		}
		return last, ErrStale
	}
	places := e.Places()
	free := len(places) == 0 && e.Held <= now
	if owner != e.Owner && !free { // RD1
		return 0, ErrOwned
	}
	here := known && !e.Spots[k].Gone
	switch {
	case !known && len(e.Spots) >= MaxPlaces:
		return 0, fmt.Errorf("%w: %d places of one name", ErrFull, MaxPlaces)
	case rec.Action == Withdraw:
		return 0, nil
	case rec.Shared != e.Shared && len(places) > 0:
		return 0, ErrMixed
	case e.Shared && len(places) > 0 || here:
		return 0, nil
	case rec.Action == Renew && len(places) > 0:
		return 0, ErrMoved
	}
	for _, s := range e.Spots { // one place for another: in the order of what the owner said
		if s.Owner == owner && s.Record.Number >= rec.Number {
			last = max(last, s.Record.Number, rec.Number+1) // rec was not heard before, which the same number would say
		}
	}
	if last > 0 {
		return last, ErrStale
	}
	return 0, nil
}

// put has a record take effect, and reports whether the places changed (RD6).
func (e *Entry) put(rec *Record, owner, origin string, now Time) (changed bool) {
	k, known := e.index(owner, rec.Place.Incarnation)
	if rec.Action == Withdraw {
		if !known { // a claim that was made before may come yet
			e.Spots = slices.Insert(e.Spots, k, &Spot{Record: *rec, Owner: owner, Origin: origin, Gone: true, Kept: now + MaxLease})
			return false
		}
		s := e.Spots[k]
		changed = !s.Gone
		s.Gone, s.Record, s.Kept = true, *rec, max(s.Kept, rec.Until)
		if e.Owner == owner && len(e.Places()) == 0 {
			e.Held = now + rec.Hold
		}
		return changed
	}
	if e.Owner != owner {
		e.Owner, e.Held = owner, 0
	}
	e.Shared = rec.Shared
	e.Held = max(e.Held, rec.Until+rec.Hold)
	if !known {
		e.Spots = slices.Insert(e.Spots, k, &Spot{Owner: owner, Origin: origin, Gone: true})
	}
	s := e.Spots[k]
	changed = s.Gone || s.Record.Place != rec.Place
	s.Record, s.Gone, s.Kept = *rec, false, max(s.Kept, rec.Until)
	for _, other := range e.Spots { // RD5
		if other != s && !other.Gone && (!e.Shared || other.Owner != owner) {
			other.Gone, changed = true, true
		}
	}
	return changed
}

func (e *Entry) index(owner, incarnation string) (int, bool) {
	return slices.BinarySearchFunc(e.Spots, Spot{Owner: owner, Record: Record{Place: Place{Incarnation: incarnation}}}, func(s *Spot, of Spot) int {
		return cmp.Or(strings.Compare(s.Owner, of.Owner), strings.Compare(s.Record.Place.Incarnation, of.Record.Place.Incarnation))
	})
}

// Write writes the state.
func (r *Registry) Write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// Read replaces the state by what was written, or by an empty one if there is nothing.
func (r *Registry) Read(from io.Reader) error {
	var read Registry
	if err := json.NewDecoder(from).Decode(&read); err != nil && err != io.EOF {
		return err
	}
	*r = read // shares are counted when they are needed
	return nil
}
