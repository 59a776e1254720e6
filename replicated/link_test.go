package replicated

import (
	"testing"

	"github.com/squall-go/squall/ripc"
)

// A client that finds a shard at other members uses a new link for it, and not the link to a member
// that has left the shard.
func TestAShardThatHasMovedIsCalledOnANewLink(t *testing.T) {
	c, err := Dial(t.Context(), ClientConfig{Cluster: "test", Addresses: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	shard := c.Object("steps").remote.shardAt(1)
	var links []*ripc.Service
	for _, at := range []string{"127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:2"} {
		c.mu.Lock()
		shard.route.Failed() // it is looked for again
		c.mu.Unlock()
		if !c.found(shard, []string{at}) {
			t.Fatalf("it was not found at %s", at)
		}
		_, link, _, err := c.begin(shard, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, link)
	}
	if links[0] != links[1] || links[1] == links[2] {
		t.Errorf("the link to the same member is kept: %v, and the link to another one is new: %v", links[0] == links[1], links[1] != links[2])
	}
}
