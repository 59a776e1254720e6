//go:build system

package testlab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/persist"
)

// recordBefore is the record of a node that does not run with so many behind it.
func recordBefore(t *testing.T, lab *Cluster, id squall.NodeID, behind int) persist.Record {
	t.Helper()
	s, err := open(Disk{id, lab.Disk(id)}, persist.LogID{Name: lab.opts.Loads[0].Name})
	lab.must(err)
	defer s.close()
	var all []persist.Record
	for lab.must(s.advance()); s.more; lab.must(s.advance()) {
		all = append(all, s.at)
	}
	return all[len(all)-1-behind]
}

// damage changes the files of a log where a record is; how gets a file, and where in it that is.
func damage(t *testing.T, lab *Cluster, id squall.NodeID, behind int, how func(f *os.File, at int64) error) {
	t.Helper()
	lab.Harm(id)
	victim := recordBefore(t, lab, id, behind)
	files, _ := filepath.Glob(filepath.Join(lab.Disk(id), "logs", "*", "*"))
	places := 0
	for _, path := range files {
		content, err := os.ReadFile(path)
		lab.must(err)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		lab.must(err)
		for at, from := -1, len(content); ; from = at { // a tree has several copies, of which only one is in use
			if at = bytes.LastIndex(content[:from], victim.Data); at < 0 {
				break
			}
			lab.must(how(f, int64(at)))
			places++
			t.Logf("version %v is damaged in %s, at byte %d of %d", victim.Version, filepath.Base(path), at, len(content))
		}
		lab.must(f.Close())
	}
	if places == 0 {
		t.Fatalf("version %v is nowhere in %v", victim.Version, files)
	}
}

func flip(f *os.File, at int64) error {
	_, err := f.WriteAt([]byte{0xa5, 0x5a, 0xa5}, at+HeaderBytes)
	return err
}

func truncate(f *os.File, at int64) error { return f.Truncate(at + HeaderBytes) }

// What becomes of a log whose files are damaged.
const (
	isRepaired = repairedPrefix
	isSetAside = repairedPrefix + asidePrefix // nothing can be read from it
	isDropped  = "found while it is read, and dropped at the next start"
	isTorn     = tornPrefix // taken for a write that did not end
	isCutOff   = "taken for a write that did not begin"
)

var damages = []struct {
	name   string
	engine string
	behind int // records behind the damaged one
	how    func(f *os.File, at int64) error
	want   string
}{
	{"flipped at the end", "bolt", 0, flip, isRepaired},
	{"flipped before the end", "bolt", wellBefore, flip, isDropped},
	{"truncated", "bolt", 0, truncate, isSetAside}, // a tree of which a page is missing leads nowhere
	// The last group that was written is also what a process leaves that ended while it wrote:
	// nothing tells the one from the other.
	{"flipped at the end", "wal", 0, flip, isTorn},
	{"truncated", "wal", 0, truncate, isCutOff},
	{"flipped before the end", "wal", wellBefore, flip, isDropped},
}

// wellBefore is more records than a group, or a block, has in these tests.
const wellBefore = 1000

func TestADamagedEndOfALogComesFromTheOthers(t *testing.T) {
	t.Parallel()
	for _, d := range damages {
		for _, all := range []bool{false, true} { // stop, and come back
			t.Run(fmt.Sprintf("engine=%s/%s/all=%v", d.engine, d.name, all), func(t *testing.T) {
				if d.want == isCutOff || !all {
					takesTime(t)
				}
				lab, members := formDurable(t, d.engine, Options{})
				const node = 3
				nodes := []squall.NodeID{node}
				if all {
					lab.CutPower(members)
					members, nodes = nil, []squall.NodeID{node, 1, 2}
				} else {
					members[node-1].Kill()
					members = slices.Delete(members, node-1, node)
					lab.AwaitView(members...)
				}
				damage(t, lab, node, d.behind, d.how)
				back, err := lab.Restart(durableNodes, nil, nodes...)
				lab.must(err)
				switch d.want {
				case isRepaired, isSetAside, isTorn:
					_, err := back[0].AwaitEvents(d.want, 1)
					lab.must(err)
				case isDropped:
					if why := awaitDamaged(lab, back[0]); !strings.Contains(why, "when it is started again") {
						t.Fatal(why)
					}
					again, err := lab.Restart(durableNodes, nil, node)
					lab.must(err)
					back[0] = again[0]
					_, err = back[0].AwaitEvents(isRepaired, 1)
					lab.must(err)
				}
				lab.Each(back, (*Process).AwaitOpen)
				lab.AwaitView(append(members, back...)...)
				lab.Each(back, (*Process).Send)
				settleDurable(lab)
			})
		}
	}
}

// awaitDamaged waits until a process has ended because its log is damaged, and returns what it
// said.
func awaitDamaged(lab *Cluster, p *Process) (why string) {
	lab.t.Helper()
	why, err := p.AwaitHalt()
	if err != nil || !strings.HasPrefix(why, HaltedDamaged) {
		lab.t.Fatalf("halted: %q, %v; want the log to be damaged", why, err)
	}
	<-p.ended
	lab.t.Log(why)
	return why
}

// Records that the last member of a group acknowledged alone may be on its disk only: if they are
// damaged they are lost, and nothing is dropped without an operator's command.
func TestWhoWasAloneInTheLastViewDropsNothing(t *testing.T) {
	lab, members := formDurable(t, "bolt", Options{})
	one := members[0] // with it, one of two is a quorum
	members[1].Kill()
	lab.AwaitView(one, members[2])
	members[2].Kill()
	lab.AwaitView(one)
	lab.AwaitAcks(acksBefore, one)
	one.Kill()
	damage(t, lab, 1, 0, flip)
	alone, err := lab.Restart(durableNodes, nil, 1)
	lab.must(err)
	if why := awaitDamaged(lab, alone[0]); !strings.Contains(why, "squall log repair") {
		t.Errorf("it does not say what to do: %s", why)
	}
}

// If no member has all of the log any more, no member begins it anew: the group waits until an
// operator gives the lost records up.
func TestWhenAllHaveLostTheirLogsNobodyGoesOnUnasked(t *testing.T) {
	lab, members := formDurable(t, "bolt", Options{})
	lab.CutPower(members)
	nodes := []squall.NodeID{1, 2, 3}
	for _, node := range nodes[1:] {
		lab.Harm(node)
		lab.must(os.Truncate(filepath.Join(lab.Disk(node), "logs", "durable.0", "log.db"), 3*4096))
	}
	damage(t, lab, 1, 0, flip) // this one has nearly all of it
	back, err := lab.Restart(durableNodes, nil, nodes...)
	lab.must(err)
	for _, p := range back {
		_, err := p.AwaitEvents("no process that is here has the whole log", 1)
		lab.must(err)
	}
	KillAll(back, func() time.Duration { return 0 })
	s, err := persist.Open(t.Context(), persist.Config{Dir: lab.Disk(1), Cluster: lab.Name, Node: 1})
	lab.must(err)
	memory, err := restart.Load(s)
	lab.must(err)
	_, err = memory.GiveUp(restart.LogID{Name: lab.opts.Loads[0].Name}) // as squall log repair --give-up does
	lab.must(err)
	lab.must(s.Close())
	lab.AwaitAcks(1, lab.Back(durableNodes, nodes...)...)
}
