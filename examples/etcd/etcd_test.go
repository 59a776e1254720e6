package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/squall-go/squall"
)

// cluster starts members in this process, and returns a client of them.
func cluster(t testing.TB, n int) (*clientv3.Client, []*node) {
	t.Helper()
	var all []*node
	var endpoints []string
	for i := range n {
		c := config{cluster: "test", clients: "127.0.0.1:0", Config: squall.Config{
			Cluster: "test", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", InitialMembers: 1, FailAfter: 5 * time.Second,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}}
		if i > 0 {
			c.Join = []string{all[0].group.Addr()}
		}
		m, err := open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.close() })
		all = append(all, m)
		endpoints = append(endpoints, m.clients)
	}
	return client(t, endpoints...), all
}

func client(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// must is for calls that have to succeed.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// kvs are keys and values as text.
func kvs(all []*mvccpb.KeyValue) (text []string) {
	for _, kv := range all {
		text = append(text, fmt.Sprintf("%s=%s", kv.Key, kv.Value))
	}
	return text
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestRevisionsAndVersions(t *testing.T) {
	c, _ := cluster(t, 1)
	ctx := t.Context()
	first := must(c.Put(ctx, "a", "1")).Header.Revision
	second := must(c.Put(ctx, "a", "2", clientv3.WithPrevKV()))
	same(t, "the revision after one more put", second.Header.Revision, first+1)
	same(t, "the value before", string(second.PrevKv.Value), "1")
	kv := must(c.Get(ctx, "a")).Kvs[0]
	same(t, "version, create and mod", []int64{kv.Version, kv.CreateRevision, kv.ModRevision}, []int64{2, first, first + 1})
	gone := must(c.Delete(ctx, "a", clientv3.WithPrevKV()))
	same(t, "deleted", kvs(gone.PrevKvs), []string{"a=2"})
	same(t, "deleting nothing", must(c.Delete(ctx, "a")).Header.Revision, gone.Header.Revision)
	same(t, "keys after that", must(c.Get(ctx, "a")).Count, int64(0))
	same(t, "at a revision before", kvs(must(c.Get(ctx, "a", clientv3.WithRev(first))).Kvs), []string{"a=1"})
	must(c.Put(ctx, "a", "3"))
	same(t, "the version of a key that was deleted", must(c.Get(ctx, "a")).Kvs[0].Version, int64(1))
	if _, err := c.Get(ctx, "a", clientv3.WithRev(1000)); !errors.Is(err, rpctypes.ErrFutureRev) {
		t.Errorf("a future revision: %v", err)
	}
	if _, err := c.Put(ctx, "", "x"); !errors.Is(err, rpctypes.ErrEmptyKey) {
		t.Errorf("an empty key: %v", err)
	}
	if _, err := c.Put(ctx, "none", "", clientv3.WithIgnoreValue()); !errors.Is(err, rpctypes.ErrKeyNotFound) {
		t.Errorf("a put without a value of a key that is not there: %v", err)
	}
}

func TestRangesAreSortedAndLimited(t *testing.T) {
	c, _ := cluster(t, 1)
	ctx := t.Context()
	for i, key := range []string{"c", "a", "d", "b"} {
		must(c.Put(ctx, key, fmt.Sprint(i)))
	}
	must(c.Put(ctx, "a", "9"))
	get := func(key string, opts ...clientv3.OpOption) *clientv3.GetResponse {
		return must(c.Get(ctx, key, opts...))
	}
	same(t, "a range", kvs(get("a", clientv3.WithRange("c")).Kvs), []string{"a=9", "b=3"})
	same(t, "from a key on", kvs(get("c", clientv3.WithFromKey()).Kvs), []string{"c=0", "d=2"})
	same(t, "all keys", get("", clientv3.WithPrefix()).Count, int64(4))
	page := get("a", clientv3.WithFromKey(), clientv3.WithLimit(3))
	same(t, "a page", kvs(page.Kvs), []string{"a=9", "b=3", "c=0"})
	same(t, "more, and the count of all", []any{page.More, page.Count}, []any{true, int64(4)})
	same(t, "the last page", get("d", clientv3.WithFromKey(), clientv3.WithLimit(3)).More, false)
	same(t, "descending", kvs(get("a", clientv3.WithFromKey(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(2)).Kvs), []string{"d=2", "c=0"})
	same(t, "by value", kvs(get("a", clientv3.WithFromKey(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend)).Kvs), []string{"c=0", "d=2", "b=3", "a=9"})
	same(t, "the newest", kvs(get("", clientv3.WithLastRev()...).Kvs), []string{"a=9"})
	same(t, "keys only", kvs(get("a", clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithLimit(1)).Kvs), []string{"a="})
	count := get("a", clientv3.WithFromKey(), clientv3.WithCountOnly())
	same(t, "a count", []any{count.Count, len(count.Kvs)}, []any{int64(4), 0})
	mod := get("a", clientv3.WithSerializable()).Kvs[0].ModRevision
	same(t, "changed since", kvs(get("a", clientv3.WithFromKey(), clientv3.WithMinModRev(mod)).Kvs), []string{"a=9"})
	same(t, "created before", len(get("a", clientv3.WithFromKey(), clientv3.WithMaxCreateRev(mod-2)).Kvs), 3)
	same(t, "deleted", must(c.Delete(ctx, "b", clientv3.WithRange("d"))).Deleted, int64(2))
}

func TestTransactions(t *testing.T) {
	c, _ := cluster(t, 1)
	ctx := t.Context()
	missing := clientv3.Compare(clientv3.CreateRevision("a"), "=", 0)
	create := func() *clientv3.TxnResponse {
		return must(c.Txn(ctx).If(missing).Then(clientv3.OpPut("a", "1"), clientv3.OpPut("b", "2"), clientv3.OpGet("a")).
			Else(clientv3.OpGet("a", clientv3.WithRange("c"))).Commit())
	}
	first := create()
	if !first.Succeeded || len(first.Responses) != 3 {
		t.Fatalf("got %v", first)
	}
	got := first.Responses[2].GetResponseRange()
	same(t, "a read behind a write of its transaction", kvs(got.Kvs), []string{"a=1"})
	same(t, "one revision for both", must(c.Get(ctx, "b")).Kvs[0].ModRevision, got.Kvs[0].ModRevision)
	second := create()
	same(t, "the other branch", []any{second.Succeeded, kvs(second.Responses[0].GetResponseRange().Kvs)}, []any{false, []string{"a=1", "b=2"}})
	same(t, "its revision", second.Header.Revision, first.Header.Revision)
	for _, cmp := range []clientv3.Cmp{
		clientv3.Compare(clientv3.Value("a"), "=", "1"), clientv3.Compare(clientv3.Value("a"), "<", "2"), clientv3.Compare(clientv3.Version("a"), "!=", 2),
		clientv3.Compare(clientv3.ModRevision("a"), ">", 1), clientv3.Compare(clientv3.Version("a").WithRange("c"), "=", 1), clientv3.Compare(clientv3.LeaseValue("a"), "=", 0),
	} {
		if r := must(c.Txn(ctx).If(cmp).Commit()); !r.Succeeded {
			t.Errorf("%v does not hold", cmp)
		}
	}
	same(t, "a value that is not there", must(c.Txn(ctx).If(clientv3.Compare(clientv3.Value("none"), "!=", "x")).Commit()).Succeeded, false)
	inner := clientv3.OpTxn([]clientv3.Cmp{missing}, nil, []clientv3.Op{clientv3.OpPut("c", "3"), clientv3.OpDelete("a")})
	must(c.Txn(ctx).Then(inner, clientv3.OpPut("d", "4")).Commit())
	same(t, "after a transaction within another one", kvs(must(c.Get(ctx, "a", clientv3.WithFromKey())).Kvs), []string{"b=2", "c=3", "d=4"})
	before := must(c.Get(ctx, "b")).Header.Revision
	for name, x := range map[string]struct {
		ops  []clientv3.Op
		want error
	}{
		"twice":        {[]clientv3.Op{clientv3.OpPut("x", "1"), clientv3.OpPut("x", "2")}, rpctypes.ErrDuplicateKey},
		"put, deleted": {[]clientv3.Op{clientv3.OpPut("x", "1"), clientv3.OpDelete("w", clientv3.WithRange("z"))}, rpctypes.ErrDuplicateKey},
		"within":       {[]clientv3.Op{clientv3.OpPut("x", "1"), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("x", "2")}, nil)}, rpctypes.ErrDuplicateKey},
		"no lease":     {[]clientv3.Op{clientv3.OpPut("y", "1"), clientv3.OpPut("x", "1", clientv3.WithLease(77))}, rpctypes.ErrLeaseNotFound},
		"future":       {[]clientv3.Op{clientv3.OpPut("y", "1"), clientv3.OpGet("x", clientv3.WithRev(1000))}, rpctypes.ErrFutureRev},
	} {
		if _, err := c.Txn(ctx).Then(x.ops...).Commit(); !errors.Is(err, x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same(t, "the revision after transactions that were refused", must(c.Get(ctx, "b")).Header.Revision, before)
}

func TestTransactionsThatOnlyReadAreNoCommands(t *testing.T) {
	get := func(serializable bool) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a"), Serializable: serializable}}}
	}
	within := func(r *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
	}
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("a")}}}
	remove := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("a")}}}
	ops := func(all ...*pb.RequestOp) []*pb.RequestOp { return all }
	compare := []*pb.Compare{{Key: []byte("a")}}
	for name, x := range map[string]struct {
		txn                 *pb.TxnRequest
		reads, serializable bool
	}{
		"nothing":               {&pb.TxnRequest{}, true, true},
		"ranges":                {&pb.TxnRequest{Success: ops(get(true), get(false))}, true, false},
		"serializable ranges":   {&pb.TxnRequest{Success: ops(get(true)), Failure: ops(get(true))}, true, true},
		"compared":              {&pb.TxnRequest{Compare: compare, Success: ops(get(true))}, true, false},
		"within":                {&pb.TxnRequest{Success: ops(within(&pb.TxnRequest{Success: ops(get(true))}))}, true, true},
		"compared within":       {&pb.TxnRequest{Success: ops(within(&pb.TxnRequest{Compare: compare}))}, true, false},
		"a put":                 {&pb.TxnRequest{Success: ops(get(true), put)}, false, false},
		"a delete in a failure": {&pb.TxnRequest{Failure: ops(remove)}, false, false},
		"a put within":          {&pb.TxnRequest{Success: ops(within(&pb.TxnRequest{Failure: ops(put)}))}, false, false},
	} {
		if reads, serializable := readsOnly(x.txn); reads != x.reads || serializable != x.serializable {
			t.Errorf("%s: only reads: %v, serializable: %v", name, reads, serializable)
		}
	}
	c, all := cluster(t, 2)
	must(c.Put(t.Context(), "a", "1"))
	for _, m := range all { // each has what was answered
		r := must(client(t, m.clients).Txn(t.Context()).If(clientv3.Compare(clientv3.Version("a"), "=", 1)).Then(clientv3.OpGet("a")).Commit())
		same(t, m.clients, []any{r.Succeeded, kvs(r.Responses[0].GetResponseRange().Kvs)}, []any{true, []string{"a=1"}})
	}
}

func TestCompaction(t *testing.T) {
	c, _ := cluster(t, 1)
	ctx := t.Context()
	old := must(c.Put(ctx, "a", "1")).Header.Revision
	must(c.Put(ctx, "gone", "1"))
	must(c.Delete(ctx, "gone"))
	at := must(c.Put(ctx, "a", "2")).Header.Revision
	must(c.Put(ctx, "a", "3"))
	must(c.Compact(ctx, at))
	for what, err := range map[string]error{
		"compacted again":             second(c.Compact(ctx, at)),
		"a revision that was dropped": second(c.Get(ctx, "a", clientv3.WithRev(old))),
	} {
		if !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Compact(ctx, 1000); !errors.Is(err, rpctypes.ErrFutureRev) {
		t.Errorf("a future revision: %v", err)
	}
	same(t, "at the revision", kvs(must(c.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(at))).Kvs), []string{"a=2"})
	same(t, "now", kvs(must(c.Get(ctx, "a")).Kvs), []string{"a=3"})
	watched := <-c.Watch(ctx, "a", clientv3.WithRev(old))
	if !errors.Is(watched.Err(), rpctypes.ErrCompacted) || watched.CompactRevision != at {
		t.Errorf("a watch of what was dropped: %v, %d", watched.Err(), watched.CompactRevision)
	}
}

func second[T any](_ T, err error) error { return err }

// next takes events from a watch until there are n.
func next(t *testing.T, w clientv3.WatchChan, n int) (text []string) {
	t.Helper()
	end := time.After(20 * time.Second)
	for len(text) < n {
		select {
		case r := <-w:
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
			for _, e := range r.Events {
				line := fmt.Sprintf("%v %s=%s", e.Type, e.Kv.Key, e.Kv.Value)
				if e.PrevKv != nil {
					line += fmt.Sprintf(" was %s", e.PrevKv.Value)
				}
				text = append(text, line)
			}
		case <-end:
			t.Fatalf("only the events %v", text)
		}
	}
	return text
}

func TestWatches(t *testing.T) {
	c, _ := cluster(t, 1)
	ctx := t.Context()
	from := must(c.Put(ctx, "a", "1")).Header.Revision
	must(c.Put(ctx, "z", "1"))
	must(c.Put(ctx, "a", "2"))
	all := c.Watch(ctx, "a", clientv3.WithRev(from), clientv3.WithPrevKV())
	same(t, "from a revision on", next(t, all, 2), []string{"PUT a=1", "PUT a=2 was 1"})
	deletes := c.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithFilterPut())
	puts := c.Watch(ctx, "a", clientv3.WithRange("c"), clientv3.WithRev(from), clientv3.WithFilterDelete())
	must(c.Txn(ctx).Then(clientv3.OpDelete("a"), clientv3.OpPut("b", "3")).Commit())
	same(t, "a deletion", next(t, all, 1), []string{"DELETE a= was 2"})
	same(t, "deletions alone", next(t, deletes, 1), []string{"DELETE a="})
	same(t, "puts alone", next(t, puts, 3), []string{"PUT a=1", "PUT a=2", "PUT b=3"})
	if err := c.RequestProgress(ctx); err != nil {
		t.Fatal(err)
	}
	if r := <-puts; !r.IsProgressNotify() {
		t.Errorf("got %v in place of progress", r)
	}
}

func TestAWatcherThatIsFarBehindGetsEverything(t *testing.T) {
	c, m := cluster(t, 1)
	ctx := t.Context()
	const n = 3*maxChanges + 10
	for k := range n / 100 {
		var ops []clientv3.Op
		for i := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("key %03d", i), fmt.Sprint(k)))
		}
		must(c.Txn(ctx).Then(ops...).Commit())
	}
	seen, last := 0, int64(0)
	for r := range c.Watch(ctx, "key", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if len(r.Events)%100 != 0 || r.Events[0].Kv.ModRevision <= last {
			t.Fatalf("%d events from revision %d after %d", len(r.Events), r.Events[0].Kv.ModRevision, last)
		}
		last = r.Events[len(r.Events)-1].Kv.ModRevision
		if seen += len(r.Events); seen == n/100*100 {
			break
		}
	}
	m[0].object.View(func(s *Store) { same(t, "the last event's revision", last, s.revision) })
}

func TestLeasesExpireInOrderedTime(t *testing.T) {
	c, _ := cluster(t, 3)
	ctx := t.Context()
	short := must(c.Grant(ctx, 1))
	long := must(c.Grant(ctx, 100))
	for _, key := range []string{"x", "y"} {
		must(c.Put(ctx, key, "1", clientv3.WithLease(short.ID)))
	}
	must(c.Put(ctx, "z", "1", clientv3.WithLease(short.ID)))
	must(c.Put(ctx, "z", "2", clientv3.WithLease(long.ID)))
	left := must(c.TimeToLive(ctx, long.ID, clientv3.WithAttachedKeys()))
	same(t, "the keys of a lease", []any{left.GrantedTTL, string(left.Keys[0])}, []any{int64(100), "z"})
	same(t, "leases", len(must(c.Leases(ctx)).Leases), 2)
	w := c.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithFilterPut())
	same(t, "what expires", next(t, w, 2), []string{"DELETE x=", "DELETE y="})
	same(t, "what stays", kvs(must(c.Get(ctx, "x", clientv3.WithFromKey())).Kvs), []string{"z=2"})
	if _, err := c.Put(ctx, "x", "1", clientv3.WithLease(short.ID)); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("a lease that has expired: %v", err)
	}
	if _, err := c.KeepAliveOnce(ctx, short.ID); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("keeping it alive: %v", err)
	}
	same(t, "a lease that is kept alive", must(c.KeepAliveOnce(ctx, long.ID)).TTL, int64(100))
	must(c.Revoke(ctx, long.ID))
	same(t, "the end of a lease", next(t, w, 1), []string{"DELETE z="})
	if _, err := c.Grant(ctx, 1<<40); err == nil {
		t.Error("a lease for tens of thousands of years was granted")
	}
}

func TestMembersTellAboutThemselves(t *testing.T) {
	c, all := cluster(t, 3)
	list := must(c.MemberList(t.Context()))
	same(t, "members", len(list.Members), 3)
	for _, m := range all {
		s := must(c.Status(t.Context(), m.clients))
		same(t, "a member and its leader", []uint64{s.Header.MemberId, s.Leader}, []uint64{uint64(m.group.ID()), 1})
	}
	if err := c.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "endpoints", len(c.Endpoints()), 3)
}

func TestEveryMemberHasTheSame(t *testing.T) {
	c, all := cluster(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lease := must(c.Grant(ctx, 100)).ID
	for i := range 50 {
		must(client(t, all[i%3].clients).Put(ctx, fmt.Sprint("key ", i%10), fmt.Sprint(i), clientv3.WithLease(lease)))
	}
	must(c.Delete(ctx, "key 3"))
	for _, m := range all {
		got := must(client(t, m.clients).Get(ctx, "key", clientv3.WithPrefix()))
		same(t, m.clients, []int64{got.Count, got.Header.Revision}, []int64{9, 52})
	}
	newest, before := hashes(t, c, all, 0), hashes(t, c, all, 30)
	must(c.Put(ctx, "later", "1"))
	if got := hashes(t, c, all, 30); got != before || got == newest {
		t.Errorf("the hash of revision 30 was %x and is %x, that of revision 52 was %x", before, got, newest)
	}
	must(c.Compact(ctx, 40))
	if got := hashes(t, c, all, 52); got == newest {
		t.Errorf("the hash of revision 52 is %x with and without the versions before revision 40", got)
	}
	for rev, want := range map[int64]error{39: rpctypes.ErrCompacted, 54: rpctypes.ErrFutureRev} {
		if _, err := c.HashKV(ctx, all[0].clients, rev); !errors.Is(err, want) {
			t.Errorf("the hash of revision %d: %v", rev, err)
		}
	}
}

// hashes returns the hash of a revision, which all members must agree on.
func hashes(t *testing.T, c *clientv3.Client, all []*node, revision int64) (hash uint32) {
	t.Helper()
	for i, m := range all {
		must(client(t, m.clients).Get(t.Context(), "a")) // the member has executed what was answered
		got := must(c.HashKV(t.Context(), m.clients, revision))
		if i > 0 && got.Hash != hash {
			t.Errorf("member %d has the hash %x of revision %d, the ones before it %x", i+1, got.Hash, got.HashRevision, hash)
		}
		hash = got.Hash
	}
	return hash
}
