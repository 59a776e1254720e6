package member

import (
	"testing"

	"github.com/squall-go/squall"
)

// What a persistent object answers is on every disk, and its log does not grow without end, unless
// the program says otherwise.
func TestAPersistentObjectIsSafeByDefault(t *testing.T) {
	type counter struct{ N int }
	declared := func(sg squall.SubgroupConfig, change func(*Object[*counter])) squall.LogConfig {
		sg.Name = "counter"
		o := New(sg, func() *counter { return &counter{} })
		if change != nil {
			change(o)
		}
		sg, err := o.object.declaration()
		if err != nil {
			t.Fatal(err)
		}
		return sg.Log
	}
	if l := declared(squall.SubgroupConfig{Mode: squall.Persistent}, nil); !l.DeliverAfterPersist || l.Snapshots != squall.DefaultSnapshots() {
		t.Errorf("by default: %+v", l)
	}
	early := func(o *Object[*counter]) { o.EarlyReplies() }
	if l := declared(squall.SubgroupConfig{Mode: squall.Persistent, Log: squall.LogConfig{Snapshots: squall.NoSnapshots()}}, early); l.DeliverAfterPersist || l.Snapshots != squall.NoSnapshots() {
		t.Errorf("with early replies and no snapshots: %+v", l)
	}
	if l := declared(squall.SubgroupConfig{}, nil); l.DeliverAfterPersist || l.Snapshots != (squall.SnapshotPolicy{}) {
		t.Errorf("in memory: %+v", l)
	}
}
