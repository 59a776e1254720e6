//go:build system

package testlab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/squall-go/squall"
)

// refused starts a process, changed in some way, that must not get into a group, and returns why.
func refused(t *testing.T, lab *Cluster, id squall.NodeID, kind string, change func(*Spec)) {
	t.Helper()
	lab.adjust = change
	defer func() { lab.adjust = nil }()
	started, err := lab.Restart(durableNodes, nil, id)
	lab.must(err)
	why, err := started[0].AwaitHalt()
	if err != nil || !strings.HasPrefix(why, kind+": ") || !strings.Contains(why, lab.Disk(id)) {
		t.Errorf("node %d: %q, %v; want it to be refused: %s, with the directory's name", id, why, err, kind)
	}
	t.Log(why)
}

func TestADirectoryIsRefusedByWhoItDoesNotBelongTo(t *testing.T) {
	lab, members := formDurable(t, "bolt", Options{})
	refused(t, lab, 2, HaltedInUse, func(s *Spec) { s.Listen = "127.0.0.1:0" }) // a member works in it
	members[2].Kill()
	lab.AwaitView(members[:2]...)
	refused(t, lab, 3, HaltedOtherCluster, func(s *Spec) { s.Cluster = "another one" })
	refused(t, lab, 3, HaltedOtherNode, func(s *Spec) { s.ID = 4 })
	back, err := lab.Restart(durableNodes, nil, 3)
	lab.must(err)
	lab.AwaitView(append(members[:2:2], back...)...)
	lab.must(back[0].Send())
	settleDurable(lab)
}

func TestADirectoryThatCannotBeWrittenIsRefused(t *testing.T) {
	const node = 3
	disk := ram(t, 32<<20)
	lab, members := formDurable(t, "bolt", Options{Disks: map[squall.NodeID]string{node: disk}})
	members[node-1].Kill()
	lab.AwaitView(members[:node-1]...)
	freeze(t, disk)
	refused(t, lab, node, HaltedReadOnly, nil)
	settleDurable(lab)
}

// fillDisk takes what room a disk has left.
func fillDisk(t *testing.T, dir string) (again func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() { os.Remove(path) }
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestAMemberWhoseDiskIsFullLeavesAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, engine string) {
		for _, node := range []squall.NodeID{1, 3} {
			t.Run(fmt.Sprintf("node=%d", node), func(t *testing.T) {
				if node == 1 {
					takesTime(t)
				}
				disk := ram(t, 2<<30) // more than the others write while it is full and away
				load := DurableMessages(engine)
				load.Bytes, load.RingBytes = 10<<10, 256<<10
				lab := NewCluster(t, Options{Loads: []Load{load}, Disks: map[squall.NodeID]string{node: disk}})
				members := lab.Found(durableNodes)
				lab.AwaitAcks(acksBefore, members...)
				remove := fillDisk(t, disk)
				why, err := members[node-1].AwaitHalt()
				if err != nil || !strings.HasPrefix(why, HaltedDiskFull) {
					t.Fatalf("halted: %q, %v; want it to be full", why, err)
				}
				t.Log(why)
				rest := append(members[:node-1:node-1], members[node:]...)
				lab.AwaitView(rest...)
				lab.AwaitAcks(acksBefore, rest...)
				remove()
				<-members[node-1].ended
				back, err := lab.Restart(durableNodes, nil, node)
				lab.must(err)
				lab.AwaitView(append(rest, back...)...)
				lab.must(back[0].Send())
				settleDurable(lab)
			})
		}
	})
}
