package logs

import "github.com/squall-go/squall/persist"

// Verified is what "squall log verify --json" prints.
type Verified struct {
	OK          bool             `json:"ok"`
	Directories []persist.Report `json:"directories"`
	Compared    []Compared       `json:"compared"`               // of several directories
	NotCompared string           `json:"not_compared,omitempty"` // why not
	Faults      []string         `json:"faults,omitempty"`       // that are in no directory's own report
}

// Compared is a log that several directories may have.
type Compared struct {
	Log     string   `json:"log"`
	Dirs    []string `json:"dirs"`    // that have the log
	Records uint64   `json:"records"` // that are the same everywhere
	From    string   `json:"from,omitempty"`
	To      string   `json:"to,omitempty"`     // with it
	Differ  string   `json:"differ,omitempty"` // where, and what stands there; empty: nowhere
}

func comparedOf(c *persist.Comparison) Compared {
	return Compared{c.Log.String(), c.Dirs, c.Records, versionOrNothing(c.From), versionOrNothing(c.To), c.Differ}
}
