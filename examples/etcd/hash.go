package main

import (
	"encoding/binary"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// hash returns a response without its hash, and the function that computes the hash: of the
// versions up to a revision.
func (s *Store) hash(at int64) (*pb.HashKVResponse, func() (uint32, error), error) {
	switch {
	case at == 0:
		at = s.revision
	case at > s.revision:
		return nil, nil, rpctypes.ErrGRPCFutureRev
	case at < s.compacted:
		return nil, nil, rpctypes.ErrGRPCCompacted
	}
	kept, log := s.kept, s.log[:s.from(at+1)]
	return &pb.HashKVResponse{Header: s.header(), CompactRevision: s.compacted, HashRevision: at}, func() (uint32, error) {
		sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		var one []byte
		for _, all := range [][]version{kept, log} {
			for _, v := range all {
				var err error
				if one, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(one[:0], v.event); err != nil {
					return 0, err
				}
				one = binary.LittleEndian.AppendUint64(one, uint64(len(one)))
				_, _ = sum.Write(one)
			}
		}
		return sum.Sum32(), nil
	}, nil
}
