package client

import (
	"strconv"
	"strings"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Catalog is the id of the service that describes the objects of a server. It is the same
// everywhere, so that a client needs to know nothing but an address.
const Catalog = "squall objects"

// Service returns the id of the service for an object of a group. It has the identity of the group:
// what a client asks of one group, another one of the same name does not answer.
func Service(cluster, group, object string) string {
	return "squall object\x00" + cluster + "\x00" + group + "\x00" + object
}

// Presence returns the name under which a member's endpoint can be found by processes of its host.
func Presence(addr string) string { return "squall objects\x00" + addr }

// ShardName returns the name of a shard, as a destination and as a source of commands that handlers
// send: the name of its object, a zero byte and its number.
func ShardName(object string, shard int) string { return object + "\x00" + strconv.Itoa(shard) }

// CutShard takes the name of an object, or of one of its shards, apart. Shard is 1 + its number, or
// 0.
func CutShard(name string) (object string, shard int) {
	object, number, ok := strings.Cut(name, "\x00")
	if !ok {
		return object, 0
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= invoke.MaxShards {
		return name, 0
	}
	return object, n + 1
}

// Places says which members have which shard of an object. Its encoding is CBOR.
type Places struct {
	Shards    int        `cbor:"1,keyasint"` // 1: the object is in no shards
	Addresses [][]string `cbor:"2,keyasint"` // of the members' servers, by shard
}
