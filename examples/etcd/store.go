package main

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/google/btree"
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/member"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Store is the state: keys with all their versions since the last compaction, leases, and where the
// members are. Every command that changes keys has the next revision.
//
// A version never changes once it is in the store, and those in kept and log stay where they are
// until the next compaction, which makes new lists. So reads return versions without copying them,
// and a snapshot is the two lists as they are.
type Store struct {
	revision  int64
	compacted int64     // the oldest revision that can be read
	kept      []version // of earlier revisions, which can be read at that one, in the order in which they were made
	log       []version // of revisions from compacted on, in that order
	keys      map[string]*history
	sorted    *btree.BTreeG[*history] // the same, by key
	leases    map[int64]*lease
	expiry    squall.Time   // no lease expires before
	passed    squall.Time   // of the last command
	view      squall.ViewID // … in which it was executed
	bytes     int64         // of keys and values, with all versions
	members   map[uint64]*pb.Member

	changed atomic.Pointer[chan struct{}] // what watchers of this process wait for; nil: there is none that waits
}

// history is a key with its versions, the oldest first. What a put needs to know of the newest one
// is beside the key, because of most keys the versions are not in a cache of the processor.
type history struct {
	key      []byte
	versions []version
	created  int64 // the revision that the newest version was created at
	count    int64 // of puts since then: its version for clients; 0 if it is deleted
	lease    int64
}

// version is a key at a revision.
type version struct {
	event *mvccpb.Event // with the value, or a deletion
	index int           // among the changes of its revision
}

// newEvent returns an event with a key and a value beside it, because they are looked up together.
func newEvent() *mvccpb.Event {
	e := &struct {
		mvccpb.Event
		kv mvccpb.KeyValue
	}{}
	e.Kv = &e.kv
	return &e.Event
}

// newPutResponse returns a response with a header beside it.
func newPutResponse() *pb.PutResponse {
	r := &struct {
		pb.PutResponse
		header pb.ResponseHeader
	}{}
	r.Header = &r.header
	return &r.PutResponse
}

func (v version) key() []byte   { return v.event.Kv.Key }
func (v version) mod() int64    { return v.event.Kv.ModRevision }
func (v version) size() int64   { return int64(len(v.event.Kv.Key) + len(v.event.Kv.Value)) }
func (v version) deleted() bool { return v.event.Type == mvccpb.DELETE }

// through returns how many of the versions are of a revision or an earlier one.
func (h *history) through(revision int64) int {
	if revision == newest {
		return len(h.versions)
	}
	return sort.Search(len(h.versions), func(i int) bool { return h.versions[i].mod() > revision })
}

// at returns the value at a revision, or nil.
func (h *history) at(revision int64) *mvccpb.KeyValue {
	if h == nil {
		return nil
	}
	if n := h.through(revision); n > 0 && !h.versions[n-1].deleted() {
		return h.versions[n-1].event.Kv
	}
	return nil
}

func byKey(a, b *history) bool { return bytes.Compare(a.key, b.key) < 0 }

func newStore() *Store {
	return &Store{
		revision: 1, keys: map[string]*history{}, sorted: btree.NewG(32, byKey), leases: map[int64]*lease{}, expiry: never, members: map[uint64]*pb.Member{},
	}
}

func (s *Store) header() *pb.ResponseHeader { return &pb.ResponseHeader{Revision: s.revision} }

// span is a range of keys, as requests name it: from key up to end without it.
type span struct {
	key, end []byte
}

func spanOf(key, end []byte) span {
	switch {
	case len(end) == 0: // the key alone
		return span{key, append(bytes.Clone(key), 0)}
	case len(end) == 1 && end[0] == 0: // all from the key on
		return span{key, nil}
	}
	return span{key, end}
}

func (s span) has(key []byte) bool { return bytes.Compare(key, s.key) >= 0 && s.reaches(key) }

// reaches reports whether a key is before the end.
func (s span) reaches(key []byte) bool { return s.end == nil || bytes.Compare(key, s.end) < 0 }

// ascend calls f with the values that the keys of a span have at a revision, until f returns false.
func (s *Store) ascend(keys span, revision int64, f func(*mvccpb.KeyValue) bool) {
	s.sorted.AscendGreaterOrEqual(&history{key: keys.key}, func(h *history) bool {
		if !keys.reaches(h.key) {
			return false
		}
		kv := h.at(revision)
		return kv == nil || f(kv)
	})
}

// get returns the value of a key at a revision, or nil.
func (s *Store) get(key []byte, revision int64) *mvccpb.KeyValue {
	return s.keys[string(key)].at(revision)
}

const newest = math.MaxInt64

// keyRange reads keys.
func (s *Store) keyRange(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	at, err := s.at(r.Revision)
	if err != nil {
		return nil, err
	}
	out := &pb.RangeResponse{Header: s.header()}
	// Where the order of keys is asked for and nothing is left out, keys beyond the limit are only
	// counted.
	asStored := r.SortTarget == pb.RangeRequest_KEY && r.SortOrder != pb.RangeRequest_DESCEND
	s.ascend(spanOf(r.Key, r.RangeEnd), at, func(kv *mvccpb.KeyValue) bool {
		out.Count++
		switch {
		case r.CountOnly, !within(kv.ModRevision, r.MinModRevision, r.MaxModRevision), !within(kv.CreateRevision, r.MinCreateRevision, r.MaxCreateRevision):
		case asStored && r.Limit > 0 && int64(len(out.Kvs)) > r.Limit:
		default:
			out.Kvs = append(out.Kvs, kv)
		}
		return true
	})
	if !asStored {
		sortBy(out.Kvs, r.SortTarget, r.SortOrder == pb.RangeRequest_DESCEND)
	}
	if r.Limit > 0 && int64(len(out.Kvs)) > r.Limit {
		out.Kvs, out.More = out.Kvs[:r.Limit], true
	}
	if r.KeysOnly {
		for i, kv := range out.Kvs {
			out.Kvs[i] = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}
		}
	}
	return out, nil
}

// at returns the revision that a request means.
func (s *Store) at(revision int64) (int64, error) {
	switch {
	case revision <= 0:
		return s.revision, nil
	case revision > s.revision:
		return 0, rpctypes.ErrGRPCFutureRev
	case revision < s.compacted:
		return 0, rpctypes.ErrGRPCCompacted
	}
	return revision, nil
}

// within reports whether a revision is in bounds, of which 0 is none.
func within(revision, least, most int64) bool {
	return (least == 0 || revision >= least) && (most == 0 || revision <= most)
}

func sortBy(kvs []*mvccpb.KeyValue, target pb.RangeRequest_SortTarget, descending bool) {
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) (c int) {
		switch target {
		case pb.RangeRequest_VERSION:
			c = cmp.Compare(a.Version, b.Version)
		case pb.RangeRequest_CREATE:
			c = cmp.Compare(a.CreateRevision, b.CreateRevision)
		case pb.RangeRequest_MOD:
			c = cmp.Compare(a.ModRevision, b.ModRevision)
		case pb.RangeRequest_VALUE:
			c = bytes.Compare(a.Value, b.Value)
		default:
			c = bytes.Compare(a.Key, b.Key)
		}
		if descending {
			return -c
		}
		return c
	})
}

// batch is what one command changes. All its changes have one revision.
type batch struct {
	*Store
	changes int
}

// begin begins a command: what expires by its time goes first.
func (s *Store) begin(c *member.Context) *batch {
	s.pass(c.Version.View, c.Time)
	return &batch{Store: s}
}

// add adds a change of the key of a history.
func (b *batch) add(h *history, e *mvccpb.Event) {
	if b.changes == 0 {
		b.revision++
		b.wake()
	}
	e.Kv.ModRevision = b.revision
	v := version{event: e, index: b.changes}
	h.add(v)
	b.log = append(b.log, v)
	b.bytes += v.size()
	b.changes++
}

// of returns the history of a key, which begins now if there is none.
func (s *Store) of(key []byte) *history {
	h := s.keys[string(key)]
	if h == nil {
		h = &history{key: key}
		s.keys[string(key)] = h
		s.sorted.ReplaceOrInsert(h)
	}
	return h
}

// add puts a version behind the others.
func (h *history) add(v version) {
	kv := v.event.Kv
	h.versions = append(h.versions, v)
	h.created, h.count, h.lease = kv.CreateRevision, kv.Version, kv.Lease
}

// changes returns a channel that is closed when the revision changes or the store is compacted.
// Several watchers may call it at the same time.
func (s *Store) changes() <-chan struct{} {
	for {
		if c := s.changed.Load(); c != nil {
			return *c
		}
		c := make(chan struct{})
		s.changed.CompareAndSwap(nil, &c)
	}
}

// wake wakes the watchers of this process.
func (s *Store) wake() {
	if c := s.changed.Load(); c != nil {
		s.changed.Store(nil)
		close(*c)
	}
}

func (b *batch) put(r *pb.PutRequest) *pb.PutResponse {
	e, out := newEvent(), newPutResponse()
	kv := e.Kv
	kv.Key, kv.Value, kv.Lease, kv.Version, kv.CreateRevision = r.Key, r.Value, r.Lease, 1, b.revision+1
	if b.changes > 0 {
		kv.CreateRevision = b.revision
	}
	h := b.of(r.Key)
	if h.count > 0 {
		kv.CreateRevision, kv.Version = h.created, h.count+1
		if r.IgnoreLease {
			kv.Lease = h.lease
		}
		if r.IgnoreValue {
			kv.Value = h.at(newest).Value
		}
		if r.PrevKv {
			out.PrevKv = h.at(newest)
		}
		b.detach(h)
	}
	b.attach(kv)
	b.add(h, e)
	out.Header.Revision = b.revision
	return out
}

func (b *batch) deleteRange(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	var all []*mvccpb.KeyValue
	b.ascend(spanOf(r.Key, r.RangeEnd), newest, func(kv *mvccpb.KeyValue) bool {
		all = append(all, kv)
		return true
	})
	for _, kv := range all {
		b.remove(b.keys[string(kv.Key)])
	}
	out := &pb.DeleteRangeResponse{Header: b.header(), Deleted: int64(len(all))}
	if r.PrevKv {
		out.PrevKvs = all
	}
	return out
}

// remove deletes a key.
func (b *batch) remove(h *history) {
	b.detach(h)
	b.add(h, &mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: h.key}})
}

func (s *Store) put(c *member.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	b := s.begin(c)
	if err := s.checkPut(r); err != nil {
		return nil, err
	}
	return b.put(r), nil
}

// checkPut returns why a put cannot be done.
func (s *Store) checkPut(r *pb.PutRequest) error {
	if (r.IgnoreValue || r.IgnoreLease) && s.get(r.Key, newest) == nil {
		return rpctypes.ErrGRPCKeyNotFound
	}
	if r.Lease != 0 && s.leases[r.Lease] == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	return nil
}

func (s *Store) deleteRange(c *member.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return s.begin(c).deleteRange(r), nil
}

// compact forgets what was before a revision: all versions but the one that each key has at that
// revision.
func (s *Store) compact(_ *member.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	switch {
	case r.Revision <= s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case r.Revision > s.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.compacted = r.Revision
	var kept []version
	var gone []*history
	s.sorted.Ascend(func(h *history) bool {
		first := max(0, h.through(r.Revision)-1)
		if v := h.versions[first]; v.deleted() && v.mod() < r.Revision {
			first++
		}
		switch h.versions = slices.Clone(h.versions[first:]); {
		case len(h.versions) == 0:
			gone = append(gone, h)
		case h.versions[0].mod() < r.Revision:
			kept = append(kept, h.versions[0])
		}
		return true
	})
	for _, h := range gone {
		delete(s.keys, string(h.key))
		s.sorted.Delete(h)
	}
	slices.SortFunc(kept, inOrder)
	s.kept, s.log = kept, slices.Clone(s.log[s.from(r.Revision):])
	s.weigh()
	s.wake() // watchers that are too far behind have to be told
	return &pb.CompactionResponse{Header: s.header()}, nil
}

// weigh sets bytes.
func (s *Store) weigh() {
	s.bytes = 0
	for _, all := range [][]version{s.kept, s.log} {
		for _, v := range all {
			s.bytes += v.size()
		}
	}
}

// from returns the place in the log of the first change of a revision or a later one.
func (s *Store) from(revision int64) int {
	return sort.Search(len(s.log), func(i int) bool { return s.log[i].mod() >= revision })
}

// announce notes where clients reach a member.
func (s *Store) announce(_ *member.Context, m *pb.Member) (*pb.ResponseHeader, error) {
	s.members[m.ID] = m
	return s.header(), nil
}

// inOrder orders versions as they were made.
func inOrder(a, b version) int {
	return cmp.Or(cmp.Compare(a.mod(), b.mod()), cmp.Compare(a.index, b.index))
}
