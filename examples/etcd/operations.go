package main

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/replicated/protobuf"
)

// The commands are requests of etcd's API. All of them change the store, and every member executes
// them.
var (
	put         = command[*pb.PutRequest, *pb.PutResponse]("put")
	deleteRange = command[*pb.DeleteRangeRequest, *pb.DeleteRangeResponse]("delete-range")
	txn         = command[*pb.TxnRequest, *pb.TxnResponse]("txn")
	compact     = command[*pb.CompactionRequest, *pb.CompactionResponse]("compact")
	grant       = command[*pb.LeaseGrantRequest, *pb.LeaseGrantResponse]("lease-grant")
	revoke      = command[*pb.LeaseRevokeRequest, *pb.LeaseRevokeResponse]("lease-revoke")
	keepAlive   = command[*pb.LeaseKeepAliveRequest, *pb.LeaseKeepAliveResponse]("lease-keep-alive")
	announce    = command[*pb.Member, *pb.ResponseHeader]("announce") // a member says where clients reach it
	tick        = replicated.NewCommand[[]byte, []byte]("tick")       // time has gone on: leases may have expired
)

// newObject returns the store as an object of a group.
func newObject(sg squall.SubgroupConfig) *member.Object[*Store] {
	sg.Name, sg.MaxMessageBytes = "etcd", maxRequestBytes+spareBytes
	return member.New(sg, newStore,
		member.Handle(put, (*Store).put), member.Handle(deleteRange, (*Store).deleteRange), member.Handle(txn, (*Store).txn),
		member.Handle(compact, (*Store).compact), member.Handle(grant, (*Store).grant), member.Handle(revoke, (*Store).revoke),
		member.Handle(keepAlive, (*Store).keepAlive), member.Handle(announce, (*Store).announce), member.Handle(tick, (*Store).tick))
}

func command[A, R proto.Message](name string) *replicated.Command[A, R] {
	return replicated.NewCommand[A, R](name).Encoded(protobuf.Codec[A](), protobuf.Codec[R]())
}
