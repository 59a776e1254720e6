package main

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/squall-go/squall/replicated/member"
)

// BenchmarkPut puts 10 000 keys in turn.
func BenchmarkPut(b *testing.B) {
	s, c := newStore(), &member.Context{Time: 1}
	value := make([]byte, 256)
	keys := make([][]byte, 10000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%05d", i)
	}
	b.ReportAllocs()
	k := 0
	for b.Loop() {
		k = (k + 7919) % 10000
		if _, err := s.put(c, &pb.PutRequest{Key: append([]byte(nil), keys[k]...), Value: value}); err != nil {
			b.Fatal(err)
		}
	}
}
