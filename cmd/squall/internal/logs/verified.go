package logs

import (
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// Verified is what "squall log verify --json" prints.
type Verified struct {
	OK          bool       `json:"ok"`
	Directories []Checked  `json:"directories"`
	Compared    []Compared `json:"compared"`               // of several directories
	NotCompared string     `json:"not_compared,omitempty"` // why not
	Faults      []string   `json:"faults,omitempty"`       // that are in no directory's own report
}

// Checked is a directory.
type Checked struct {
	Dir     string       `json:"dir"`
	Cluster string       `json:"cluster"`
	Node    order.NodeID `json:"node"`
	Faults  []Fault      `json:"faults,omitempty"` // of what belongs to no log
	Logs    []CheckedLog `json:"logs"`
	Foreign []string     `json:"foreign,omitempty"` // what is in logs/ and is no log: it was not looked at
}

// CheckedLog is one log of it.
type CheckedLog struct {
	Log      string  `json:"log"`
	Name     string  `json:"name"`
	Shard    int     `json:"shard"`
	Engine   string  `json:"engine"`
	Blocks   uint64  `json:"blocks"`
	Records  uint64  `json:"records"` // that are good
	Bytes    uint64  `json:"bytes"`   // of the blocks
	First    *Place  `json:"first,omitempty"`
	Last     *Place  `json:"last,omitempty"`
	Snapshot *Place  `json:"snapshot,omitempty"` // the last record that it stands for
	Hashed   uint64  `json:"hashed"`             // records in the chain of hashes of a signed log
	Vouched  uint64  `json:"vouched"`            // records that a good signature by the key that was given covers
	Torn     *Place  `json:"torn,omitempty"`     // the first record, without its time, of the last write, which did not end or is damaged
	Faults   []Fault `json:"faults,omitempty"`
}

// Fault is one thing that is not as it was written.
type Fault struct {
	File    string `json:"file"`
	Block   uint64 `json:"block,omitempty"`
	Record  uint64 `json:"record,omitempty"`
	Version string `json:"version,omitempty"` // near it, as far as it is known
	What    string `json:"what"`
}

// Compared is a log that several directories may have.
type Compared struct {
	Log     string   `json:"log"`
	Dirs    []string `json:"dirs"`    // that have it
	Records uint64   `json:"records"` // that are the same everywhere
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`     // with it
	Differ  string   `json:"differ,omitempty"` // where, and what stands there; empty: nowhere
}

func checkedOf(r *persist.Report) Checked {
	c := Checked{Dir: r.Dir, Cluster: r.Cluster, Node: r.Node, Faults: faultsOf(r.Faults), Logs: []CheckedLog{}, Foreign: r.Foreign}
	for _, l := range r.Logs {
		c.Logs = append(c.Logs, CheckedLog{
			Log: persist.LogID{Name: l.Name, Shard: l.Shard}.String(), Name: l.Name, Shard: l.Shard, Engine: l.Engine,
			Blocks: l.Blocks, Records: l.Records, Bytes: l.Bytes, First: checkedPlace(l.First), Last: checkedPlace(l.Last),
			Snapshot: checkedPlace(l.Snapshot), Hashed: l.Hashed, Vouched: l.Vouched, Torn: checkedPlace(l.Torn), Faults: faultsOf(l.Faults),
		})
	}
	return c
}

func checkedPlace(p *persist.Place) *Place {
	if p == nil {
		return nil
	}
	at := &Place{Version: order.Version{View: p.View, Seq: p.Seq}.String(), Time: p.Time, Number: p.Number}
	if t, err := time.Parse(time.RFC3339Nano, p.Time); err == nil {
		at.TimeNs = order.TimeOf(t)
	}
	return at
}

func faultsOf(all []persist.Fault) (faults []Fault) {
	for _, f := range all {
		faults = append(faults, Fault{f.File, f.Block, f.Record, versionOrNothing(order.Version{View: f.View, Seq: f.Seq}), f.What})
	}
	return faults
}

func comparedOf(c *persist.Comparison) Compared {
	return Compared{c.Log.String(), c.Dirs, c.Records, versionOrNothing(c.From), versionOrNothing(c.To), c.Differ}
}
