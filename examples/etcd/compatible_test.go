package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/member"
)

func at(seconds float64) *member.Context {
	return &member.Context{Time: squall.Time(seconds * float64(time.Second))}
}

// All members were down for longer than a lease, or had no quorum. Its client could not keep it
// alive, so its time begins anew, also in a state that was restored.
func TestTheTimeOfALeaseBeginsAnewAfterAnOutage(t *testing.T) {
	before := newStore()
	must(before.grant(at(10), &pb.LeaseGrantRequest{ID: 7, TTL: 3}))
	must(before.put(at(10), &pb.PutRequest{Key: []byte("k"), Lease: 7}))
	restored := newStore()
	if err := restored.Restore(strings.NewReader(string(snapshotOf(t, before)))); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"as it was": before, "restored": restored} {
		must(s.tick(at(100), nil))
		if s.leases[7] == nil || s.get([]byte("k"), newest) == nil || s.expiry != at(103).Time {
			t.Errorf("%s: after 90 s without a command the lease is %+v", name, s.leases[7])
		}
		for now := 101.0; now < 103; now++ {
			must(s.tick(at(now), nil))
		}
		if s.leases[7] == nil {
			t.Errorf("%s: the lease ended before its time", name)
		}
		if must(s.tick(at(103), nil)); s.leases[7] != nil || s.get([]byte("k"), newest) != nil {
			t.Errorf("%s: the lease is still there after its time", name)
		}
	}
}

// A short lease has its whole time again in the first view after a short outage, also in a state
// that was restored.
func TestAShortLeaseOutlivesAnOutage(t *testing.T) {
	in := func(view squall.ViewID, seconds float64) *member.Context {
		c := at(seconds)
		c.Version.View = view
		return c
	}
	before := newStore()
	must(before.grant(in(1, 10), &pb.LeaseGrantRequest{ID: 7, TTL: 1}))
	restored := newStore()
	if err := restored.Restore(strings.NewReader(string(snapshotOf(t, before)))); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*Store{"as it was": before, "restored": restored} {
		if must(s.tick(in(2, 12), nil)); s.leases[7] == nil || s.expiry != at(13).Time {
			t.Errorf("%s: in the next view, after 2 s, the lease is %+v", name, s.leases[7])
		}
		if must(s.tick(in(2, 13), nil)); s.leases[7] != nil {
			t.Errorf("%s: the lease is still there after its time", name)
		}
	}
}

// While there are leases, time passes by commands, so that an outage can be told from a time in
// which nobody wanted anything.
func TestTimePassesWhileThereAreLeases(t *testing.T) {
	s := newStore()
	must(s.tick(at(10), nil))
	if s.overdue(at(1000).Time) {
		t.Error("a store without leases needs a command")
	}
	must(s.grant(at(1000), &pb.LeaseGrantRequest{ID: 7, TTL: 60}))
	if s.overdue(at(1000.5).Time) || !s.overdue(at(1001.5).Time) {
		t.Error("half a second after a command another one is needed, or one and a half seconds after it none")
	}
}

func TestLeasesAreListedByTheirExpiry(t *testing.T) {
	s := newStore()
	for id, ttl := range []int64{30, 10, 20} {
		must(s.grant(at(1), &pb.LeaseGrantRequest{ID: int64(id + 1), TTL: ttl}))
	}
	var ids []int64
	for _, l := range s.allLeases().Leases {
		ids = append(ids, l.ID)
	}
	same(t, "leases", ids, []int64{2, 3, 1})
}

func TestRequestsHaveTheSizesOfEtcd(t *testing.T) {
	c, all := cluster(t, 3)
	large := strings.Repeat("x", 1<<20)
	must(c.Put(t.Context(), "k", large))
	for _, m := range all {
		if got := must(client(t, m.clients).Get(t.Context(), "k")); got.Count != 1 || string(got.Kvs[0].Value) != large {
			t.Errorf("%s: %d keys", m.clients, got.Count)
		}
	}
	if _, err := c.Put(t.Context(), "k", strings.Repeat("x", maxRequestBytes)); !errors.Is(err, rpctypes.ErrRequestTooLarge) {
		t.Errorf("a put beyond the limit: %v", err)
	}
	s := must(c.Status(t.Context(), all[0].clients))
	same(t, "version", s.Version, apiVersion)
	if s.DbSize <= int64(len(large)) || s.DbSizeInUse != s.DbSize {
		t.Errorf("the sizes are %d and %d", s.DbSize, s.DbSizeInUse)
	}
}

// The size that a member reports is that of the versions it has, however it came to them.
func TestTheSizeFollowsTheVersions(t *testing.T) {
	s, c := newStore(), at(1)
	for range 3 {
		must(s.put(c, &pb.PutRequest{Key: []byte("key"), Value: []byte("value")}))
	}
	same(t, "three versions", s.bytes, int64(24))
	must(s.compact(c, &pb.CompactionRequest{Revision: s.revision}))
	same(t, "one version", s.bytes, int64(8))
	r := newStore()
	if err := r.Restore(strings.NewReader(string(snapshotOf(t, s)))); err != nil {
		t.Fatal(err)
	}
	same(t, "restored", r.bytes, int64(8))
}

func TestAClientWithAUserIsServed(t *testing.T) {
	_, all := cluster(t, 1)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{all[0].clients}, Username: "root", Password: "x", DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	must(c.Put(t.Context(), "k", "v"))
	if s := must(c.AuthStatus(t.Context())); s.Enabled {
		t.Error("authentication is enabled")
	}
	if _, err := c.Authenticate(t.Context(), "root", "x"); !errors.Is(err, rpctypes.ErrAuthNotEnabled) {
		t.Errorf("got %v", err)
	}
}

func TestValuesAreSortedWithoutAnOrder(t *testing.T) {
	c, _ := cluster(t, 1)
	for i, key := range []string{"c", "a", "d", "b"} {
		must(c.Put(t.Context(), key, fmt.Sprint(i)))
	}
	got := must(c.Get(t.Context(), "a", clientv3.WithFromKey(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortNone)))
	same(t, "by value", kvs(got.Kvs), []string{"c=0", "a=1", "d=2", "b=3"})
}

func TestTransactionsAreCheckedAsInEtcd(t *testing.T) {
	put := func(key string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key)}}}
	}
	del := func(key, end string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)}}}
	}
	within := func(r *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
	}
	ops := func(all ...*pb.RequestOp) []*pb.RequestOp { return all }
	many := func(n int) (all []*pb.RequestOp) {
		for i := range n {
			all = append(all, put(fmt.Sprint(i)))
		}
		return all
	}
	compares := func(n int) (all []*pb.Compare) {
		for range n {
			all = append(all, &pb.Compare{Key: []byte("k")})
		}
		return all
	}
	for name, x := range map[string]struct {
		txn  *pb.TxnRequest
		want error
	}{
		"128 operations":                     {&pb.TxnRequest{Success: many(128), Failure: many(128)}, nil},
		"129 operations":                     {&pb.TxnRequest{Failure: many(129)}, rpctypes.ErrGRPCTooManyOps},
		"128 comparisons":                    {&pb.TxnRequest{Compare: compares(128)}, nil},
		"129 comparisons":                    {&pb.TxnRequest{Compare: compares(129)}, rpctypes.ErrGRPCTooManyOps},
		"what is left for one within":        {&pb.TxnRequest{Success: ops(within(&pb.TxnRequest{Success: many(127)}))}, nil},
		"more than is left":                  {&pb.TxnRequest{Success: ops(within(&pb.TxnRequest{Success: many(128)}))}, rpctypes.ErrGRPCTooManyOps},
		"a deletion from a key on, and puts": {&pb.TxnRequest{Success: ops(del("a", "\x00"), put("b"))}, nil},
		"a deletion of a range, and a put":   {&pb.TxnRequest{Success: ops(del("a", "c"), put("b"))}, rpctypes.ErrGRPCDuplicateKey},
		"two faults, the operation's first":  {&pb.TxnRequest{Success: ops(put("a"), put("a"), put(""))}, rpctypes.ErrGRPCEmptyKey},
		"nothing in place of an operation":   {&pb.TxnRequest{Success: ops(&pb.RequestOp{})}, rpctypes.ErrGRPCKeyNotFound},
	} {
		if err := checkTxn(x.txn); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, _ := cluster(t, 1)
	must(c.Put(t.Context(), "b", "1"))
	must(c.Txn(t.Context()).Then(clientv3.OpDelete("a", clientv3.WithFromKey()), clientv3.OpPut("b", "2")).Commit())
	same(t, "a key that is deleted and put", kvs(must(c.Get(t.Context(), "a", clientv3.WithFromKey())).Kvs), []string{"b=2"})
}

// said are the answers to requests for watchers, until there are so many.
func said(t *testing.T, addr string, n int, requests ...*pb.WatchCreateRequest) (all []*pb.WatchResponse) {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	w := must(pb.NewWatchClient(conn).Watch(ctx))
	for _, r := range requests {
		if err := w.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}); err != nil {
			t.Fatal(err)
		}
	}
	for len(all) < n {
		r, err := w.Recv()
		if err != nil {
			t.Fatalf("after %d answers: %v", len(all), err)
		}
		all = append(all, r)
	}
	return all
}

func TestWatchersThatThereCannotBeAreRefused(t *testing.T) {
	c, all := cluster(t, 1)
	must(c.Put(t.Context(), "k", "1"))
	must(c.Compact(t.Context(), must(c.Put(t.Context(), "k", "2")).Header.Revision))
	for name, x := range map[string]struct {
		requests []*pb.WatchCreateRequest
		id       int64
		reason   string
	}{
		"an empty range":      {[]*pb.WatchCreateRequest{{Key: []byte("b"), RangeEnd: []byte("a")}}, -1, "mvcc: watcher range is empty"},
		"a range of nothing":  {[]*pb.WatchCreateRequest{{Key: []byte("b"), RangeEnd: []byte("b")}}, -1, "mvcc: watcher range is empty"},
		"a number twice":      {[]*pb.WatchCreateRequest{{Key: []byte("k"), WatchId: 7}, {Key: []byte("k"), WatchId: 7}}, -1, "mvcc: duplicate watch ID provided on the WatchStream"},
		"a negative revision": {[]*pb.WatchCreateRequest{{Key: []byte("k"), StartRevision: -3}}, 0, "etcdserver: mvcc: required revision has been compacted"},
	} {
		answers := said(t, all[0].clients, max(len(x.requests), int(x.id)+2), x.requests...)
		refusals := 0
		for _, a := range answers {
			if a.Canceled {
				refusals++
				same(t, name, []any{a.WatchId, a.CancelReason}, []any{x.id, x.reason})
			}
		}
		same(t, name+": refusals", refusals, 1)
	}
}

// A watcher that takes fragments gets no response that is larger than a request can be, unless one
// event is.
func TestEventsComeInFragments(t *testing.T) {
	c, all := cluster(t, 1)
	value := strings.Repeat("x", maxRequestBytes/5)
	from := must(c.Put(t.Context(), "k", "")).Header.Revision + 1
	for range 12 {
		must(c.Put(t.Context(), "k", value))
	}
	answers := said(t, all[0].clients, 4, &pb.WatchCreateRequest{Key: []byte("k"), StartRevision: from, Fragment: true})
	var events []int
	for i, a := range answers[1:] {
		events = append(events, len(a.Events))
		same(t, fmt.Sprint("response ", i, " is not the last one"), a.Fragment, i < 2)
	}
	same(t, "events", events, []int{4, 4, 4})
	same(t, "events without fragments", len(said(t, all[0].clients, 2, &pb.WatchCreateRequest{Key: []byte("k"), StartRevision: from})[1].Events), 12)
}

func TestHTTPIsServedAtTheAddressOfClients(t *testing.T) {
	c, all := cluster(t, 1)
	must(c.Put(t.Context(), "k", "v"))
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + all[0].clients + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		return r.StatusCode, string(must(io.ReadAll(r.Body)))
	}
	for path, want := range map[string]string{
		"/health": `"health":"true"`, "/health?serializable=true": `"health":"true"`, "/readyz": `"health":"true"`, "/livez": `"health":"true"`,
		"/version": `"etcdserver":"` + apiVersion + `"`, "/metrics": "squall_members{",
	} {
		code, body := get(path)
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
		if path == "/health" && !json.Valid([]byte(body)) {
			t.Errorf("%s is no JSON: %s", path, body)
		}
	}
	if code, _ := get("/v2/keys"); code != http.StatusNotFound {
		t.Errorf("a path that is not there: %d", code)
	}
	conn := must(grpc.NewClient(all[0].clients, grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	same(t, "gRPC's health", must(healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})).Status, healthpb.HealthCheckResponse_SERVING)
}

// A member that has left its group reports that it is not healthy.
func TestAMemberThatHasLeftIsNotHealthy(t *testing.T) {
	_, all := cluster(t, 1)
	handler := all[0].handler()
	all[0].group.Halt(errors.New("for the test"))
	<-all[0].group.Done()
	for _, path := range []string{"/health", "/health?serializable=true", "/livez"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "for the test") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body.String())
		}
	}
}
