package space

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/internal/testutil"
)

// part is a sample of an origin: the origin's index, and the number of the sample.
type part struct {
	origin int
	number uint64
}

// carrier is a connection of a client to one of the relays: the relay has opened writers for the
// client's origins, and brings into the order what came on the connection.
type carrier struct {
	node    uint64
	writers []ID
	records []func() // that are on their way into the order
}

// carriers is a client that goes from one relay to another one, whose earlier relays still have
// samples of it on their way.
type carriers struct {
	*world
	rng     *rand.Rand
	plan    [][]part // what the client writes: single samples, and coherent sets
	all     []*carrier
	nextSet uint64
	number  uint32
}

func (c *carriers) origin(i int) Origin { return Origin{Side: "client", GUID: [16]byte{byte(i)}} }

// connect opens the writers at a relay, while earlier relays go on, and puts on the connection what
// the order does not have, by what the relay says of each writer. It is cut anywhere, unless whole
// is set.
func (c *carriers) connect(node uint64, whole bool) {
	set := qos.Set{Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true}, KeepUnregistered: true}
	at := &carrier{node: node}
	last := make([]uint64, 2)
	for i := range last {
		c.number++
		o := c.origin(i)
		data, err := AppendOpen(nil, c.now, EndpointInfo{ID: id(node, c.number), Topic: "tu"[i : i+1], Origin: &o, QoS: set})
		c.must(c.apply(node, data, err))
		at.writers, last[i] = append(at.writers, id(node, c.number)), c.members[0].Last(o)
		c.goOn(c.rng.IntN(4))
	}
	sample := func(p part, set uint64) func() {
		return func() { // it may be there already
			_ = c.sample(Sample{Writer: at.writers[p.origin], Set: set, Sequence: p.number, Key: []byte("k"), Data: fmt.Append(nil, p.number)})
		}
	}
	end := func(set uint64, drop bool) func() {
		return func() {
			data, err := AppendEnd(nil, c.now, at.writers[0].Process, set, drop)
			_ = c.apply(node, data, err)
		}
	}
	var sets []uint64 // in which a record is, or 0
	for _, unit := range c.plan {
		var due []part
		for _, p := range unit {
			if p.number > last[p.origin] {
				due = append(due, p)
			}
		}
		number := uint64(0)
		if len(unit) > 1 && len(due) > 0 {
			c.nextSet++
			number = c.nextSet
		}
		for _, p := range due {
			at.records, sets = append(at.records, sample(p, number)), append(sets, number)
		}
		if number > 0 {
			at.records, sets = append(at.records, end(number, false)), append(sets, 0)
		}
	}
	if n := c.rng.IntN(len(at.records) + 1); !whole {
		at.records = at.records[:n]
		if n > 0 && sets[n-1] > 0 {
			at.records = append(at.records, end(sets[n-1], true))
		}
		for _, w := range at.writers {
			at.records = append(at.records, func() {
				data, err := AppendGone(nil, c.now, w)
				c.must(c.apply(node, data, err))
			})
		}
	}
	c.all = append(c.all, at)
}

// goOn has relays bring n records into the order.
func (c *carriers) goOn(n int) {
	for range n {
		c.all = slices.DeleteFunc(c.all, func(at *carrier) bool { return len(at.records) == 0 })
		if len(c.all) == 0 {
			return
		}
		at := pick(c.rng, c.all...)
		at.records[0]()
		at.records = at.records[1:]
	}
}

// A client writes single samples and coherent sets of two topics, and goes from one relay to
// another one, in the middle of a set, too, while the relays before still bring into the order what
// they have of it, or are killed. Each sample takes effect once, in the order of its writer, and
// each set at one position.
func TestSetsOfAnOriginTakeEffectOnceAsAWhole(t *testing.T) {
	for lap := range testutil.Seeds(20, 50) {
		seed := testutil.Seed(t) + uint64(lap)
		t.Run(fmt.Sprintf("lap=%d", lap), func(t *testing.T) {
			t.Logf("seed %#x", seed)
			c := &carriers{world: newWorld(t, 2), rng: rand.New(rand.NewPCG(seed, 0))}
			numbers := make([]uint64, 2)
			for range 20 {
				unit := make([]part, pick(c.rng, 1, 1, 2, 3, 5))
				for i := range unit {
					o := c.rng.IntN(2)
					numbers[o]++
					unit[i] = part{o, numbers[o]}
				}
				c.plan = append(c.plan, unit)
			}
			var caches []*Cache
			for i, topic := range []string{"t", "u"} {
				c.topic(topic, qos.Set{})
				caches = append(caches, c.reader(3, uint32(100+i), topic, qos.Set{History: qos.KeepAll()})[0])
			}
			c.number = 200
			for range 5 {
				c.connect(pick(c.rng, uint64(1), 2, 3), false)
				c.goOn(c.rng.IntN(30))
				if c.rng.IntN(4) == 0 {
					dead := pick(c.rng, uint64(1), 2)
					c.roster(slices.DeleteFunc([]uint64{1, 2, 3}, func(n uint64) bool { return n == dead })...)
					c.all = slices.DeleteFunc(c.all, func(at *carrier) bool { return at.node == dead })
				}
				if c.rng.IntN(4) == 0 && len(c.members) < 4 {
					c.joins()
				}
			}
			c.connect(3, true)
			c.goOn(1000)
			c.agree()
			if open := len(c.members[0].sets); open > 0 {
				t.Errorf("%d sets are open", open)
			}
			where := map[part]uint64{}
			for o, cache := range caches {
				last := uint64(0)
				for _, h := range cache.Select(Query{}) {
					if !h.Valid {
						continue
					}
					if last++; string(h.Data) != fmt.Sprint(last) {
						t.Fatalf("origin %d: sample %s comes instead of %d", o, h.Data, last)
					}
					where[part{o, last}] = h.Position
				}
			}
			for _, unit := range c.plan {
				for _, p := range unit {
					if where[p] == 0 || where[p] != where[unit[0]] {
						t.Errorf("of the set %v, sample %v is at position %d, and the first one at %d", unit, p, where[p], where[unit[0]])
					}
				}
			}
		})
	}
}
