package main

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/google/btree"
	"go.etcd.io/etcd/api/v3/mvccpb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
)

// Store is the state: keys with all their versions since the last compaction, leases, and where the members are. Every
// command that changes keys has the next revision.
//
// A version never changes once it is in the store. So reads return versions without copying them, and a snapshot is
// a clone of the tree, which is copied as it is changed.
type Store struct {
	revision  int64
	compacted int64 // the oldest revision that can be read
	versions  *btree.BTreeG[version]
	log       []version // of revisions from compacted on, in the order in which they were made
	leases    map[int64]*lease
	expiry    squall.Time // no lease expires before
	members   map[uint64]*pb.Member

	changed chan struct{} // closed when the revision changes or the store is compacted, and made anew
	cloning sync.Mutex    // of versions, by readers that share the store
}

// version is a key at a revision.
type version struct {
	key   []byte
	mod   int64
	index int           // among the changes of its revision
	event *mvccpb.Event // with the value, or a deletion
}

func (v *version) deleted() bool { return v.event.Type == mvccpb.DELETE }

// before orders versions by key. Of each key the newest version is the first, so that the one at a revision is the first that is not newer.
func before(a, b version) bool {
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.mod > b.mod
}

func newStore() *Store {
	return &Store{
		revision: 1, versions: btree.NewG(32, before), leases: map[int64]*lease{}, expiry: never, members: map[uint64]*pb.Member{}, changed: make(chan struct{}),
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

// ascend calls f with the versions that the keys of a span have at a revision, until f returns false. It looks each key up, because
// a key may have any number of other versions.
func (s *Store) ascend(keys span, revision int64, f func(version) bool) {
	next := version{key: keys.key, mod: revision}
	for {
		found := version{}
		s.versions.AscendGreaterOrEqual(next, func(v version) bool {
			found = v
			return false
		})
		switch {
		case found.event == nil || !keys.reaches(found.key):
			return
		case found.mod > revision:
			next = version{key: found.key, mod: revision}
			continue
		case !found.deleted() && !f(found):
			return
		}
		next = version{key: found.key} // behind all of its versions
	}
}

// get returns the value of a key at a revision, or nil.
func (s *Store) get(key []byte, revision int64) (kv *mvccpb.KeyValue) {
	s.versions.AscendGreaterOrEqual(version{key: key, mod: revision}, func(v version) bool {
		if bytes.Equal(v.key, key) && !v.deleted() {
			kv = v.event.Kv
		}
		return false
	})
	return kv
}

const newest = math.MaxInt64

// keyRange reads keys.
func (s *Store) keyRange(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	at := r.Revision
	switch {
	case at <= 0:
		at = s.revision
	case at > s.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	case at < s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	}
	out := &pb.RangeResponse{Header: s.header()}
	// Where the order of keys is asked for and nothing is left out, keys beyond the limit are only counted.
	byKey := r.SortOrder == pb.RangeRequest_NONE || r.SortOrder == pb.RangeRequest_ASCEND && r.SortTarget == pb.RangeRequest_KEY
	s.ascend(spanOf(r.Key, r.RangeEnd), at, func(v version) bool {
		kv := v.event.Kv
		out.Count++
		switch {
		case r.CountOnly, !within(kv.ModRevision, r.MinModRevision, r.MaxModRevision), !within(kv.CreateRevision, r.MinCreateRevision, r.MaxCreateRevision):
		case byKey && r.Limit > 0 && int64(len(out.Kvs)) > r.Limit:
		default:
			out.Kvs = append(out.Kvs, kv)
		}
		return true
	})
	if !byKey {
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
func (s *Store) begin(c *replicated.Context) *batch {
	s.expire(c.Time)
	return &batch{Store: s}
}

// add adds a change.
func (b *batch) add(e *mvccpb.Event) {
	if b.changes == 0 {
		b.revision++
		b.wake()
	}
	e.Kv.ModRevision = b.revision
	v := version{key: e.Kv.Key, mod: b.revision, index: b.changes, event: e}
	b.versions.ReplaceOrInsert(v)
	b.log = append(b.log, v)
	b.changes++
}

// clone returns the versions as they are, which later commands do not change.
func (s *Store) clone() *btree.BTreeG[version] {
	s.cloning.Lock()
	defer s.cloning.Unlock()
	return s.versions.Clone()
}

// wake wakes the watchers of this process.
func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (b *batch) put(r *pb.PutRequest) *pb.PutResponse {
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, Version: 1, CreateRevision: b.revision + 1}
	if b.changes > 0 {
		kv.CreateRevision = b.revision
	}
	out := &pb.PutResponse{}
	old := b.get(r.Key, newest)
	if old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
		if r.IgnoreValue {
			kv.Value = old.Value
		}
		if r.IgnoreLease {
			kv.Lease = old.Lease
		}
		b.detach(old)
	}
	if r.PrevKv {
		out.PrevKv = old
	}
	b.attach(kv)
	b.add(&mvccpb.Event{Kv: kv})
	out.Header = b.header()
	return out
}

func (b *batch) deleteRange(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	var all []*mvccpb.KeyValue
	b.ascend(spanOf(r.Key, r.RangeEnd), newest, func(v version) bool {
		all = append(all, v.event.Kv)
		return true
	})
	for _, kv := range all {
		b.remove(kv)
	}
	out := &pb.DeleteRangeResponse{Header: b.header(), Deleted: int64(len(all))}
	if r.PrevKv {
		out.PrevKvs = all
	}
	return out
}

// remove deletes a key.
func (b *batch) remove(kv *mvccpb.KeyValue) {
	b.detach(kv)
	b.add(&mvccpb.Event{Type: mvccpb.DELETE, Kv: &mvccpb.KeyValue{Key: kv.Key}})
}

func (s *Store) put(c *replicated.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
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

func (s *Store) deleteRange(c *replicated.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return s.begin(c).deleteRange(r), nil
}

// compact forgets what was before a revision: all versions but the one that each key has at that revision.
func (s *Store) compact(_ *replicated.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	switch {
	case r.Revision <= s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case r.Revision > s.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.compacted = r.Revision
	var last []byte // the key whose version at the revision was found
	var old []version
	s.versions.Ascend(func(v version) bool {
		switch {
		case v.mod > r.Revision:
		case bytes.Equal(v.key, last):
			old = append(old, v)
		default:
			if last = v.key; v.deleted() && v.mod < r.Revision {
				old = append(old, v)
			}
		}
		return true
	})
	for _, v := range old {
		s.versions.Delete(v)
	}
	s.log = slices.Clone(s.log[s.from(r.Revision):])
	s.wake() // watchers that are too far behind have to be told
	return &pb.CompactionResponse{Header: s.header()}, nil
}

// from returns the place in the log of the first change of a revision or a later one.
func (s *Store) from(revision int64) int {
	return sort.Search(len(s.log), func(i int) bool { return s.log[i].mod >= revision })
}

// announce notes where clients reach a member.
func (s *Store) announce(_ *replicated.Context, m *pb.Member) (*pb.ResponseHeader, error) {
	s.members[m.ID] = m
	return s.header(), nil
}

// inOrder orders versions as they were made.
func inOrder(a, b version) int {
	return cmp.Or(cmp.Compare(a.mod, b.mod), cmp.Compare(a.index, b.index))
}
