package member

import (
	"testing"
)

// A digest is sent in the shard whose copy it is of, once, and again if it could not be sent and
// there is no newer one.
func TestADigestIsSentInItsShard(t *testing.T) {
	o := &object{}
	take := func(shard int, want uint64) digest {
		t.Helper()
		d, ok := o.takeOwnDigest(shard)
		if ok != (want > 0) || ok && d.count != want {
			t.Errorf("shard %d: digest %v, %v", shard, d, ok)
		}
		return d
	}
	take(1, 0)
	o.check.own = digest{count: 10, shard: 1}
	d := take(1, 10)
	take(1, 0)
	o.giveBackDigest(d)
	take(1, 10)
	o.giveBackDigest(d)
	take(2, 0) // this process has moved
	take(1, 0)
	o.check.own = digest{count: 20, shard: 1}
	o.giveBackDigest(d)
	take(1, 20)
}
