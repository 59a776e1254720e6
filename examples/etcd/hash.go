package main

import (
	"encoding/binary"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// hash returns a response without its hash, and the function that computes the hash: of the versions up to a revision.
func (s *Store) hash(at int64) (*pb.HashKVResponse, func() (uint32, error), error) {
	switch {
	case at == 0:
		at = s.revision
	case at > s.revision:
		return nil, nil, rpctypes.ErrGRPCFutureRev
	case at < s.compacted:
		return nil, nil, rpctypes.ErrGRPCCompacted
	}
	versions := s.clone()
	return &pb.HashKVResponse{Header: s.header(), CompactRevision: s.compacted, HashRevision: at}, func() (uint32, error) {
		sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		var one []byte
		var err error
		versions.Ascend(func(v version) bool {
			if v.mod > at {
				return true
			}
			one, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(one[:0], v.event)
			one = binary.LittleEndian.AppendUint64(one, uint64(len(one)))
			_, _ = sum.Write(one)
			return err == nil
		})
		return sum.Sum32(), err
	}, nil
}
