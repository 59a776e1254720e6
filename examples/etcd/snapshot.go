package main

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sort"

	"github.com/fxamacker/cbor/v2"
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/member"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

var _ member.Snapshotter = (*Store)(nil)

// head is what a snapshot begins with. The versions follow, in the order in which they were made.
type head struct {
	Revision  int64
	Compacted int64
	Passed    squall.Time
	View      squall.ViewID
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

// Snapshot implements member.Snapshotter. The lists stay as they are.
func (s *Store) Snapshot() func(io.Writer) error {
	h := head{Revision: s.revision, Compacted: s.compacted, Passed: s.passed, View: s.view, Versions: len(s.kept) + len(s.log)}
	for _, id := range slices.Sorted(maps.Keys(s.leases)) {
		h.Leases = append(h.Leases, *s.leases[id])
	}
	var members []*pb.Member
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		members = append(members, s.members[id])
	}
	kept, log := s.kept, s.log
	return func(w io.Writer) error {
		h := h
		for _, m := range members {
			b, err := proto.Marshal(m)
			if err != nil {
				return err
			}
			h.Members = append(h.Members, b)
		}
		return write(w, h, kept, log)
	}
}

func write(w io.Writer, head head, versions ...[]version) error {
	e := cbor.NewEncoder(w)
	if err := e.Encode(head); err != nil {
		return err
	}
	for _, all := range versions {
		for _, v := range all {
			b, err := proto.Marshal(v.event)
			if err != nil {
				return err
			}
			if err := e.Encode(saved{Index: v.index, Event: b}); err != nil {
				return err
			}
		}
	}
	return nil
}

func decodeVersion(d *cbor.Decoder) (v version, err error) {
	var one saved
	if err := d.Decode(&one); err != nil {
		return v, err
	}
	e := &mvccpb.Event{}
	if err := proto.Unmarshal(one.Event, e); err != nil {
		return v, err
	}
	if e.Kv == nil {
		return v, errors.New("a version without a key")
	}
	return version{event: e, index: one.Index}, nil
}

// Restore implements member.Snapshotter.
func (s *Store) Restore(r io.Reader) error {
	d := cbor.NewDecoder(r)
	var h head
	if err := d.Decode(&h); err != nil {
		return err
	}
	s.revision, s.compacted, s.passed, s.view = h.Revision, h.Compacted, h.Passed, h.View
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
	all, err := decodeVersions(d, h.Versions)
	if err != nil {
		return err
	}
	for _, v := range all {
		s.of(v.key()).add(v)
	}
	n := sort.Search(len(all), func(i int) bool { return all[i].mod() >= s.compacted })
	s.kept, s.log = all[:n:n], all[n:]
	s.weigh()
	s.ascend(span{}, newest, func(kv *mvccpb.KeyValue) bool {
		s.attach(kv)
		return true
	})
	return nil
}

func decodeVersions(d *cbor.Decoder, count int) (all []version, err error) {
	for range count {
		v, err := decodeVersion(d)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	slices.SortFunc(all, inOrder)
	return all, nil
}
