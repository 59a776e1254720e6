package member_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
)

// took checks what a command returned, and has the model take it in.
func (w *world) took(at *target, a adding, r added) {
	w.t.Helper()
	w.values[a.Key] += a.By
	w.check(r.Value == w.values[a.Key], "%s adds %v: %d, it has to be %d", at.name, a, r.Value, w.values[a.Key])
	w.noted(at, a, r)
}

// noted checks the rest of what a command returned.
func (w *world) noted(at *target, a adding, r added) {
	w.t.Helper()
	if n := len(w.past); n > 0 {
		last := w.past[n-1]
		w.check(last.version.Before(r.Version) || last.version == r.Version && last.index < r.Index, "%s adds at %v, %d, after %v, %d", at.name, r.Version, r.Index, last.version, last.index)
		w.check(last.time <= r.Time, "the time goes back")
	}
	w.check(!w.random[r.Random], "a random number comes again")
	w.random[r.Random] = true
	if at.node != nil {
		w.check(r.Member == at.node.id && r.Session == 0, "%s calls as member %d, session %d", at.name, r.Member, r.Session)
	} else {
		w.check(r.Session != 0 && r.Session == cmp.Or(at.session, r.Session), "%s calls with session %d after %d", at.name, r.Session, at.session)
		at.session = r.Session
	}
	w.past = append(w.past, moment{r.Version, r.Index, r.Time, maps.Clone(w.values)})
	w.events = append(w.events, event{a.Key, fmt.Sprint(r.Value)})
	if a.Tells {
		w.mirrors[a.Key] += a.By
		w.mirrors["task "+a.Key]++
	}
}

func (w *world) one() *target { return w.targets[w.rng.IntN(len(w.targets))] }

func (w *world) key() string { return []string{"a1", "a2", "b"}[w.rng.IntN(3)] }

func (w *world) step() {
	w.t.Helper()
	at, key := w.one(), w.key()
	a := adding{key, 1 + w.rng.Int64N(5), w.rng.IntN(6) == 0}
	switch n := w.rng.IntN(100); {
	case n < 20:
		w.log("%s adds %v", at.name, a)
		r, err := add.Call(w.ctx, at.bank, a)
		w.must(err)
		w.took(at, a, r)
	case n < 28:
		w.goes(at, key)
	case n < 34:
		w.together(key)
	case n < 37:
		w.restart(func() { w.together(key) })
	case n < 52:
		w.read(at, key)
	case n < 58:
		w.refused(at, key)
	case n < 64:
		w.replies(at, a)
	case n < 72:
		w.watch(at)
	case n < 80:
		w.remember(at, key)
	case n < 82:
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		v, err := n.bank.Subgroup().TakeSnapshot(w.ctx)
		w.log("member %d takes a snapshot at %v", n.id, v)
		w.must(err)
		n.snapshot = v
	case n < 86:
		w.large(at)
	default:
		w.shelve(at, key)
	}
}

// goes calls commands without waiting, and waits for them in any order.
func (w *world) goes(at *target, key string) {
	w.t.Helper()
	n := 2 + w.rng.IntN(10)
	w.log("%s adds %d times to %s", at.name, n, key)
	var all []*replicated.Future[added]
	for range n {
		f, err := add.Go(w.ctx, at.bank, adding{Key: key, By: 1})
		w.must(err)
		all = append(all, f)
	}
	got := make([]added, n)
	for _, k := range w.rng.Perm(n) {
		r, v, err := all[k].WaitVersion(w.ctx)
		w.must(err)
		w.check(v == r.Version, "%s learns of version %v, and it is %v", at.name, v, r.Version)
		got[k] = r
	}
	if at.node == nil { // in any order
		slices.SortFunc(got, func(a, b added) int { return cmp.Compare(a.Value, b.Value) })
	}
	for _, r := range got {
		w.took(at, adding{Key: key, By: 1}, r)
	}
}

// together has all add at the same time.
func (w *world) together(key string) {
	w.t.Helper()
	w.log("all add to %s", key)
	type result struct {
		at *target
		r  added
	}
	var mu sync.Mutex
	var all []result
	var wg sync.WaitGroup
	for _, at := range w.targets {
		for range 3 {
			wg.Go(func() {
				r, err := add.Call(w.ctx, at.bank, adding{Key: key, By: 1})
				if err != nil {
					w.t.Errorf("%s: %v", at.name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, result{at, r})
			})
		}
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b result) int { return cmp.Compare(a.r.Value, b.r.Value) })
	for _, x := range all {
		w.took(x.at, adding{Key: key, By: 1}, x.r)
	}
}

// failed checks the error of a handler.
func (w *world) failed(err error, operation, text string) {
	w.t.Helper()
	var h *replicated.HandlerError
	w.check(errors.As(err, &h) && h.Operation == operation && h.Text == text, "the error is %v, it has to be %q of %s", err, text, operation)
}

func (w *world) read(at *target, key string) {
	w.t.Helper()
	local := w.rng.IntN(3) == 0 && at.node != nil
	w.log("%s reads %s, its own copy: %v", at.name, key, local)
	call := get.Call
	if local {
		w.must(at.node.bank.Sync(w.ctx))
		call = get.Local
	}
	r, err := call(w.ctx, at.bank, key)
	if want, ok := w.values[key]; !ok {
		w.failed(err, "get", fmt.Sprintf("there is no %q", key))
	} else {
		w.must(err)
		w.check(r.Value == want, "%s reads %d of %s, it is %d", at.name, r.Value, key, want)
		last := w.past[len(w.past)-1]
		w.check(!r.Version.Before(last.version) && r.Time >= last.time, "%s reads at %v, before %v", at.name, r.Version, last.version)
	}
	data, err := blob.Call(w.ctx, at.bank, struct{}{})
	w.must(err)
	w.check(bytes.Equal(data, w.blob), "%s reads a blob of %d bytes, it has %d", at.name, len(data), len(w.blob))
	clear(data) // it is the caller's
	if at.node != nil && w.values[key] > 0 {
		at.node.bank.View(func(b *worldBank) {
			if b.Values[key] != w.values[key] {
				w.t.Errorf("%s views %d of %s, it is %d", at.name, b.Values[key], key, w.values[key])
			}
		})
	}
}

// refused calls what is wrong.
func (w *world) refused(at *target, key string) {
	w.t.Helper()
	a := adding{key, -1 << 40, true}
	_, err := add.Call(w.ctx, at.bank, a)
	w.failed(err, "add", tooLittle)
	f, err := add.Go(w.ctx, at.bank, a)
	w.must(err)
	_, err = f.Wait(w.ctx)
	w.failed(err, "add", tooLittle)
	_, err = absent.Call(w.ctx, at.bank, a)
	w.check(errors.Is(err, replicated.ErrUnknownOperation), "%s calls what there is not: %v", at.name, err)
	_, err = get.Call(w.ctx, at.mirror, key)
	w.check(errors.Is(err, replicated.ErrUnknownOperation), "%s reads what there is not: %v", at.name, err)
	_, err = sum.Call(w.ctx, at.shelves, struct{}{})
	w.check(errors.Is(err, replicated.ErrNoKey), "%s reads no shard: %v", at.name, err)
	_, err = told.At(w.ctx, at.mirror, squall.Version{}, key)
	w.check(errors.Is(err, replicated.ErrNotPersistent), "%s reads the past of an object without one: %v", at.name, err)
	ended, cancel := context.WithCancelCause(w.ctx)
	why := errors.New("the caller gave up")
	cancel(why)
	_, err = get.Call(ended, at.bank, key)
	w.check(err == nil || errors.Is(err, why) || errors.As(err, new(*replicated.HandlerError)), "%s gives up: %v", at.name, err)
}

// replies has all members answer, or the first ones.
func (w *world) replies(at *target, a adding) {
	w.t.Helper()
	a.Tells = false
	n := w.rng.IntN(len(w.nodes) + 1)
	if w.rng.IntN(4) == 0 {
		a.By = -1 << 40
	}
	w.log("%s has %d members add %v", at.name, n, a)
	var got []added
	members := map[squall.NodeID]bool{}
	for r, err := range add.Replies(w.ctx, at.bank, a, n) {
		w.must(err)
		w.check(!members[r.Member] && slices.ContainsFunc(w.nodes, func(n *worldNode) bool { return n.id == r.Member }), "member %d answers", r.Member)
		members[r.Member] = true
		if a.By < 0 {
			w.failed(r.Err, "add", tooLittle)
			continue
		}
		w.must(r.Err)
		got = append(got, r.Value)
		w.check(r.Value == got[0], "members return %v and %v", r.Value, got[0])
		if n == len(w.nodes) { // the other ones are not waited for
			n = 1
			break
		}
	}
	w.check(len(members) == cmp.Or(n, len(w.nodes)), "%d members answer, of %d", len(members), n)
	if a.By > 0 {
		w.took(at, a, got[0])
	}
}

// watch watches from some place on.
func (w *world) watch(at *target) {
	w.t.Helper()
	prefix := []string{"", "a", "b", "a2", "c"}[w.rng.IntN(5)]
	from, skip := replicated.Cursor{}, 0
	if len(w.events) > 0 && w.rng.IntN(2) == 0 {
		skip = 1 + w.rng.IntN(len(w.events))
		at := w.past[skip-1]
		from = replicated.Cursor{Version: at.version, Index: 1}
		for k := skip - 2; k >= 0 && w.past[k].version == at.version; k-- {
			from.Index++
		}
	}
	w.log("%s watches %q after %v", at.name, prefix, from)
	var want []event
	for _, e := range w.events[skip:] {
		if strings.HasPrefix(e.topic, prefix) {
			want = append(want, e)
		}
	}
	now, err := replicated.Now(w.ctx, at.bank)
	w.must(err)
	if n := len(w.past); n > 0 {
		w.check(now.Version == w.past[n-1].version, "%s learns that events end at %v, they end at %v", at.name, now, w.past[n-1].version)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	if len(want) == 0 {
		return
	}
	k := 0
	for e, err := range replicated.Watch(ctx, at.bank, from, prefix) {
		w.must(err)
		w.check(e.Topic == want[k].topic && string(e.Data) == want[k].data, "%s gets %s of %s, it has to be %v, the %d-th", at.name, e.Data, e.Topic, want[k], k)
		if k++; k == len(want) {
			break
		}
	}
}

// remember asks for the past.
func (w *world) remember(at *target, key string) {
	w.t.Helper()
	if len(w.past) == 0 {
		return
	}
	then := w.past[w.rng.IntN(len(w.past))]
	k := len(w.past) - 1
	var r added
	var err error
	timed := w.rng.IntN(3) == 0
	w.log("%s reads %s at %v, by its time: %v", at.name, key, then.version, timed)
	if timed {
		for w.past[k].time > then.time {
			k--
		}
		r, err = get.AtTime(w.ctx, at.bank, then.time, key)
	} else {
		for then.version.Before(w.past[k].version) {
			k--
		}
		r, err = get.At(w.ctx, at.bank, then.version, key)
	}
	kept := true
	for _, n := range w.nodes {
		if at.node == nil || at.node == n {
			kept = kept && !n.joined && !then.version.Before(n.snapshot)
		}
	}
	if !kept && errors.Is(err, replicated.ErrNotKept) {
		return
	}
	want, ok := w.past[k].values[key]
	if !ok {
		w.failed(err, "get", fmt.Sprintf("there is no %q", key))
		return
	}
	w.must(err)
	w.check(r.Value == want, "%s reads %d of %s at %v, it was %d", at.name, r.Value, key, then.version, want)
}

// large stores and reads what is larger than a message of a client.
func (w *world) large(at *target) {
	w.t.Helper()
	data := make([]byte, 1+w.rng.IntN(1<<(4+w.rng.IntN(14))))
	for k := range data {
		data[k] = byte(w.rng.Uint32())
	}
	if at.client != nil && w.rng.IntN(3) == 0 { // the replies are together more than a session keeps
		for range 3 {
			_, err := store.Call(w.ctx, at.bank, make([]byte, 200<<10))
			w.must(err)
		}
	}
	w.log("%s stores %d bytes", at.name, len(data))
	back, err := store.Call(w.ctx, at.bank, data)
	w.must(err)
	w.check(bytes.Equal(back, slices.Concat(data, data)), "%s stores %d bytes, and %d others come back", at.name, len(data), len(back))
	clear(back)
	w.blob = data
}

// shelve uses the object in shards.
func (w *world) shelve(at *target, key string) {
	w.t.Helper()
	a := adding{Key: fmt.Sprint(key, w.rng.IntN(4)), By: 1}
	w.log("%s puts %v", at.name, a)
	n, err := put.Call(w.ctx, at.shelves, a)
	w.shelves[a.Key]++
	w.must(err)
	w.check(n == w.shelves[a.Key], "%s puts to %s: %d, it has to be %d", at.name, a.Key, n, w.shelves[a.Key])
	reader := w.one()
	n, err = find.Call(w.ctx, reader.shelves, a.Key)
	w.must(err)
	w.check(n == w.shelves[a.Key], "%s finds %d of %s, it has to be %d", reader.name, n, a.Key, w.shelves[a.Key])
	var want [shards]int64
	for key, n := range w.shelves {
		want[replicated.ShardOf(key, shards)] += n
	}
	k := 0
	for r := range sum.EachShard(w.ctx, reader.shelves, struct{}{}) {
		w.must(r.Err)
		w.check(r.Shard == k && r.Value == want[k], "%s sums shard %d up to %d, the %d-th, it has to be %d", reader.name, r.Shard, r.Value, k, want[k])
		k++
	}
	w.check(k == shards, "%d shards sum up", k)
	var shard replicated.Target
	s := w.rng.IntN(shards)
	if reader.node != nil {
		shard = reader.node.shelves.Shard(s)
	} else {
		shard = reader.client.Object("shelves").Shard(s)
	}
	n, err = sum.Call(w.ctx, shard, struct{}{})
	w.must(err)
	w.check(n == want[s], "%s sums shard %d up to %d, it has to be %d", reader.name, s, n, want[s])
}

// audit compares what all have at the end.
func (w *world) audit() {
	w.t.Helper()
	for _, at := range w.targets {
		for key, want := range w.values {
			r, err := get.Call(w.ctx, at.bank, key)
			w.must(err)
			w.check(r.Value == want, "%s reads %d of %s, it is %d", at.name, r.Value, key, want)
		}
		for key, want := range w.mirrors {
			w.until(func() bool {
				n, err := told.Call(w.ctx, at.mirror, key)
				w.must(err)
				w.check(n <= want || strings.HasPrefix(key, "task "), "%s reads that the mirror was told %d of %s, it has to be %d", at.name, n, key, want)
				return n >= want
			}, "%s reads that the mirror was told %d of %s", at.name, want, key)
		}
	}
	for _, n := range w.nodes {
		w.until(func() bool { return n.bank.Outgoing() == 0 }, "member %d has forwarded all", n.id)
		sessions := 0
		for _, at := range w.targets {
			if at.session != 0 {
				sessions++
			}
		}
		w.check(n.bank.Sessions() == sessions, "member %d has %d sessions, of %d", n.id, n.bank.Sessions(), sessions)
	}
	for _, at := range w.targets {
		if at.client != nil {
			w.must(at.client.Close())
		}
	}
	for _, n := range w.nodes {
		w.until(func() bool { return n.bank.Sessions() == 0 }, "the sessions end")
	}
}
