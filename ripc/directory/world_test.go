package directory

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

// This file compares what members and clients of a directory find with a model of it. One goroutine
// draws operations from a seed, and knows what each of them has to return. After each operation it
// waits until all members, and all clients that are notified, know what it has changed.

// resolver is what a user of a directory has: a client, or a member's part.
type resolver interface {
	ripc.Finder
	ripc.Watcher
	ripc.Forgetter
}

// user is a process that uses the directory.
type user struct {
	resolver
	name     string
	client   *Client // nil: a member
	owner    string  // of the names that it claims
	holds    bool    // they stay its owner's
	watchers []*watcher
}

// watcher is a function that watches, and where it was told that services are, change by change.
type watcher struct {
	stop func()
	gone bool

	mu   sync.Mutex
	seen map[ripc.ID][][]ripc.Place
	want map[ripc.ID][][]ripc.Place // of a member: each change of a name
}

func (h *watcher) told() map[ripc.ID][][]ripc.Place {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.seen)
}

// published is a service that a user has published.
type published struct {
	by       *user
	id       ripc.ID
	at       ripc.Place
	withdraw func() error
}

// modelEntry is what the model knows of a name.
type modelEntry struct {
	owner        string
	shared, held bool
	places       map[string]ripc.Place // by incarnation
}

func (e *modelEntry) at() (all []ripc.Place) {
	if e == nil {
		return nil
	}
	for _, incarnation := range slices.Sorted(maps.Keys(e.places)) {
		all = append(all, e.places[incarnation])
	}
	return all
}

type world struct {
	t       *testing.T
	ctx     context.Context
	rng     *rand.Rand
	members []*member
	started int
	users   []*user
	names   map[ripc.ID]*modelEntry
	live    []*published
	ids     []ripc.ID
	history []string
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.history[max(0, len(w.history)-30):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) check(ok bool, format string, args ...any) {
	w.t.Helper()
	if !ok {
		w.fail(format, args...)
	}
}

// until waits until something is so.
func (w *world) until(is func() bool, format string, args ...any) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			w.fail("this does not come: "+format, args...)
		}
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, ctx: testutil.Within(t), rng: rand.New(rand.NewPCG(seed, 1)), names: map[ripc.ID]*modelEntry{}}
	for k := range 6 {
		w.ids = append(w.ids, ripc.ID(fmt.Sprintf("%c%d", 'a'+k%2, k)))
	}
	w.addMember()
	w.addMember()
	for k, of := range []struct {
		key  byte
		hold time.Duration
	}{{1, 0}, {1, 0}, {2, -1}, {0, 0}} {
		cfg := ClientConfig{Lease: 5 * time.Minute, Hold: of.hold, OnLost: func(id ripc.ID, err error) { t.Errorf("client %d lost %s: %v", k, id, err) }}
		cfg.Addresses = addresses(w.members)
		if of.key > 0 {
			cfg.Key = key(of.key)
		}
		w.rng.Shuffle(2, func(i, j int) { cfg.Addresses[i], cfg.Addresses[j] = cfg.Addresses[j], cfg.Addresses[i] })
		c, err := Dial(w.ctx, cfg)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		if k == 1 { // the clocks of its owner's other processes are not so far
			c.pub.number = uint64(time.Now().Add(time.Hour).UnixNano())
		}
		w.users = append(w.users, &user{resolver: c, name: fmt.Sprint("client ", k), client: c, owner: ownerOf(c.cfg.Key), holds: of.key > 0 && of.hold >= 0})
	}
	return w
}

func ownerOf(k ed25519.PrivateKey) string { return registry.KeyOwner(k.Public().(ed25519.PublicKey)) }

// addMember starts a member, which enters itself.
func (w *world) addMember() {
	var join []string
	for _, m := range w.members {
		join = append(join, m.group.Addr())
	}
	w.started++
	m := newMember(w.t, w.started, join, options{lease: 5 * time.Minute})
	e := w.names[ServiceID]
	if e == nil {
		e = &modelEntry{owner: "members", shared: true, places: map[string]ripc.Place{}}
		w.names[ServiceID] = e
	}
	w.until(func() bool {
		at, _ := m.dir.ResolveAll(w.ctx, ServiceID)
		return slices.Contains(at, m.endpoint.Place())
	}, "a member serves")
	e.places[m.endpoint.Place().Incarnation] = m.endpoint.Place()
	w.members = append(w.members, m)
	w.users = append(w.users, &user{resolver: m.dir, name: fmt.Sprint("member ", w.started), owner: ownerOf(m.dir.cfg.Key)})
	w.settle(ServiceID, nil)
}

// stopMember ends a member: its clients go on with another one.
func (w *world) stopMember() {
	k := w.rng.IntN(len(w.members))
	m := w.members[k]
	w.history = append(w.history, fmt.Sprint("a member ends: ", m.group.ID()))
	before := w.known()
	m.stop()
	w.members = slices.Delete(w.members, k, k+1)
	w.users = slices.DeleteFunc(w.users, func(u *user) bool { return u.resolver == resolver(m.dir) })
	w.live = slices.DeleteFunc(w.live, func(p *published) bool { return p.by.resolver == resolver(m.dir) }) // the lease ends
	delete(w.names[ServiceID].places, m.endpoint.Place().Incarnation)
	w.settle(ServiceID, nil)
	for _, u := range w.users {
		if c := u.client; c != nil {
			w.until(func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return (c.conn == nil || c.conn.member != m.endpoint.Addr()) && len(c.fetching) == 0
			}, "%s leaves a member that has ended", u.name)
			for _, id := range w.ids {
				if before[u][id] {
					w.lookUp(u, id)
				}
			}
		}
	}
}

// known returns what clients are notified of.
func (w *world) known() map[*user]map[ripc.ID]bool {
	all := map[*user]map[ripc.ID]bool{}
	for _, u := range w.users {
		if c := u.client; c != nil {
			all[u] = map[ripc.ID]bool{}
			c.mu.Lock()
			for id := range c.cache {
				all[u][id] = true
			}
			c.mu.Unlock()
		}
	}
	return all
}

// settle waits until all that are notified know where a service is: the members, and the clients
// that have asked. Asked is nil if the connections of clients have changed meanwhile.
func (w *world) settle(id ripc.ID, asked map[*user]map[ripc.ID]bool) {
	w.t.Helper()
	want := w.names[id].at()
	for _, u := range w.users {
		if c := u.client; c == nil {
			w.until(func() bool {
				at, _ := u.ResolveAll(w.ctx, id)
				return slices.Equal(at, want)
			}, "%s knows that %s is at %v", u.name, id, want)
			for _, h := range u.watchers {
				h.want[id] = append(h.want[id], want)
			}
		} else if asked[u][id] {
			w.until(func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				known, ok := c.cache[id]
				return len(c.fetching) == 0 && ok == (len(want) > 0 && len(u.watchers) > 0) && (!ok || slices.Equal(known.places, want))
			}, "%s is notified that %s is at %v", u.name, id, want)
			for k, h := range u.watchers {
				told := h.told()[id]
				w.check(len(told) > 0 && slices.Equal(told[len(told)-1], want), "watcher %d of %s was told %v of %s, which is at %v", k, u.name, told, id, want)
			}
		}
	}
	w.audit()
}

// audit compares what the watchers of members were told: each change, once.
func (w *world) audit() {
	w.t.Helper()
	for _, u := range w.users {
		for k, h := range u.watchers {
			told := h.told()
			w.check(u.client != nil || reflect.DeepEqual(told, h.want), "watcher %d of %s was told %v, it has to be %v", k, u.name, told, h.want)
		}
	}
}

// ownerIn is to whom a name belongs that a user claims.
func (u *user) ownerIn(id ripc.ID) string {
	if u.client == nil && strings.HasPrefix(string(id), registry.Reserved) {
		return registry.MemberOwner
	}
	return u.owner
}

// claim has the model take in a claim.
func (w *world) claim(u *user, id ripc.ID, at ripc.Place, shared bool) (changed bool, err error) {
	owner := u.ownerIn(id)
	e := w.names[id]
	switch {
	case strings.HasPrefix(string(id), registry.Reserved) && owner != registry.MemberOwner:
		return false, ErrOwned
	case e == nil:
		e = &modelEntry{owner: owner, places: map[string]ripc.Place{}}
		w.names[id] = e
	case e.owner != owner && (len(e.places) > 0 || e.held):
		return false, ErrOwned
	case e.shared != shared && len(e.places) > 0:
		return false, registry.ErrMixed
	}
	before := e.at()
	if !shared {
		clear(e.places)
	}
	e.places[at.Incarnation] = at
	e.owner, e.shared, e.held = owner, shared, false
	return !slices.Equal(before, e.at()), nil
}

func (w *world) publish(u *user, id ripc.ID, at ripc.Place, shared bool) {
	w.t.Helper()
	asked := w.known()
	changed, want := w.claim(u, id, at, shared)
	f := u.Publish
	if shared {
		f = u.PublishShared
	}
	withdraw, err := f(w.ctx, id, at)
	w.history = append(w.history, fmt.Sprintf("%s publishes %s at %s, shared %v: %v", u.name, id, at.Incarnation, shared, want))
	w.check(errors.Is(err, want) && (want == nil || errors.Is(err, ripc.ErrRefused)), "publishing is %v, it has to be %v", err, want)
	if want != nil {
		return
	}
	w.live = slices.DeleteFunc(w.live, func(p *published) bool { return p.by == u && p.id == id && p.at == at })
	w.live = append(w.live, &published{u, id, at, withdraw})
	if changed {
		w.settle(id, asked)
	}
}

func (w *world) withdraw(p *published) {
	w.t.Helper()
	asked := w.known()
	e, changed := w.names[p.id], false
	if i := slices.Index(w.live, p); i >= 0 {
		w.live = slices.Delete(w.live, i, i+1)
		if e.owner == p.by.ownerIn(p.id) {
			_, changed = e.places[p.at.Incarnation]
			if delete(e.places, p.at.Incarnation); len(e.places) == 0 {
				e.held = p.by.holds
			}
		}
	}
	w.history = append(w.history, fmt.Sprintf("%s withdraws %s at %s: changes %v", p.by.name, p.id, p.at.Incarnation, changed))
	if err := p.withdraw(); err != nil {
		w.fail("withdrawing is %v", err)
	}
	if changed {
		w.settle(p.id, asked)
	}
}

func (w *world) lookUp(u *user, id ripc.ID) {
	w.t.Helper()
	w.history = append(w.history, fmt.Sprintf("%s looks for %s", u.name, id))
	want := w.names[id].at()
	one, errOne := u.Resolve(w.ctx, id)
	all, errAll := u.ResolveAll(w.ctx, id)
	if len(want) == 0 {
		w.check(errors.Is(errOne, ripc.ErrNoService) && errors.Is(errAll, ripc.ErrNoService), "%s finds %s: %v %v, %v %v", u.name, id, one, errOne, all, errAll)
		return
	}
	w.check(errOne == nil && errAll == nil && one == want[0] && slices.Equal(all, want), "%s finds %s at %v, %v and %v, %v; it is at %v", u.name, id, one, errOne, all, errAll, want)
	all[0] = ripc.Place{} // is the caller's
	if c := u.client; c != nil {
		c.mu.Lock()
		kept := c.cache[id].places
		c.mu.Unlock()
		w.check(slices.Equal(kept, want), "%s keeps %v of %s", u.name, kept, id)
	}
}

// forget has a user forget a place, which it asks for again if it has found it.
func (w *world) forget(u *user, id ripc.ID, at ripc.Place) {
	w.t.Helper()
	asked := w.known()[u][id]
	u.Forget(id, at)
	if u.client != nil {
		want := asked && !slices.Contains(w.names[id].at(), at)
		w.check(w.known()[u][id] == want, "%s forgets %v of %s: it is kept: %v", u.name, at, id, !want)
	}
}

func (w *world) list(u *user, prefix string) {
	w.t.Helper()
	var want, got []Entry
	for _, id := range slices.Sorted(maps.Keys(w.names)) {
		if e := w.names[id]; strings.HasPrefix(string(id), prefix) {
			want = append(want, Entry{id, e.owner, e.shared, e.at()})
		}
	}
	if u.client == nil {
		got = u.resolver.(*Directory).List(prefix)
	} else {
		var err error
		got, err = u.client.List(w.ctx, prefix)
		must(w.t, err)
	}
	w.check(slices.EqualFunc(got, want, func(a, b Entry) bool { return reflect.DeepEqual(a, b) }), "%s lists %q: %v, it has to be %v", u.name, prefix, got, want)
}

// watch has a user watch, or not any more.
func (w *world) watch(u *user) {
	if n := len(u.watchers); n > 0 && w.rng.IntN(2) == 0 {
		k := w.rng.IntN(n)
		h := u.watchers[k]
		u.watchers = slices.Delete(u.watchers, k, k+1)
		h.stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.gone = true
		return
	}
	h := &watcher{seen: map[ripc.ID][][]ripc.Place{}, want: map[ripc.ID][][]ripc.Place{}}
	h.stop = u.Watch(func(id ripc.ID, at []ripc.Place) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.gone {
			w.t.Errorf("%s is told of %s after it stopped to watch", u.name, id)
		}
		h.seen[id] = append(h.seen[id], at)
	})
	u.watchers = append(u.watchers, h)
}

// refused tries what is wrong by itself.
func (w *world) refused(u *user) {
	w.t.Helper()
	at := placeOf(0, 0)
	var want error
	id := w.ids[0]
	switch w.rng.IntN(3) {
	case 0:
		id, want = ripc.ID(strings.Repeat("x", registry.MaxName+1)), ripc.ErrRefused
	case 1:
		at.Incarnation, want = "", ripc.ErrRefused
	default:
		if u.client == nil { // a member knows where it listens
			return
		}
		at.Addr, want = "", ripc.ErrUnreachable
	}
	_, err := u.Publish(w.ctx, id, at)
	w.check(errors.Is(err, want), "%s publishes %.10s at %v: %v, it has to be %v", u.name, id, at, err, want)
}

func placeOf(incarnation, addr int) ripc.Place {
	return ripc.Place{Incarnation: fmt.Sprint("i", incarnation), Host: "host", Addr: fmt.Sprint("10.0.0.1:", addr)}
}

// fill publishes more than one answer has.
func (w *world) fill() {
	one, other := w.users[2], w.users[4]
	for k := range 24 {
		at := placeOf(100+k, 1)
		at.Socket = strings.Repeat("s", 250)
		w.publish(one, "many places", at, true)
	}
	for k := range 24 {
		w.publish(other, ripc.ID(fmt.Sprintf("n%02d%s", k, strings.Repeat("n", registry.MaxName-3))), placeOf(k, 2), false)
	}
	for _, u := range w.users {
		w.lookUp(u, "many places")
		w.list(u, "")
	}
}

func (w *world) step() {
	w.t.Helper()
	u := w.users[w.rng.IntN(len(w.users))]
	id := w.ids[w.rng.IntN(len(w.ids))]
	at := placeOf(w.rng.IntN(6), w.rng.IntN(2))
	switch n := w.rng.IntN(100); {
	case n < 30:
		w.publish(u, id, at, (id[1]%2 == 0) != (w.rng.IntN(8) == 0))
	case n < 33:
		w.publish(u, registry.Reserved+"x", at, false)
	case n < 55:
		if len(w.live) > 0 {
			p := w.live[w.rng.IntN(len(w.live))]
			w.withdraw(p)
			if w.rng.IntN(4) == 0 {
				w.withdraw(p)
			}
		}
	case n < 75:
		w.lookUp(u, id)
	case n < 82:
		if all := w.names[id].at(); len(all) > 0 && w.rng.IntN(2) == 0 {
			at = all[w.rng.IntN(len(all))]
		}
		w.forget(u, id, at)
	case n < 90:
		w.watch(u)
	case n < 96:
		w.list(u, []string{"", "a", "b", "a2", registry.Reserved, "z"}[w.rng.IntN(6)])
	default:
		w.refused(u)
	}
}

// Whatever members and clients publish, withdraw, look for and watch, with a member that joins and
// one that ends meanwhile: each of them finds and is told what the directory has to have.
func TestUsersFindWhatTheModelHas(t *testing.T) {
	for seed := range testutil.Seeds[uint64](8, 60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			if seed%3 == 0 {
				w.fill()
			}
			for k := range 300 {
				switch k {
				case 100:
					w.addMember()
				case 200:
					w.stopMember()
				}
				w.step()
			}
			for _, u := range w.users {
				for id := range w.names {
					w.lookUp(u, id)
				}
				w.list(u, "")
			}
			w.audit()
		})
	}
}
