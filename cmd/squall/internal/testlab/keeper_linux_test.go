//go:build system

package testlab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// keeperCommand is the command that runs a keeper: a process that has one store with one log, and
// executes the requests of the test on it. Stores map files into memory, so the process that serves
// a disk cannot have one on it.
const keeperCommand = "keep-store"

// keeperTask is what a keeper is told. Numbers are the numbers of records, whose versions are 1:1,
// 1:2 and so on.
type keeperTask struct {
	Do     string
	Dir    string
	Engine string
	Serial uint64 // of the first record, snapshot or value; the next ones follow
	Sizes  []int  // of records
	At     uint64 // the first number that is not in a snapshot, or that goes
}

// What a keeper does.
const (
	keepOpen     = "open"
	keepAppend   = "append"   // records, and wait for them
	keepHasten   = "hasten"   // records, and install a snapshot without a wait
	keepSnapshot = "snapshot" // keep one of the records before a number
	keepCut      = "cut"      // records from a number on
	keepPut      = "put"
	keepClose    = "close"
)

// keeperAnswer ends a task.
type keeperAnswer struct {
	Err     string
	Durable uint64 // records since the log was opened
}

func init() { roles = append(roles, proc.Program{Name: keeperCommand, Run: runKeeper}) }

func runKeeper(ctx context.Context, parent *proc.Parent) error {
	k := &keeper{}
	for {
		var task keeperTask
		if err := parent.Receive(ctx, &task); err != nil {
			return nil // no test tells this process anything any more
		}
		var a keeperAnswer
		if err := k.do(&task); err != nil {
			a.Err = err.Error()
		}
		if k.log != nil {
			a.Durable, _ = k.log.Durable()
		}
		if err := parent.Send(a); err != nil {
			return err
		}
	}
}

type keeper struct {
	store *persist.Store
	log   *persist.Log
}

// snapshotBytes is how long snapshots are.
const snapshotBytes = 10_000

var (
	keeperLog   = persist.LogID{Name: "kept"}
	keeperValue = "value"
)

func (k *keeper) open(dir string, engine string) (err error) {
	if k.store, err = persist.Open(context.Background(), persist.Config{Dir: dir, Cluster: "keepers", Node: 1}); err != nil {
		return err
	}
	k.log, err = k.store.Log(context.Background(), persist.LogConfig{ID: keeperLog, Engine: Engines[engine]})
	return err
}

func (k *keeper) do(task *keeperTask) error {
	switch task.Do {
	case keepOpen:
		return k.open(task.Dir, task.Engine)
	case keepAppend:
		if err := k.append(task); err != nil {
			return err
		}
		return k.log.Sync(context.Background())
	case keepHasten:
		if err := k.append(task); err != nil {
			return err
		}
		at := persist.Record{Number: task.At - 1, Version: versionOf(task.At - 1), Time: order.Time(time.Now().UnixNano())}
		return k.log.Install(at, bytes.NewReader(contentOf(task.Serial, snapshotBytes)))
	case keepSnapshot:
		v := versionOf(task.At - 1)
		k.log.SetGlobal(v)
		return k.log.Snapshot(v, func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(contentOf(task.Serial, snapshotBytes)))
			return err
		})
	case keepCut:
		return k.log.Cut(order.Version{View: 1, Seq: order.Seq(task.At)})
	case keepPut:
		return k.store.Put(map[string][]byte{keeperValue: contentOf(task.Serial, 100)})
	case keepClose:
		return k.store.Close()
	}
	return fmt.Errorf("no task: %q", task.Do)
}

func (k *keeper) append(task *keeperTask) error {
	next := k.log.End().Records
	for i, size := range task.Sizes {
		r := persist.Record{Version: versionOf(next + uint64(i)), Sender: 1, Data: contentOf(task.Serial+uint64(i), size)}
		if !k.log.Append(&r) {
			return errors.Join(errors.New("it was not appended"), k.log.Err())
		}
	}
	return nil
}

func versionOf(number uint64) order.Version {
	return order.Version{View: 1, Seq: order.Seq(number + 1)}
}

// contentOf is what stands for a serial, of so many bytes at least 8.
func contentOf(serial uint64, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(serial) ^ byte(i)
	}
	binary.LittleEndian.PutUint64(b, serial)
	return b
}

// serialOf is the serial of a content; an error if it is none.
func serialOf(b []byte) (uint64, error) {
	if len(b) < 8 {
		return 0, fmt.Errorf("%d bytes", len(b))
	}
	serial := binary.LittleEndian.Uint64(b)
	if string(contentOf(serial, len(b))) != string(b) {
		return 0, fmt.Errorf("the %d bytes of %d are not as they were written", len(b), serial)
	}
	return serial, nil
}

// kept is a store as it should be, or as it is.
type kept struct {
	stands   uint64            // the first number for which no snapshot stands
	snapshot uint64            // its serial
	next     uint64            // number of the record that comes next
	serials  map[uint64]uint64 // by number
	value    uint64
}

func (k kept) String() string {
	return fmt.Sprintf("records from %d to %d, snapshot %d, value %d", k.stands, k.next, k.snapshot, k.value)
}

// readKept reads a store that no process has, as the next one would find it.
func readKept(dir string, engine string) (have kept, err error) {
	var k keeper
	if err := k.open(dir, engine); err != nil {
		return have, err
	}
	have, err = k.read()
	if err := errors.Join(err, k.store.Close()); err != nil {
		return have, err
	}
	report, err := persist.Verify(context.Background(), dir, nil, nil)
	if err == nil && !report.OK() {
		err = fmt.Errorf("it is damaged: %+v", report)
	}
	return have, err
}

func (k *keeper) read() (have kept, err error) {
	have.serials = map[uint64]uint64{}
	if b, err := k.store.Get(keeperValue); err != nil {
		return have, err
	} else if b != nil {
		if have.value, err = serialOf(b); err != nil {
			return have, err
		}
	}
	at, content, err := k.log.OpenSnapshot()
	if err == nil {
		b, err := io.ReadAll(content)
		if err = errors.Join(err, content.Close()); err != nil {
			return have, err
		}
		if have.snapshot, err = serialOf(b); err != nil {
			return have, err
		}
		have.stands = at.Number + 1
	} else if !errors.Is(err, persist.ErrNotFound) {
		return have, err
	}
	have.next = k.log.End().Records
	for r, err := range k.log.Range(order.Version{}, order.Version{}) {
		if err != nil {
			return have, err
		}
		if have.serials[r.Number], err = serialOf(r.Data); err != nil || r.Version != versionOf(r.Number) {
			return have, fmt.Errorf("record %d of version %v: %w", r.Number, r.Version, err)
		}
	}
	return have, nil
}

// differs says in what a store is not as it should be; nil: in nothing.
func (k *kept) differs(have *kept) error {
	switch {
	case have.value != k.value:
		return fmt.Errorf("the value is %d, want %d", have.value, k.value)
	case have.stands != k.stands || have.snapshot != k.snapshot:
		return fmt.Errorf("the snapshot is %d up to %d, want %d up to %d", have.snapshot, have.stands, k.snapshot, k.stands)
	case have.next != k.next:
		return fmt.Errorf("it ends with %d records, want %d", have.next, k.next)
	}
	for n := k.stands; n < k.next; n++ {
		if have.serials[n] != k.serials[n] {
			return fmt.Errorf("record %d is %d, want %d", n, have.serials[n], k.serials[n])
		}
	}
	return nil
}

// keeperProcess is a keeper as the test sees it.
type keeperProcess struct{ *proc.Child }

func startKeeper() (*keeperProcess, error) {
	c, err := proc.Start(context.Background(), keeperCommand, nil, proc.Options{Role: "keeper", Env: []string{"GOMAXPROCS=2"}, Log: os.Stderr})
	return &keeperProcess{c}, err
}

// do has the keeper do something. An answer with an error is an answer.
func (p *keeperProcess) do(task keeperTask) (a keeperAnswer, err error) {
	if err := p.Send(task); err != nil {
		return a, err
	}
	return a, p.Receive(context.Background(), &a)
}

// kill ends the keeper without a word.
func (p *keeperProcess) kill() {
	p.Kill()
	_ = p.Wait()
}
