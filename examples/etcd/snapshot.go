package main

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/btree"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/squall-go/squall/replicated"
)

var _ replicated.Snapshotter = (*Store)(nil)

// head is what a snapshot begins with. The versions follow, in the order of the tree.
type head struct {
	Revision  int64
	Compacted int64
	Leases    []lease
	Members   [][]byte // protobufs
	Versions  int
}

// saved is a version in a snapshot.
type saved struct {
	_     struct{} `cbor:",toarray"`
	Index int
	Event []byte // a protobuf
}

// Snapshot implements replicated.Snapshotter. The clone of the tree stays as it is.
func (s *Store) Snapshot() func(io.Writer) error {
	h := head{Revision: s.revision, Compacted: s.compacted, Versions: s.versions.Len()}
	for _, id := range slices.Sorted(maps.Keys(s.leases)) {
		h.Leases = append(h.Leases, *s.leases[id])
	}
	var members []*pb.Member
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		members = append(members, s.members[id])
	}
	versions := s.clone()
	return func(w io.Writer) error {
		h := h
		for _, m := range members {
			b, err := proto.Marshal(m)
			if err != nil {
				return err
			}
			h.Members = append(h.Members, b)
		}
		return write(w, h, versions)
	}
}

func write(w io.Writer, h head, versions *btree.BTreeG[version]) error {
	e := cbor.NewEncoder(w)
	err := e.Encode(h)
	versions.Ascend(func(v version) bool {
		var b []byte
		if err == nil {
			b, err = proto.Marshal(v.event)
		}
		if err == nil {
			err = e.Encode(saved{Index: v.index, Event: b})
		}
		return err == nil
	})
	return err
}

// Restore implements replicated.Snapshotter.
func (s *Store) Restore(r io.Reader) error {
	d := cbor.NewDecoder(r)
	var h head
	if err := d.Decode(&h); err != nil {
		return err
	}
	s.revision, s.compacted = h.Revision, h.Compacted
	for _, l := range h.Leases {
		l.keys = map[string]struct{}{}
		s.leases[l.ID] = &l
		s.expiry = min(s.expiry, l.Expiry)
	}
	for _, b := range h.Members {
		m := &pb.Member{}
		if err := proto.Unmarshal(b, m); err != nil {
			return err
		}
		s.members[m.ID] = m
	}
	for range h.Versions {
		var one saved
		if err := d.Decode(&one); err != nil {
			return err
		}
		e := &mvccpb.Event{}
		if err := proto.Unmarshal(one.Event, e); err != nil {
			return err
		}
		if e.Kv == nil {
			return errors.New("a version without a key")
		}
		v := version{key: e.Kv.Key, mod: e.Kv.ModRevision, index: one.Index, event: e}
		s.versions.ReplaceOrInsert(v)
		if v.mod >= s.compacted {
			s.log = append(s.log, v)
		}
	}
	slices.SortFunc(s.log, inOrder)
	s.ascend(span{}, newest, func(v version) bool {
		s.attach(v.event.Kv)
		return true
	})
	return nil
}
