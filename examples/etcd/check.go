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

// maxOperations bounds the comparisons of a transaction, and the operations in each of its
// branches, as with etcd.
const maxOperations = 128

func checkTxn(r *pb.TxnRequest) error {
	if err := checkOperations(r, maxOperations); err != nil {
		return err
	}
	_, err := touchedByEither(r)
	return err
}

// checkOperations checks the comparisons and operations of a transaction one by one. Most bounds
// the comparisons, and the operations of each branch; what a transaction does not use of it bounds
// the transactions within.
func checkOperations(r *pb.TxnRequest, most int) error {
	largest := max(len(r.Compare), len(r.Success), len(r.Failure))
	if largest > most {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, op := range slices.Concat(r.Success, r.Failure) {
		if err := checkOperation(op, most-largest); err != nil {
			return err
		}
	}
	return nil
}

func checkOperation(op *pb.RequestOp, most int) error {
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestPut:
		return checkPut(op.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return checkDelete(op.RequestDeleteRange)
	case *pb.RequestOp_RequestRange:
		return checkRange(op.RequestRange)
	case *pb.RequestOp_RequestTxn:
		return checkOperations(op.RequestTxn, most)
	}
	return rpctypes.ErrGRPCKeyNotFound
}

func checkDelete(r *pb.DeleteRangeRequest) error {
	if len(r.Key) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// readsOnly reports whether a transaction changes nothing, whichever branches it takes, and whether
// all of it may be read from a copy that is behind: its ranges are serializable, and it compares
// nothing.
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

// touchedBy returns what a branch touches, or why it must not: one revision puts a key once, and
// does not put and delete it. As in etcd, a deletion of all keys from one on meets no put.
func touchedBy(ops []*pb.RequestOp) (all touched, err error) {
	all.puts = map[string]bool{}
	for _, op := range ops {
		var some touched
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestPut:
			some.puts = map[string]bool{string(op.RequestPut.Key): true}
		case *pb.RequestOp_RequestDeleteRange:
			if keys := spanOf(op.RequestDeleteRange.Key, op.RequestDeleteRange.RangeEnd); keys.end != nil {
				some.dels = []span{keys}
			}
		case *pb.RequestOp_RequestTxn:
			if some, err = touchedByEither(op.RequestTxn); err != nil {
				return all, err
			}
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
