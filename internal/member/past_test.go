package member_test

import (
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall/smc"
)

// held is two members, the third of which left, with the table of the first view: both hold claims
// that they made in it.
func held(t *testing.T) (w *world, claims []smc.Claim) {
	t.Helper()
	w = newWorld(t, 3, 16)
	w.pass(time.Second)
	for i := range 2 {
		c, err := w.outbox(i).TryClaim(1)
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, c)
	}
	w.members[2].Leave()
	w.pass(4 * failAfter)
	if n := len(w.members[0].Tables()); n != 2 {
		t.Fatalf("%d tables", n)
	}
	return w, claims
}

// What an old view waits for at last is the application, which may take its time: the loop sleeps
// until it is called.
func TestAMemberSleepsWhileItsApplicationHoldsAClaimOfAnOldView(t *testing.T) {
	w, claims := held(t)
	w.members[0].Step(w.now)
	if d := w.members[0].Deadline(w.now); d <= 0 {
		t.Errorf("the next step is due in %v", d)
	}
	for i, c := range claims {
		if err := w.outbox(i).Commit(c); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(time.Second)
	if n := len(w.members[0].Tables()); n != 1 {
		t.Errorf("%d tables when all claims are committed", n)
	}
	w.delivered(2, 0, 1)
}

func TestAHaltedMemberTakesFromTheSocketsOfOldViewsToo(t *testing.T) {
	w, _ := held(t)
	old := w.members[0].Tables()[0]
	w.members[0].Halt(errors.New("enough"))
	w.crash(1)
	w.pass(tick)
	if !old.Frozen(1) {
		t.Error("the end of a connection stays in its socket, and keeps the loop awake")
	}
}
