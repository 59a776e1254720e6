package main

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Bounds of one response: changes that are looked at for it, bytes of its events if the watcher
// takes fragments, and how long a watcher that asked for it hears nothing when there is nothing.
const (
	maxChanges       = 1000
	maxFragmentBytes = maxRequestBytes
	progressEvery    = 10 * time.Minute
)

// watcher is what a client asked to be told. It reads the log of the store at its own pace, from
// the revision next on, so that a slow client costs nothing but its place in the log.
type watcher struct {
	id       int64
	keys     span
	next     int64 // revision
	created  bool  // the client was told
	prevKV   bool
	fragment bool // what is large comes in several responses
	progress bool
	noPut    bool
	noDelete bool
	quiet    time.Time // when it was told something last
}

// watchers has the watchers of one stream.
type watchers struct {
	server *server
	stream pb.Watch_WatchServer

	mu     sync.Mutex
	all    []*watcher
	lastID int64
	out    []*pb.WatchResponse // answers to requests, before events
	asked  bool                // for progress of the whole stream
	wake   chan struct{}       // has an element when there is something new in here
}

// Watch implements pb.WatchServer.
func (s *server) Watch(stream pb.Watch_WatchServer) error {
	w := &watchers{server: s, stream: stream, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() { cancel(w.receive()) }()
	for {
		changed, err := w.send()
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-w.wake:
		case <-time.After(progressEvery / 2):
		case <-s.group.Done():
			return errUnavailable
		case <-ctx.Done():
			if err := context.Cause(ctx); err != io.EOF {
				return err
			}
			return nil
		}
	}
}

// receive takes requests until the stream ends.
func (w *watchers) receive() error {
	for {
		r, err := w.stream.Recv()
		if err != nil {
			return err
		}
		w.mu.Lock()
		switch r := r.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			w.create(r.CreateRequest)
		case *pb.WatchRequest_CancelRequest:
			w.cancel(r.CancelRequest.WatchId)
		case *pb.WatchRequest_ProgressRequest:
			w.asked = true
		}
		w.mu.Unlock()
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// create adds a watcher. The lock is held.
func (w *watchers) create(r *pb.WatchCreateRequest) {
	id := r.WatchId
	if id == 0 { // the first one has the number 0
		for id = w.lastID; w.find(id) >= 0; id++ {
		}
		w.lastID = id + 1
	}
	if w.find(id) >= 0 {
		w.refuse("mvcc: duplicate watch ID provided on the WatchStream")
		return
	}
	key, end := r.Key, r.RangeEnd
	if len(key) == 0 { // the first key that there can be
		key = []byte{0}
	}
	keys := spanOf(key, end)
	if keys.end != nil && bytes.Compare(keys.key, keys.end) >= 0 {
		w.refuse("mvcc: watcher range is empty")
		return
	}
	one := &watcher{id: id, keys: keys, next: r.StartRevision, prevKV: r.PrevKv, fragment: r.Fragment, progress: r.ProgressNotify, quiet: time.Now()}
	for _, f := range r.Filters {
		one.noPut = one.noPut || f == pb.WatchCreateRequest_NOPUT
		one.noDelete = one.noDelete || f == pb.WatchCreateRequest_NODELETE
	}
	w.all = append(w.all, one)
}

// refuse answers a request for a watcher that there cannot be.
func (w *watchers) refuse(why string) {
	w.out = append(w.out, &pb.WatchResponse{WatchId: -1, Canceled: true, Created: true, CancelReason: why})
}

func (w *watchers) cancel(id int64) {
	if i := w.find(id); i >= 0 {
		w.all = append(w.all[:i], w.all[i+1:]...)
		w.out = append(w.out, &pb.WatchResponse{WatchId: id, Canceled: true})
	}
}

func (w *watchers) find(id int64) int {
	for i, one := range w.all {
		if one.id == id {
			return i
		}
	}
	return -1
}

// send sends what there is, and returns a channel that is closed when the store has changed since.
func (w *watchers) send() (changed <-chan struct{}, err error) {
	for {
		var out []*pb.WatchResponse
		more := false
		w.server.object.View(func(s *Store) {
			w.mu.Lock()
			defer w.mu.Unlock()
			out, more = w.collect(s)
			changed = s.changes()
		})
		for _, r := range out {
			r.Header = w.server.complete(r.Header)
			if err := w.stream.Send(r); err != nil {
				return nil, err
			}
		}
		if !more {
			return changed, nil
		}
	}
}

// collect returns responses for all watchers, and whether some of them have more to be told. The
// lock is held, and the store does not change.
func (w *watchers) collect(s *Store) (out []*pb.WatchResponse, more bool) {
	out, w.out = w.out, nil
	for i := 0; i < len(w.all); i++ {
		one := w.all[i]
		if !one.created {
			one.created = true
			if one.next == 0 {
				one.next = s.revision + 1
			}
			out = append(out, &pb.WatchResponse{WatchId: one.id, Created: true})
		}
		if one.next < s.compacted {
			out = append(out, &pb.WatchResponse{WatchId: one.id, Canceled: true, CompactRevision: s.compacted,
				CancelReason: "etcdserver: mvcc: required revision has been compacted"})
			w.all = append(w.all[:i], w.all[i+1:]...)
			i--
			continue
		}
		events := one.events(s)
		more = more || one.next <= s.revision
		switch {
		case len(events) > 0:
			out = append(out, one.responses(events)...)
		case one.progress && time.Since(one.quiet) > progressEvery:
			out = append(out, &pb.WatchResponse{WatchId: one.id})
		default:
			continue
		}
		one.quiet = time.Now()
	}
	if w.asked && !more { // all watchers are told what there was
		w.asked = false
		out = append(out, &pb.WatchResponse{WatchId: -1})
	}
	for _, r := range out {
		r.Header = s.header()
	}
	return out, more
}

// responses returns the responses with events. Each has one event at least.
func (w *watcher) responses(events []*mvccpb.Event) (all []*pb.WatchResponse) {
	for w.fragment {
		n, size := 0, 0
		for n < len(events) && (n == 0 || size+proto.Size(events[n]) <= maxFragmentBytes) {
			size += proto.Size(events[n])
			n++
		}
		if n == len(events) {
			break
		}
		all = append(all, &pb.WatchResponse{WatchId: w.id, Events: events[:n:n], Fragment: true})
		events = events[n:]
	}
	return append(all, &pb.WatchResponse{WatchId: w.id, Events: events})
}

// events returns what a watcher is to be told next: all that it asked for of some whole revisions.
// Then next is the revision behind them.
func (w *watcher) events(s *Store) (events []*mvccpb.Event) {
	if w.next > s.revision {
		return nil
	}
	at := s.from(w.next)
	for n, v := range s.log[at:] {
		if n >= maxChanges && v.index == 0 { // the next revision begins
			w.next = v.mod()
			return events
		}
		if !w.keys.has(v.key()) || w.noDelete && v.deleted() || w.noPut && !v.deleted() {
			continue
		}
		e := v.event
		if w.prevKV {
			e = &mvccpb.Event{Type: e.Type, Kv: e.Kv, PrevKv: s.get(v.key(), v.mod()-1)}
		}
		events = append(events, e)
	}
	w.next = s.revision + 1
	return events
}
