package transfer

import (
	"bytes"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Who was still getting the state as a view began, and has it since, gives it when nobody else is left.
func TestWhoGotTheStateMeanwhileGivesItWhenNobodyElseIsLeft(t *testing.T) {
	w := newWorld(t, 2, 1000)
	sg := &w.view.Subgroups[1]
	sg.Mode, sg.Partial = views.Persistent, []order.Rank{1, 2}
	w.take(w.old[1])
	w.old[0].Close()
	var got []byte
	f := w.fetch(keep(&got))
	f.Installed(w.without(1))
	if _, err := f.Run(within(t)); err != nil || !bytes.Equal(got, w.state) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
