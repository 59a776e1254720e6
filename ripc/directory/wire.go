package directory

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

// ServiceID is the id of the directory itself: a shared service at all of its members.
const ServiceID ripc.ID = registry.Reserved + "directory"

// ToSubgroup is the id of a subgroup of the directory's group: a message to it is relayed into the
// order of the subgroup by one of its members (Directory.Relay).
func ToSubgroup(name string) ripc.ID { return ripc.ID(registry.Reserved + "subgroup/" + name) }

// What a client and a member say to each other, in JSON, which stays below maxReply: the smallest
// ring that makes sense takes it.
const (
	maxReply   = 6 << 10
	maxRecords = 8 // in a request
)

// request is what a client calls with.
type request struct {
	Records []*registry.Record `json:"records,omitempty"`
	Find    *query             `json:"find,omitempty"`
}

// query asks for a name, or for all names from one on.
type query struct {
	Name  string `json:"name"`
	All   bool   `json:"all,omitempty"`   // all that follow, too
	After string `json:"after,omitempty"` // the incarnation behind which the places of the name begin
	Watch bool   `json:"watch,omitempty"` // tell of changes of the name
}

// reply is the answer.
type reply struct {
	Realm   string        `json:"realm"`
	Time    registry.Time `json:"time"`
	Results []result      `json:"results,omitempty"` // of each record
	Found   []found       `json:"found,omitempty"`
	More    *query        `json:"more,omitempty"` // asks for the rest
}

// result is what became of a record.
type result struct {
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
	Last uint64 `json:"last,omitempty"`
}

// found is an entry, or a part of it.
type found struct {
	Name    string           `json:"name"`
	Version uint64           `json:"version"`
	Owner   string           `json:"owner"`
	Shared  bool             `json:"shared,omitempty"`
	Places  []registry.Place `json:"places,omitempty"`
}

// note is what a notice says: the name has changed.
type note struct {
	Name    string `json:"name"`
	Version uint64 `json:"version"`
	key     uint64 // of the notice: another one for each name
}

// versionOf grows with each change of a name, also when it was given up and taken again.
func versionOf(e *registry.Entry) uint64 { return e.Number<<32 | e.Version&(1<<32-1) }

// codes are the errors of a record as they are said.
var codes = map[string]error{
	"owned": registry.ErrOwned, "stale": registry.ErrStale, "moved": registry.ErrMoved, "ended": registry.ErrEnded,
	"realm": registry.ErrRealm, "full": registry.ErrFull, "many": registry.ErrMany, "mixed": registry.ErrMixed, "forged": registry.ErrForged,
}

func resultOf(o registry.Outcome) result {
	if o.Err == nil {
		return result{}
	}
	r := result{Code: "refused", Text: o.Err.Error(), Last: o.Last}
	for code, err := range codes {
		if errors.Is(o.Err, err) {
			r.Code = code
		}
	}
	return r
}

// err is the error of a result.
func (r result) err() error {
	if r.Code == "" {
		return nil
	}
	if err := codes[r.Code]; err != nil {
		return fmt.Errorf("%w (%.300s)", err, r.Text)
	}
	return fmt.Errorf("%w: %.300s", ripc.ErrRefused, r.Text)
}

// ErrOwned says that a name belongs to another key or identity.
var ErrOwned = registry.ErrOwned

// ErrTooManyNames says that an owner, or a process or host, has as many names as one may have
// (Config.MaxNamesPerOwner).
var ErrTooManyNames = registry.ErrMany

// places converts places from the wire format.
func places(of []registry.Place) (out []ripc.Place) {
	for _, p := range of {
		out = append(out, ripc.Place(p))
	}
	return out
}
