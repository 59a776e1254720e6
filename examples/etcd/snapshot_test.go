package main

import (
	"bytes"
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/squall-go/squall/replicated/member"
)

func snapshotOf(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot()(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestASnapshotHasEverythingAndStaysAsItIs(t *testing.T) {
	s, c := newStore(), &member.Context{Time: 1}
	lease := must(s.grant(c, &pb.LeaseGrantRequest{ID: 7, TTL: 100})).ID
	for i := range 100 {
		must(s.put(c, &pb.PutRequest{Key: fmt.Append(nil, "key ", i%10), Value: fmt.Append(nil, i), Lease: lease * int64(i%2)}))
	}
	must(s.deleteRange(c, &pb.DeleteRangeRequest{Key: []byte("key 2"), RangeEnd: []byte("key 4")}))
	must(s.compact(c, &pb.CompactionRequest{Revision: 60}))
	must(s.announce(c, &pb.Member{ID: 3, Name: "three"}))
	write := s.Snapshot()
	want := snapshotOf(t, s)
	must(s.put(c, &pb.PutRequest{Key: []byte("later"), Lease: lease}))
	var kept bytes.Buffer
	if err := write(&kept); err != nil || !bytes.Equal(kept.Bytes(), want) {
		t.Errorf("a snapshot changed with the store, %v", err)
	}
	r := newStore()
	if err := r.Restore(bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	if got := snapshotOf(t, r); !bytes.Equal(got, want) {
		t.Errorf("a snapshot of %d bytes after a restore, %d before", len(got), len(want))
	}
	must(r.put(c, &pb.PutRequest{Key: []byte("later"), Lease: lease}))
	must(r.revoke(c, &pb.LeaseRevokeRequest{ID: lease}))
	must(s.revoke(c, &pb.LeaseRevokeRequest{ID: lease}))
	if !bytes.Equal(snapshotOf(t, r), snapshotOf(t, s)) || len(r.log) != len(s.log) {
		t.Error("a store that was restored goes on differently")
	}
	for n := range len(want) {
		if err := newStore().Restore(bytes.NewReader(want[:n])); err == nil {
			t.Fatalf("a snapshot of %d of %d bytes was taken", n, len(want))
		}
	}
}
