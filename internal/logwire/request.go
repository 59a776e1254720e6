package logwire

import (
	"fmt"

	"github.com/squall-go/squall/internal/catchup"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// formatVersion is that of everything that is said on a connection of kind log.
const formatVersion = 2

// What a request asks for.
const (
	doList     = "list"     // infos of all logs
	doInfo     = "info"     // the info of one
	doReady    = "ready"    // its info, once everything before To is on disk
	doProbe    = "probe"    // the mark of the record at From, or of the last one before it
	doGet      = "get"      // the record at From
	doNth      = "nth"      // the record with a number
	doAt       = "at"       // the last record whose time is not after Since
	doRange    = "range"    // records in [From, To), to the end now if To is zero
	doBetween  = "between"  // records with times in [Since, Until)
	doTail     = "tail"     // records from From on, and later ones as they come
	doSnapshot = "snapshot" // the mark of the snapshot, and its bytes
)

// request is what a reader says.
type request struct {
	Do     string         `json:"do"`
	Log    string         `json:"log,omitempty"`
	Shard  int            `json:"shard,omitempty"`
	From   *order.Version `json:"from,omitempty"`
	To     *order.Version `json:"to,omitempty"`
	Since  order.Time     `json:"since,omitempty"`
	Until  order.Time     `json:"until,omitempty"`
	Number uint64         `json:"number,omitempty"`
}

func (q *request) id() persist.LogID { return persist.LogID{Name: q.Log, Shard: q.Shard} }

func (q *request) String() string {
	text := q.Do
	if q.Log != "" {
		text += " " + q.id().String()
	}
	if q.From != nil {
		text += fmt.Sprintf(" from %v", *q.From)
	}
	if q.To != nil {
		text += fmt.Sprintf(" to %v", *q.To)
	}
	return text
}

// version is what a pointer in a request stands for.
func version(v *order.Version) order.Version {
	if v == nil {
		return order.Version{}
	}
	return *v
}

// pointer is its inverse.
func pointer(v order.Version) *order.Version {
	if v == (order.Version{}) {
		return nil
	}
	return &v
}

// info describes a log on the wire.
type info struct {
	Log      string        `json:"log"`
	Shard    int           `json:"shard"`
	Engine   string        `json:"engine"`
	Count    uint64        `json:"count"`
	First    catchup.Mark  `json:"first"`
	Last     catchup.Mark  `json:"last"`
	Bytes    int64         `json:"bytes"`
	OnDisk   int64         `json:"on_disk"`
	Global   order.Version `json:"global"`
	Snapshot order.Version `json:"snapshot"`
}

func infoOf(i persist.Info) info {
	return info{
		Log: i.ID.Name, Shard: i.ID.Shard, Engine: i.Engine, Count: i.Count, First: catchup.MarkOf(&i.First), Last: catchup.MarkOf(&i.Last),
		Bytes: i.Bytes, OnDisk: i.DiskBytes, Global: i.Global, Snapshot: i.Snapshot,
	}
}

// local is what a peer says of its log.
func (i *info) local() persist.Info {
	l := persist.Info{
		ID: persist.LogID{Name: i.Log, Shard: i.Shard}, Count: i.Count, First: i.First.Record(), Last: i.Last.Record(),
		Bytes: i.Bytes, DiskBytes: i.OnDisk, Global: i.Global, Snapshot: i.Snapshot,
	}
	if i.Engine == "bolt" || i.Engine == "wal" { // a peer may say anything
		l.Engine = i.Engine
	}
	return l
}
