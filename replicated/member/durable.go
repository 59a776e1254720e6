package member

import (
	"github.com/squall-go/squall"
)

// durable returns the declaration of a persistent object with its defaults: replies are durable,
// and the log is bounded by snapshots.
func durable(sg squall.SubgroupConfig) squall.SubgroupConfig {
	sg.Log.DeliverAfterPersist = true
	if sg.Log.Snapshots == (squall.SnapshotPolicy{}) {
		sg.Log.Snapshots = squall.DefaultSnapshots()
	}
	return sg
}

// EarlyReplies has the members of a persistent object execute and answer commands before these are
// on every member's disk. Commands take less time, and their outcomes are lost if all members end
// at once before the disks have them. It is called before Open, at every member.
func (c *common) EarlyReplies() { c.object.sg.Log.DeliverAfterPersist = false }
