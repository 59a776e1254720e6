package member_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// A client of this host that changes a request after its access was checked still gets what was
// checked.
func TestARequestThatChangesAfterItsCheckIsExecutedAsItWasChecked(t *testing.T) {
	allowed, forbidden := replicated.NewCommand[int, string]("allowed..."), replicated.NewCommand[int, string]("forbidden!")
	object := func(int) *member.Object[*guests] {
		return member.New(squall.SubgroupConfig{Name: "guests"}, func() *guests { return &guests{} },
			member.Handle(allowed, func(*guests, *member.Context, int) (string, error) { return "allowed", nil }),
			member.Handle(forbidden, func(*guests, *member.Context, int) (string, error) { return "forbidden", nil }))
	}
	all := open(t, 1, object, nil)
	changed := atomic.Int64{}
	s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}, Authorize: func(a member.Access) error {
		if a.Name == "forbidden!" {
			return errors.New("it is forbidden")
		}
		if a.Name == "allowed..." { // at this moment a hostile client changes the name
			for _, row := range testutil.OwnRows() {
				for at := bytes.Index(row, []byte("allowed...")); at >= 0; at = bytes.Index(row, []byte("allowed...")) {
					copy(row[at:], "forbidden!")
					changed.Add(1)
				}
			}
		}
		return nil
	}}, all[0].bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	client := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}}).Object("guests")
	if got, err := allowed.Call(t.Context(), client, 0); got != "allowed" || err != nil {
		t.Errorf("the allowed command returned %q, %v", got, err)
	}
	if changed.Load() == 0 {
		t.Error("the client had nothing to change: it is not connected by shared memory")
	}
}
