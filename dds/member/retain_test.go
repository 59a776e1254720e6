package member

import (
	"strings"
	"testing"

	"github.com/squall-go/squall"
)

// The log of a persistent space does not grow without end, unless the program says so.
func TestTheLogOfASpaceIsBoundedByDefault(t *testing.T) {
	for _, c := range []struct {
		mode       squall.Mode
		said, want squall.SnapshotPolicy
	}{
		{squall.Persistent, squall.SnapshotPolicy{}, squall.DefaultSnapshots()},
		{squall.Persistent, squall.NoSnapshots(), squall.NoSnapshots()},
		{squall.Persistent, squall.SnapshotPolicy{Records: 7}, squall.SnapshotPolicy{Records: 7}},
		{squall.Ordered, squall.SnapshotPolicy{}, squall.SnapshotPolicy{}},
	} {
		p, err := newBackend(Config{Subgroup: squall.SubgroupConfig{Name: "s", Mode: c.mode, Log: squall.LogConfig{Snapshots: c.said}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.groupConfig().Subgroups[0].Log.Snapshots; got != c.want {
			t.Errorf("%v with %+v: %+v", c.mode, c.said, got)
		}
	}
}

// What a log drops before there is a snapshot would be missing after a restart.
func TestASpaceRefusesLogRetain(t *testing.T) {
	sg := squall.SubgroupConfig{Name: "s", Mode: squall.Persistent, Log: squall.LogConfig{Retain: squall.Retention{Records: 2}}}
	if _, err := newBackend(Config{Subgroup: sg}); err == nil || !strings.Contains(err.Error(), "Log.Retain") {
		t.Errorf("%v", err)
	}
}
