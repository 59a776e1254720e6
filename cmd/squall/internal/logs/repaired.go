package logs

import (
	"fmt"
	"strings"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// Repairs is what "squall log repair --json" prints.
type Repairs struct {
	Dir  string       `json:"dir"`
	Logs []RepairedAs `json:"logs"`
}

// RepairedAs is what became of a log.
type RepairedAs struct {
	Log       string         `json:"log"`
	Fate      string         `json:"fate"`                // good, mended, cut, anew, noted or left
	Dropped   *uint64        `json:"dropped,omitempty"`   // the number of the first record that is, of a log that was cut
	Damage    string         `json:"damage,omitempty"`    // of a log that begins anew, is noted or left: what is wrong with it
	Aside     string         `json:"aside,omitempty"`     // where the files of one that begins anew are
	Snapshot  string         `json:"snapshot,omitempty"`  // where its snapshot is, if that was damaged
	Relabeled bool           `json:"relabeled,omitempty"` // its log.json was damaged, and is written anew
	GivenUp   bool           `json:"given_up,omitempty"`  // it counts as whole from now on
	Lost      []order.NodeID `json:"lost,omitempty"`      // of one that is given up: nodes for whose disks it stands in
	Records   uint64         `json:"records"`             // that are left, or can be read
	Last      *persist.Place `json:"last,omitempty"`      // the last one of them

	stuck bool // its member cannot do it either
}

// The fates of logs.
const (
	fateGood   = "good"
	fateMended = "mended" // all its records are left
	fateCut    = "cut"
	fateAnew   = "anew"
	fateNoted  = "noted" // other members have the records
	fateLeft   = "left"  // nothing was done
)

// text is the result for people.
func (r *Repairs) text() string {
	var b strings.Builder
	for i := range r.Logs {
		one := &r.Logs[i]
		fmt.Fprintf(&b, "%s: %s\n", one.Log, one.text())
		if one.GivenUp {
			fmt.Fprintf(&b, "%s: counts as whole as it is: all other members follow it, and drop what they have beyond it\n", one.Log)
		}
		if len(one.Lost) > 0 {
			fmt.Fprintf(&b, "%s: stands in for the disks of %s, which the group waited for: what only they had is lost\n", one.Log, nodes(one.Lost))
		}
	}
	return b.String()
}

func nodes(ids []order.NodeID) string {
	var list []string
	for _, id := range ids {
		list = append(list, fmt.Sprintf("node %d", id))
	}
	return strings.Join(list, ", ")
}

func (one *RepairedAs) text() string {
	switch one.Fate {
	case fateAnew:
		if one.Aside == "" {
			return "begins anew; " + one.Damage
		}
		return fmt.Sprintf("begins anew; its files are in %s, and nothing could be read from them: %s", one.Aside, one.Damage)
	case fateNoted:
		return fmt.Sprintf("damaged, with %s; that is noted, and this member, when it is started, drops what is damaged and gets it from others: %s",
			one.extent(), one.Damage)
	case fateLeft:
		return "left as it is; " + one.Damage
	}
	if done := one.done(); len(done) > 0 {
		return strings.Join(done, "; ") + "; left are " + one.extent()
	}
	return "nothing is damaged, " + one.extent()
}

// done is what was done to a log that goes on.
func (one *RepairedAs) done() (done []string) {
	if one.Relabeled {
		done = append(done, "its log.json was damaged, and is written anew")
	}
	if one.Snapshot != "" {
		done = append(done, fmt.Sprintf("its snapshot was damaged, and is %s now: what came before the first record is lost", one.Snapshot))
	}
	if one.Dropped != nil {
		done = append(done, fmt.Sprintf("dropped record %d and everything after it", *one.Dropped))
	}
	return done
}

// extent is how long the log is.
func (one *RepairedAs) extent() string {
	text := show.Counted(int(one.Records), "record", "records")
	if one.Last != nil {
		text += " up to " + one.Last.Version
	}
	return text
}

// describe takes over how a log that goes on is.
func (one *RepairedAs) describe(i *persist.Info) {
	one.Fate, one.Records, one.Relabeled = fateGood, i.Count, i.Relabeled
	if i.Count > 0 {
		one.Last = persist.PlaceOf(&i.Last)
	}
	if i.Repaired.Blocks > 0 {
		one.Dropped = &i.Repaired.Record
	}
	switch {
	case one.Dropped != nil:
		one.Fate = fateCut
	case one.Relabeled || one.Snapshot != "":
		one.Fate = fateMended
	}
}

// report takes over what was found in one that stays as it is.
func (one *RepairedAs) report(r *persist.LogReport) {
	one.Fate, one.Records, one.Last = fateGood, r.Records, r.Last
	if len(r.Faults) > 0 {
		one.Fate, one.Damage = fateNoted, r.Faults[0].String()
	}
}
