package main

import (
	"bytes"
	"cmp"

	"github.com/squall-go/squall/replicated/member"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// txn executes the operations of one branch. Which branches are taken, also of transactions within,
// follows from the store as it was before; and what cannot be done is found before anything is.
func (s *Store) txn(c *member.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return s.begin(c).transact(r)
}

// readTxn executes a transaction that only reads. It is no command.
func (s *Store) readTxn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return (&batch{Store: s}).transact(r)
}

func (b *batch) transact(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	taken := b.choose(nil, r)
	if _, err := b.checkTxn(r, taken); err != nil {
		return nil, err
	}
	out, _ := b.txn(r, taken)
	return out, nil
}

// choose appends whether the comparisons of a transaction hold, and then of those in the branch
// that is taken.
func (s *Store) choose(taken []bool, r *pb.TxnRequest) []bool {
	holds := true
	for _, c := range r.Compare {
		holds = holds && s.compare(c)
	}
	taken = append(taken, holds)
	for _, op := range branch(r, holds) {
		if t := op.GetRequestTxn(); t != nil {
			taken = s.choose(taken, t)
		}
	}
	return taken
}

func branch(r *pb.TxnRequest, holds bool) []*pb.RequestOp {
	if holds {
		return r.Success
	}
	return r.Failure
}

// checkTxn returns why an operation cannot be done. Like txn, it takes from the front of taken what
// choose appended.
func (s *Store) checkTxn(r *pb.TxnRequest, taken []bool) (rest []bool, err error) {
	ops, rest := branch(r, taken[0]), taken[1:]
	for _, op := range ops {
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			err = s.checkPut(op.RequestPut)
		case *pb.RequestOp_RequestRange:
			_, err = s.keyRange(&pb.RangeRequest{Key: op.RequestRange.Key, Revision: op.RequestRange.Revision, CountOnly: true})
		case *pb.RequestOp_RequestTxn:
			rest, err = s.checkTxn(op.RequestTxn, rest)
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

func (b *batch) txn(r *pb.TxnRequest, taken []bool) (out *pb.TxnResponse, rest []bool) {
	out = &pb.TxnResponse{Succeeded: taken[0]}
	ops, rest := branch(r, taken[0]), taken[1:]
	for _, op := range ops {
		reply := &pb.ResponseOp{}
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			reply.Response = &pb.ResponseOp_ResponsePut{ResponsePut: b.put(op.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			reply.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: b.deleteRange(op.RequestDeleteRange)}
		case *pb.RequestOp_RequestRange:
			got, _ := b.keyRange(op.RequestRange) // checkTxn found no fault
			reply.Response = &pb.ResponseOp_ResponseRange{ResponseRange: got}
		case *pb.RequestOp_RequestTxn:
			var inner *pb.TxnResponse
			inner, rest = b.txn(op.RequestTxn, rest)
			reply.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}
		}
		out.Responses = append(out.Responses, reply)
	}
	out.Header = b.header()
	return out, rest
}

// compare reports whether a comparison holds for all keys that it names. A key that is not there
// has the version 0, and no value.
func (s *Store) compare(c *pb.Compare) bool {
	holds, found := true, false
	s.ascend(spanOf(c.Key, c.RangeEnd), newest, func(kv *mvccpb.KeyValue) bool {
		found = true
		holds = holds && compareOne(c, kv)
		return holds
	})
	if found {
		return holds
	}
	return c.Target != pb.Compare_VALUE && compareOne(c, &mvccpb.KeyValue{})
}

func compareOne(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	var result int
	switch c.Target {
	case pb.Compare_VALUE:
		result = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		result = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		result = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		result = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		result = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return result == 0
	case pb.Compare_NOT_EQUAL:
		return result != 0
	case pb.Compare_GREATER:
		return result > 0
	case pb.Compare_LESS:
		return result < 0
	}
	return false
}
