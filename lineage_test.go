package squall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// persistentMember starts a member whose log is in a directory. The identities of the groups that
// it bootstraps go to bootstrapped.
func persistentMember(t testing.TB, within time.Duration, id squall.NodeID, dir string, join ...string) (*squall.Group, *identities, error) {
	t.Helper()
	return persistentMemberAt(t, "127.0.0.1:0", within, id, dir, join...)
}

// persistentMemberAt starts one that listens at an address.
func persistentMemberAt(t testing.TB, addr string, within time.Duration, id squall.NodeID, dir string, join ...string) (*squall.Group, *identities, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	k, formed := &keeper{}, &identities{}
	g, err := squall.Open(ctx, squall.Config{
		ID: id, Cluster: "durable", Listen: addr, Join: join, InitialMembers: 1, Dir: dir, Logger: quiet,
		Events: func(e squall.Event) {
			if e, ok := e.(squall.GroupBootstrapped); ok {
				formed.add(e.Group)
			}
		},
		Subgroups: []squall.SubgroupConfig{{
			Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Deliver: k.deliver, Log: squall.LogConfig{Recover: k.recover},
		}},
	})
	if err == nil {
		t.Cleanup(func() { closeAll(g) })
	}
	return g, formed, err
}

// identities collects the identities of the groups that were bootstrapped.
type identities struct {
	mu   sync.Mutex
	list []string
}

func (i *identities) add(group string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, group)
}

func (i *identities) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.list)
}

// count is the number of records of a log that begin with a text.
func count(t testing.TB, l *squall.Log, text string) (n int) {
	t.Helper()
	for r, err := range l.Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(r.Data, []byte(text)) {
			n++
		}
	}
	return n
}

// The directory of node 2 is emptied, and it bootstraps a second group of the same name, whose view
// numbers grow beyond those of the first one. Node 1 has the last copy of the first group's log,
// and asks node 2.
func TestAnotherGroupOfTheSameNameTakesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	groups, _ := durableCluster(t, dir, 2, nil)
	persistSome(t, groups, "precious", 25)
	first := groups[0].View().Group
	closeAll(groups[1])
	awaitView(t, 1, groups[0]) // node 1 is a quorum of the last view
	closeAll(groups[0])

	two, formed, err := persistentMember(t, 20*time.Second, 2, filepath.Join(dir, "second-2"))
	if err != nil {
		t.Fatal(err)
	}
	three, joined, err := persistentMember(t, 20*time.Second, 3, filepath.Join(dir, "second-3"), two.Addr())
	if err != nil {
		t.Fatal(err)
	}
	persistSome(t, []*squall.Group{two, three}, "other", 2)
	second := two.View().Group
	if first == "" || second == "" || first == second || three.View().Group != second {
		t.Fatalf("the groups are %q and %q, and the second one is %q at node 3", first, second, three.View().Group)
	}
	if !slices.Equal(formed.all(), []string{second}) || len(joined.all()) > 0 {
		t.Errorf("bootstrapped were %v by node 2 and %v by node 3", formed.all(), joined.all())
	}

	one, anew, err := persistentMember(t, 20*time.Second, 1, filepath.Join(dir, "node-1"), two.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if one.View().Group != first || len(one.View().Members) != 1 || len(anew.all()) > 0 {
		t.Errorf("node 1 is in view %d of group %q with %d members, and bootstrapped %v", one.View().ID, one.View().Group, len(one.View().Members), anew.all())
	}
	if n := count(t, mustLog(t, one), "precious"); n != 50 {
		t.Errorf("of 50 records that were on every disk of the first group node 1 has %d left", n)
	}
	if others, n := count(t, mustLog(t, one), "other"), count(t, mustLog(t, two), "precious"); others > 0 || n > 0 {
		t.Errorf("%d records of the second group are in the log of the first one, and %d the other way round", others, n)
	}
	persistSome(t, []*squall.Group{one}, "more", 3)
	persistSome(t, []*squall.Group{two, three}, "others", 3)
}

// A process that alone is no quorum of its group, and finds another group in the place of the
// others, says so, and keeps what it has.
func TestAProcessThatFindsAnotherGroupOnlyNamesBoth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	groups, _ := durableCluster(t, dir, 3, nil)
	persistSome(t, groups, "precious", 5)
	first := groups[0].View().Group
	for _, i := range []int{0, 2, 1} { // neither node 1 nor node 3 is a quorum of the last view that it knows
		closeAll(groups[i])
	}
	two, _, err := persistentMember(t, 20*time.Second, 2, filepath.Join(dir, "second-2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []squall.NodeID{1, 3, 1} {
		_, formed, err := persistentMember(t, 2*time.Second, id, filepath.Join(dir, fmt.Sprint("node-", id)), two.Addr())
		if !errors.Is(err, squall.ErrOtherHistory) || !errors.Is(err, context.DeadlineExceeded) || len(formed.all()) > 0 {
			t.Fatalf("node %d: %v", id, err)
		}
		for _, want := range []string{first, two.View().Group, two.Addr(), "empty directory"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("node %d: %v: it does not name %s", id, err, want)
			}
		}
	}
	if n := len(two.View().Members); n != 1 {
		t.Errorf("the second group has %d members", n)
	}
}
