package main

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// server answers etcd's API at one member.
type server struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedClusterServer
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedAuthServer

	object  *member.Object[*Store]
	group   *squall.Group
	cluster uint64 // its name, as clients see it
}

// apiVersion is the version of etcd whose API this is.
const apiVersion = "3.6.0"

// What makes small requests cheap. A goroutine that has had a request before has the stack for the
// next one, which a new goroutine grows twice; further requests get a new one. Windows of a fixed
// size spare the pings by which gRPC finds out how large they should be: one for most requests.
const (
	streamWorkers = 512
	windowBytes   = 1 << 20
)

// maxRequestBytes is the size of the largest request that changes something, as with etcd, and
// spareBytes what gRPC takes beyond it.
const (
	maxRequestBytes = 3 << 19
	spareBytes      = 512 << 10
)

var errUnavailable = status.Error(codes.Unavailable, "etcdserver: the member has left its group")

// newServer returns a server for gRPC.
func newServer(g *squall.Group, o *member.Object[*Store], cluster string) (*server, *grpc.Server) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, cluster)
	s := &server{object: o, group: g, cluster: h.Sum64()}
	r := grpc.NewServer(grpc.MaxConcurrentStreams(1<<20), grpc.NumStreamWorkers(streamWorkers),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes), grpc.MaxRecvMsgSize(maxRequestBytes+spareBytes))
	pb.RegisterKVServer(r, s)
	pb.RegisterWatchServer(r, s)
	pb.RegisterLeaseServer(r, s)
	pb.RegisterClusterServer(r, s)
	pb.RegisterMaintenanceServer(r, s)
	pb.RegisterAuthServer(r, s)
	healthpb.RegisterHealthServer(r, health.NewServer())
	return s, r
}

// complete completes the header of a response. The store sets the revision; the rest differs
// between members.
func (s *server) complete(h *pb.ResponseHeader) *pb.ResponseHeader {
	h.ClusterId, h.MemberId, h.RaftTerm = s.cluster, uint64(s.group.ID()), uint64(s.group.View().ID)
	return h
}

// reply is a response with a header.
type reply interface{ GetHeader() *pb.ResponseHeader }

// call has a command executed, and completes the response.
func call[A proto.Message, R reply](ctx context.Context, s *server, c *replicated.Command[A, R], args A) (out R, err error) {
	if proto.Size(args) > maxRequestBytes {
		return out, rpctypes.ErrGRPCRequestTooLarge
	}
	if out, err = c.Call(ctx, s.object, args); err != nil {
		return out, toClient(err)
	}
	s.complete(out.GetHeader())
	return out, nil
}

// read reads the store, after all commands that were answered before.
func read[R reply](ctx context.Context, s *server, f func(*Store) (R, error)) (out R, err error) {
	if err := s.object.Sync(ctx); err != nil {
		return out, toClient(err)
	}
	return local(s, f)
}

// local reads the store as it is here.
func local[R reply](s *server, f func(*Store) (R, error)) (out R, err error) {
	s.object.View(func(st *Store) { out, err = f(st) })
	if err != nil {
		return out, err
	}
	s.complete(out.GetHeader())
	return out, nil
}

// known are the errors of handlers by their texts, which is how they come back.
var known = func() map[string]error {
	all := map[string]error{}
	for _, err := range []error{
		rpctypes.ErrGRPCKeyNotFound, rpctypes.ErrGRPCLeaseNotFound, rpctypes.ErrGRPCCompacted, rpctypes.ErrGRPCFutureRev,
		rpctypes.ErrGRPCLeaseExist, rpctypes.ErrGRPCLeaseTTLTooLarge,
	} {
		all[err.Error()] = err
	}
	return all
}()

// toClient is an error as clients of etcd know it. One of a member that cannot serve has them go on
// with another member.
func toClient(err error) error {
	var refused *replicated.HandlerError
	switch {
	case errors.As(err, &refused) && known[refused.Text] != nil:
		return known[refused.Text]
	case refused != nil:
		return status.Error(codes.Unknown, refused.Text)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.Is(err, squall.ErrTooLarge):
		return rpctypes.ErrGRPCRequestTooLarge
	}
	return status.Error(codes.Unavailable, "etcdserver: "+err.Error())
}

func (s *server) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := checkPut(r); err != nil {
		return nil, err
	}
	return call(ctx, s, put, r)
}

func (s *server) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := checkDelete(r); err != nil {
		return nil, err
	}
	return call(ctx, s, deleteRange, r)
}

func (s *server) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := checkRange(r); err != nil {
		return nil, err
	}
	f := func(st *Store) (*pb.RangeResponse, error) { return st.keyRange(r) }
	if r.Serializable {
		return local(s, f)
	}
	return read(ctx, s, f)
}

func (s *server) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkTxn(r); err != nil {
		return nil, err
	}
	reads, serializable := readsOnly(r)
	switch f := func(st *Store) (*pb.TxnResponse, error) { return st.readTxn(r) }; {
	case !reads:
		return call(ctx, s, txn, r)
	case serializable:
		return local(s, f)
	default:
		return read(ctx, s, f)
	}
}

func (s *server) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return call(ctx, s, compact, r)
}

func (s *server) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return call(ctx, s, grant, r)
}

func (s *server) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return call(ctx, s, revoke, r)
}

func (s *server) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := call(stream.Context(), s, keepAlive, r)
		if err != nil {
			return err
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

func (s *server) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return read(ctx, s, func(st *Store) (*pb.LeaseTimeToLiveResponse, error) { return st.timeToLive(r, now()), nil })
}

func (s *server) LeaseLeases(ctx context.Context, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	return read(ctx, s, func(st *Store) (*pb.LeaseLeasesResponse, error) { return st.allLeases(), nil })
}

// MemberList lists the members of the view.
func (s *server) MemberList(ctx context.Context, _ *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return read(ctx, s, func(st *Store) (*pb.MemberListResponse, error) {
		out := &pb.MemberListResponse{Header: st.header()}
		for _, m := range s.group.View().Members {
			if known := st.members[uint64(m.ID)]; known != nil {
				out.Members = append(out.Members, known)
			}
		}
		return out, nil
	})
}

// Status tells about this member. A group has no leader: the first member of the view stands for
// it.
func (s *server) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return local(s, func(st *Store) (*pb.StatusResponse, error) {
		v := s.group.View()
		out := &pb.StatusResponse{Header: st.header(), Version: apiVersion, RaftTerm: uint64(v.ID), RaftIndex: uint64(st.revision), RaftAppliedIndex: uint64(st.revision),
			DbSize: st.bytes, DbSizeInUse: st.bytes, StorageVersion: apiVersion}
		if len(v.Members) > 0 {
			out.Leader = uint64(v.Members[0].ID)
		}
		return out, nil
	})
}

// HashKV hashes the versions of all keys up to a revision, 0 for the newest one. Members that have
// executed that revision, and were told to compact the same, have the same hash.
func (s *server) HashKV(_ context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	var hash func() (uint32, error)
	out, err := local(s, func(st *Store) (out *pb.HashKVResponse, err error) {
		out, hash, err = st.hash(r.Revision)
		return out, err
	})
	if err != nil {
		return nil, err
	}
	if out.Hash, err = hash(); err != nil { // commands go on meanwhile
		return nil, status.Error(codes.Internal, err.Error())
	}
	return out, nil
}

// Authenticate refuses a user and a password: there are no users. Clients that have some are told
// what etcd tells them.
func (s *server) Authenticate(context.Context, *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	return nil, rpctypes.ErrGRPCAuthNotEnabled
}

// AuthStatus tells that there are no users.
func (s *server) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return local(s, func(st *Store) (*pb.AuthStatusResponse, error) {
		return &pb.AuthStatusResponse{Header: st.header(), Enabled: false}, nil
	})
}

// Alarm lists alarms: there are none.
func (s *server) Alarm(context.Context, *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	return local(s, func(st *Store) (*pb.AlarmResponse, error) { return &pb.AlarmResponse{Header: st.header()}, nil })
}

func now() squall.Time { return squall.Time(time.Now().UnixNano()) }

// expire has time pass for leases while nothing else is commanded, until the group ends.
func (s *server) expire() {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		select {
		case <-t.C:
		case <-s.group.Done():
			return
		}
		due := false
		s.object.View(func(st *Store) { due = st.overdue(now()) })
		if v := s.group.View(); due && len(v.Members) > 0 && v.Members[0].ID == s.group.ID() {
			_, _ = tick.Call(ctx, s.object, nil) // the next member does it, if this one cannot any more
		}
	}
}
