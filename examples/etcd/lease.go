package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/member"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// lease deletes its keys when it expires, in the time of the object: at the same place of the order
// at every member.
type lease struct {
	ID     int64
	TTL    int64 // seconds
	Expiry squall.Time
	keys   map[string]struct{}
}

func byExpiry(a, b *lease) int {
	return cmp.Or(cmp.Compare(a.Expiry, b.Expiry), cmp.Compare(a.ID, b.ID))
}

// maxTTL is the longest time of a lease, in seconds, as with etcd.
const maxTTL = 9_000_000_000

// never is when nothing expires.
const never = squall.Time(math.MaxUint64)

// While there are leases, the members execute a command at least every leaseBeat. A longer time
// without one is an outage, as is the time before each new view: members were down, or had no
// quorum. It ends no lease, because no client could keep its lease alive in it.
const (
	leaseBeat   = time.Second
	leaseOutage = 5 * leaseBeat / 2
)

// pass advances the time of the store. In a new view, and after another outage, all leases have
// their whole time again, as etcd gives it to them when a new leader is there. Otherwise what has
// expired ends.
func (s *Store) pass(view squall.ViewID, now squall.Time) {
	outage := view != s.view || len(s.leases) > 0 && now > s.passed+squall.Time(leaseOutage)
	s.view, s.passed = view, max(s.passed, now)
	if !outage {
		s.expire(now)
		return
	}
	s.expiry = never
	for _, l := range s.leases {
		s.renew(l, now)
	}
}

// overdue reports whether a command is needed for the leases' sake.
func (s *Store) overdue(now squall.Time) bool {
	return s.expiry <= now || len(s.leases) > 0 && now > s.passed+squall.Time(leaseBeat)
}

// renew gives a lease its time from now on.
func (s *Store) renew(l *lease, now squall.Time) {
	l.Expiry = now + squall.Time(l.TTL)*squall.Time(time.Second)
	s.expiry = min(s.expiry, l.Expiry)
}

func (s *Store) attach(kv *mvccpb.KeyValue) {
	if l := s.leases[kv.Lease]; l != nil {
		l.keys[string(kv.Key)] = struct{}{}
	}
}

func (s *Store) detach(h *history) {
	if l := s.leases[h.lease]; l != nil {
		delete(l.keys, string(h.key))
	}
}

// expire ends the leases that have expired, each with a revision of its own.
func (s *Store) expire(now squall.Time) {
	if now < s.expiry {
		return
	}
	var due []*lease
	s.expiry = never
	for _, l := range s.leases {
		if l.Expiry <= now {
			due = append(due, l)
		} else {
			s.expiry = min(s.expiry, l.Expiry)
		}
	}
	slices.SortFunc(due, byExpiry)
	for _, l := range due {
		s.end(l)
	}
}

// end ends a lease and deletes its keys.
func (s *Store) end(l *lease) {
	b := batch{Store: s}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		b.remove(s.keys[key])
	}
	delete(s.leases, l.ID)
}

func (s *Store) tick(c *member.Context, _ []byte) ([]byte, error) {
	s.begin(c)
	return nil, nil
}

func (s *Store) grant(c *member.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	s.begin(c)
	id := r.ID
	for id == 0 || r.ID == 0 && s.leases[id] != nil {
		id = c.Rand().Int64()
	}
	switch {
	case s.leases[id] != nil:
		return nil, rpctypes.ErrGRPCLeaseExist
	case r.TTL > maxTTL:
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	}
	l := &lease{ID: id, TTL: max(1, r.TTL), keys: map[string]struct{}{}}
	s.renew(l, c.Time)
	s.leases[id] = l
	return &pb.LeaseGrantResponse{Header: s.header(), ID: id, TTL: l.TTL}, nil
}

func (s *Store) revoke(c *member.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	s.begin(c)
	l := s.leases[r.ID]
	if l == nil {
		return nil, rpctypes.ErrGRPCLeaseNotFound
	}
	s.end(l)
	return &pb.LeaseRevokeResponse{Header: s.header()}, nil
}

// keepAlive renews a lease. Of one that is not there the time left is 0.
func (s *Store) keepAlive(c *member.Context, r *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	s.begin(c)
	out := &pb.LeaseKeepAliveResponse{Header: s.header(), ID: r.ID}
	if l := s.leases[r.ID]; l != nil {
		s.renew(l, c.Time)
		out.TTL = l.TTL
	}
	return out, nil
}

// timeToLive tells what is left of a lease.
func (s *Store) timeToLive(r *pb.LeaseTimeToLiveRequest, now squall.Time) *pb.LeaseTimeToLiveResponse {
	out := &pb.LeaseTimeToLiveResponse{Header: s.header(), ID: r.ID, TTL: -1}
	l := s.leases[r.ID]
	if l == nil || l.Expiry <= now {
		return out
	}
	out.TTL, out.GrantedTTL = int64((l.Expiry-now)/squall.Time(time.Second)), l.TTL
	if r.Keys {
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			out.Keys = append(out.Keys, []byte(key))
		}
	}
	return out
}

// allLeases lists the leases, those first that expire first.
func (s *Store) allLeases() *pb.LeaseLeasesResponse {
	out := &pb.LeaseLeasesResponse{Header: s.header()}
	for _, l := range slices.SortedFunc(maps.Values(s.leases), byExpiry) {
		out.Leases = append(out.Leases, &pb.LeaseStatus{ID: l.ID})
	}
	return out
}
