package main

import (
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// What is wrong with a request whatever the store has is found before it becomes a command.

func checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func checkRange(r *pb.RangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if pb.RangeRequest_SortOrder_name[int32(r.SortOrder)] == "" || pb.RangeRequest_SortTarget_name[int32(r.SortTarget)] == "" {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

// maxOperations bounds the operations in a branch of a transaction, as with etcd.
const maxOperations = 128

func checkTxn(r *pb.TxnRequest) error {
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if _, err := touchedBy(ops); err != nil {
			return err
		}
	}
	return nil
}

// readsOnly reports whether a transaction changes nothing, whichever branches it takes, and whether all of it may be read from a copy
// that is behind: its ranges are serializable, and it compares nothing.
func readsOnly(r *pb.TxnRequest) (reads, serializable bool) {
	serializable = len(r.Compare) == 0
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			switch op := op.Request.(type) {
			case *pb.RequestOp_RequestRange:
				serializable = serializable && op.RequestRange.Serializable
			case *pb.RequestOp_RequestTxn:
				inner, s := readsOnly(op.RequestTxn)
				if !inner {
					return false, false
				}
				serializable = serializable && s
			default:
				return false, false
			}
		}
	}
	return true, serializable
}

// touched are the keys that operations put, and the spans that they delete.
type touched struct {
	puts map[string]bool
	dels []span
}

// touchedBy returns what a branch touches, or why it must not: a revision has each key once.
func touchedBy(ops []*pb.RequestOp) (all touched, err error) {
	if len(ops) > maxOperations {
		return all, rpctypes.ErrGRPCTooManyOps
	}
	all.puts = map[string]bool{}
	for _, op := range ops {
		var some touched
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			some, err = touched{puts: map[string]bool{string(op.RequestPut.Key): true}}, checkPut(op.RequestPut)
		case *pb.RequestOp_RequestDeleteRange:
			if len(op.RequestDeleteRange.Key) == 0 {
				return all, rpctypes.ErrGRPCEmptyKey
			}
			some.dels = []span{spanOf(op.RequestDeleteRange.Key, op.RequestDeleteRange.RangeEnd)}
		case *pb.RequestOp_RequestRange:
			err = checkRange(op.RequestRange)
		case *pb.RequestOp_RequestTxn:
			some, err = touchedByEither(op.RequestTxn)
		default:
			err = rpctypes.ErrGRPCKeyNotFound
		}
		if err != nil {
			return all, err
		}
		if all.meets(some) {
			return all, rpctypes.ErrGRPCDuplicateKey
		}
		all.add(some)
	}
	return all, nil
}

// touchedByEither returns what a transaction touches, whichever branch it takes.
func touchedByEither(r *pb.TxnRequest) (all touched, err error) {
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return all, rpctypes.ErrGRPCEmptyKey
		}
	}
	if all, err = touchedBy(r.Success); err != nil {
		return all, err
	}
	other, err := touchedBy(r.Failure)
	all.add(other)
	return all, err
}

func (t *touched) add(other touched) {
	for key := range other.puts {
		t.puts[key] = true
	}
	t.dels = append(t.dels, other.dels...)
}

// meets reports whether a key is put by both, or put by one and deleted by the other one.
func (t *touched) meets(other touched) bool {
	deleted := func(key string, dels []span) bool {
		return slices.ContainsFunc(dels, func(d span) bool { return d.has([]byte(key)) })
	}
	for key := range other.puts {
		if t.puts[key] || deleted(key, t.dels) {
			return true
		}
	}
	for key := range t.puts {
		if deleted(key, other.dels) {
			return true
		}
	}
	return false
}
