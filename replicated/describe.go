package replicated

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// ObjectInfo describes an object, as a member that serves it sees it.
type ObjectInfo struct {
	Cluster    string          `cbor:"1,keyasint"` // the name of the group
	Name       string          `cbor:"2,keyasint"`
	Member     order.NodeID    `cbor:"3,keyasint"` // that describes it
	Members    []order.NodeID  `cbor:"4,keyasint"` // that have a copy, in order of seniority
	Version    order.Version   `cbor:"5,keyasint"` // the position of the last record that this member applied
	Executed   uint64          `cbor:"6,keyasint"` // commands up to there
	Sessions   int             `cbor:"7,keyasint"` // of clients
	Persistent bool            `cbor:"8,keyasint"`
	Operations []OperationInfo `cbor:"9,keyasint"` // by name
	// Shards has the members of each shard of an object in shards, and Shard is 1 + the number of
	// Member's shard. Members is empty then.
	Shards [][]order.NodeID `cbor:"10,keyasint,omitempty"`
	Shard  int              `cbor:"11,keyasint,omitempty"`
}

// OperationInfo describes an operation of an object.
type OperationInfo struct {
	Name    string `cbor:"1,keyasint"`
	Query   bool   `cbor:"2,keyasint"` // a query; otherwise a command
	Enabled bool   `cbor:"3,keyasint"` // false for a command that some member cannot execute yet, or that waits to be enabled
	// Arguments and Reply are the names of the codecs (Named), such as "cbor", "raw" and "protobuf";
	// empty for a codec that has no name.
	Arguments string `cbor:"4,keyasint"`
	Reply     string `cbor:"5,keyasint"`
	// Ready reports that a command is not enabled although all members have it: it will be after a
	// while (Object.EnableAfter), or by EnableOperations.
	Ready bool `cbor:"6,keyasint,omitempty"`
}

// Named is implemented by codecs that have a name, by which programs that do not know the types of
// an operation recognise its encoding.
type Named interface {
	// Name returns the name of the encoding.
	Name() string
}

// Objects describes the objects that a member serves and that the client may know of: those of the
// client's Cluster, or of all groups if that is empty.
func (c *Client) Objects(ctx context.Context) (all []ObjectInfo, err error) {
	err = c.ask(ctx, &remote{id: client.Catalog, route: &c.any}, func(answer []byte) error {
		_, data, err := parseAnswer("objects", answer)
		if err == nil {
			err = invoke.DecodeCBOR(data, &all, "description", "objects")
		}
		return err
	}, []byte{byte(client.Describe)})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(o ObjectInfo) bool { return c.cfg.Cluster != "" && o.Cluster != c.cfg.Cluster }), nil
}

// EnableOperations has a member enable all operations that every member of its shard has, and
// returns their names. The member needs to serve an object of that name in the client's Cluster.
func (c *Client) EnableOperations(ctx context.Context, object string) (names []string, err error) {
	if len(object) == 0 || len(object) > invoke.MaxName {
		return nil, fmt.Errorf("replicated: the name of an object has 1 to %d bytes", invoke.MaxName)
	}
	request := (&client.Request{Ask: client.Enable, Name: []byte(object), Args: []byte(c.cfg.Cluster)}).AppendTo(nil)
	err = c.ask(ctx, &remote{id: client.Catalog, route: &c.any}, func(answer []byte) error {
		_, data, err := parseAnswer("enabling", answer)
		if err == nil && len(data) > 0 {
			names = strings.Split(string(data), "\x00")
		}
		return err
	}, request)
	return names, err
}
