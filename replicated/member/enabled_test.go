package member_test

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// gated is a state that is restored when its gate opens.
type gated struct {
	N    int64
	gate chan struct{}
}

func (s *gated) Snapshot() func(io.Writer) error {
	n := s.N
	return func(w io.Writer) error { return json.NewEncoder(w).Encode(n) }
}

func (s *gated) Restore(r io.Reader) error {
	if s.gate != nil {
		<-s.gate
	}
	return json.NewDecoder(r).Decode(&s.N)
}

var (
	oldAdd = replicated.NewCommand[int64, int64]("old add")
	newAdd = replicated.NewCommand[int64, int64]("new add") // only the newer program has it
)

func newGated(newer bool, gate chan struct{}) *member.Object[*gated] {
	add := func(s *gated, _ *member.Context, n int64) (int64, error) { s.N += n; return s.N, nil }
	all := []member.Binding[*gated]{member.Handle(oldAdd, add)}
	if newer {
		all = append(all, member.Handle(newAdd, add))
	}
	return member.New(squall.SubgroupConfig{Name: "accounts"}, func() *gated { return &gated{gate: gate} }, all...)
}

// TestAnOperationThatIsNotEnabledBlocksNobody has a client call an operation that a new member may
// enable, which is silent until it has its state. The client gets an error before that, and other
// calls at the same member go on.
func TestAnOperationThatIsNotEnabledBlocksNobody(t *testing.T) {
	all := open(t, 2, func(i int) *member.Object[*gated] { return newGated(i == 0, nil) }, nil)
	s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, all[0].bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}}).Object("accounts")
	if _, err := oldAdd.Call(testutil.Within(t), c, 1); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	third := &node[*gated]{bank: newGated(true, gate)}
	opened := make(chan error, 1)
	go func() {
		var err error
		third.group, err = member.Open(testutil.Within(t), squall.Config{Cluster: "test", ID: 9, Listen: "127.0.0.1:0", Join: []string{all[0].group.Addr()}, InitialMembers: 2, Logger: quiet}, third.bank)
		opened <- err
	}()
	await(t, "three members", func() bool { return len(all[0].group.View().Members) == 3 })
	if _, err := newAdd.Call(testutil.Within(t), c, 1); !errors.Is(err, replicated.ErrUnknownOperation) {
		t.Errorf("an operation that is not enabled: %v", err)
	}
	if _, err := oldAdd.Call(testutil.Within(t), c, 1); err != nil {
		t.Errorf("an operation that is: %v", err)
	}
	close(gate)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	closeAll(t, []*node[*gated]{third})
}
