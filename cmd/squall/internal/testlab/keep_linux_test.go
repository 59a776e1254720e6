//go:build system

package testlab

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/testlab/faultfs"
	"github.com/squall-go/squall/internal/testutil"
)

var trials = flag.Int("trials", 0, "trials of a store whose every step is gone through, for each engine; 0: every eighth step of one")

// trial is one store on one disk. A keeper works on it until the disk fails.
type trial struct {
	engine  string
	disk    *faultfs.Disk
	dice    *rand.Rand // of what is done
	scratch string     // a directory
	dir     string     // the store's, on the disk

	serial  uint64
	is      kept   // what was acknowledged
	may     []kept // or what a task that failed leads to, with any number of its records
	durable uint64 // records that the keeper said are durable
	failure string // of the task that failed
}

func newTrial(t *testing.T, engine string, seed uint64, disk *faultfs.Disk) *trial {
	return &trial{engine: engine, disk: disk, dice: rand.New(rand.NewPCG(seed, 3)), scratch: t.TempDir(), is: kept{serials: map[uint64]uint64{}}}
}

// ended is a power cut: it reads what is left, and says what is wrong with it.
func (r *trial) ended(fate faultfs.Fate) error {
	r.disk.Settle(fate)
	if err := r.disk.Export(filepath.Join(r.scratch, "platter")); err != nil {
		return err
	}
	have, err := readKept(filepath.Join(r.scratch, "platter", "store"), r.engine)
	if err != nil {
		return err
	}
	wrong := r.is.differs(&have)
	for _, k := range r.may {
		if wrong == nil {
			break
		}
		if r.is.next < k.next {
			k.next = min(max(have.next, r.is.next), k.next)
		}
		if k.differs(&have) == nil {
			wrong = nil
			r.is = k
		}
	}
	r.may = nil
	return wrong
}

// while has a keeper do tasks on the disk until one fails, or they are done, and ends it. Meanwhile
// the power may go, or the disk fail: otherwise no task may.
func (r *trial) while(faults faultfs.Faults, tasks func(k *keeperProcess) error) (struck bool, err error) {
	power := faultfs.NewPower()
	mount, err := r.disk.Mount(power)
	if err != nil {
		return false, err
	}
	r.disk.Fail(faults)
	k, err := startKeeper()
	if err == nil {
		r.failure, r.durable = "", 0
		r.dir = filepath.Join(mount.Dir, "store")
		if err = r.task(k, keeperTask{Do: keepOpen, Dir: r.dir, Engine: r.engine}, r.is); err == nil {
			err = tasks(k)
		}
		k.kill()
	}
	power.Cut()
	struck = r.disk.Struck() > 0
	if struck && errors.Is(err, errRefused) {
		err = nil
	}
	return struck, errors.Join(err, mount.Close())
}

// errRefused says that a task failed: the disk did.
var errRefused = errors.New("refused")

// task has the keeper do something that leads to another state. If it fails, any state between may
// come of it.
func (r *trial) task(k *keeperProcess, task keeperTask, to kept) error {
	a, err := k.do(task)
	if err != nil {
		return fmt.Errorf("%s: %w", task.Do, err)
	}
	if a.Err == "" {
		r.is, r.durable = to, a.Durable
		return nil
	}
	r.failure = task.Do + ": " + a.Err
	if task.Do == keepHasten {
		appended := r.appended(task)
		r.may = append(r.may, appended)
		r.is = r.told(appended, a)
	}
	if r.may = append(r.may, to); task.Do == keepAppend {
		r.is = r.told(to, a)
	}
	return errRefused
}

// told is what is acknowledged of records of which the keeper says how many are durable.
func (r *trial) told(appended kept, a keeperAnswer) kept {
	appended.next = r.is.next + a.Durable - r.durable
	return appended
}

// appended is the state with a task's records.
func (r *trial) appended(task keeperTask) kept {
	to := r.is
	to.serials = maps.Clone(to.serials)
	for i := range task.Sizes {
		to.serials[to.next] = task.Serial + uint64(i)
		to.next++
	}
	return to
}

// random has the keeper do something.
func (r *trial) random(k *keeperProcess) error {
	task := keeperTask{Serial: r.serial + 1}
	to := r.is
	switch what := r.dice.IntN(12); {
	case what == 0:
		task.Do, to.value = keepPut, task.Serial
	case what == 1 && r.is.next > r.is.stands:
		task.Do, task.At = keepSnapshot, r.is.stands+1+r.dice.Uint64N(r.is.next-r.is.stands)
		to.stands, to.snapshot = task.At, task.Serial
	case what == 2 && r.is.next > r.is.stands:
		task.Do, task.At = keepCut, r.is.stands+r.dice.Uint64N(r.is.next-r.is.stands)
		to.next = task.At
	case what == 3:
		task.Do, task.Sizes = keepHasten, r.sizes()
		task.At = r.is.next + uint64(len(task.Sizes)) + r.dice.Uint64N(5)
		task.Serial++
		to.stands, to.next, to.snapshot = task.At, task.At, task.Serial
	case what == 4:
		if err := r.task(k, keeperTask{Do: keepClose}, r.is); err != nil {
			return err
		}
		task.Do, task.Dir, task.Engine = keepOpen, r.dir, r.engine
	default:
		task.Do, task.Sizes = keepAppend, r.sizes()
		to = r.appended(task)
	}
	r.serial = task.Serial + uint64(len(task.Sizes))
	return r.task(k, task, to)
}

// sizes draws the sizes of some records.
func (r *trial) sizes() (sizes []int) {
	for range 1 + r.dice.IntN(8) {
		most := 300
		if r.dice.IntN(10) == 0 {
			most = 100_000
		}
		sizes = append(sizes, 8+r.dice.IntN(most))
	}
	return sizes
}

// actions is how much a keeper does in a trial.
const actions = 14

// play has a keeper do all, with faults.
func (r *trial) play(faults faultfs.Faults) (struck bool, err error) {
	return r.while(faults, func(k *keeperProcess) error {
		for range actions {
			if err := r.random(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachTrial makes the same trial with something that goes wrong at its first step, then at its
// second one, and so on to its end. What goes wrong is said by the step, and the seed of the disk.
func eachTrial(t *testing.T, faults func(at int) faultfs.Faults, fate faultfs.Fate) {
	seed := *stormSeed
	if seed == 0 {
		seed = testutil.Seed(t)
	}
	t.Logf("again with: -args -trials %d -seed %d", *trials, seed)
	for _, engine := range engines {
		t.Run("engine="+engine, func(t *testing.T) {
			stride := 1
			if *trials == 0 {
				stride = 8
			}
			if testing.Short() {
				stride *= 3
			}
			for n := range uint64(max(*trials, 1)) {
				at := 1 + int(seed%uint64(stride))
				for struck := true; struck; at += stride {
					r := newTrial(t, engine, seed+n, faultfs.New(seed+n+uint64(at)))
					var err error
					if struck, err = r.play(faults(at)); errors.Is(err, faultfs.ErrUnavailable) {
						t.Skip(err)
					}
					if err == nil {
						err = r.ended(fate)
					}
					if err != nil {
						t.Fatalf("trial %d, at step %d, %q: %v", n, at, r.failure, err)
					}
				}
				if at < 20+stride {
					t.Errorf("trial %d has %d steps", n, at)
				}
				t.Logf("trial %d: %d steps", n, at)
			}
		})
	}
}

func TestWhatAStoreSaysIsDurableIsThereAfterACutAtAnyStep(t *testing.T) {
	eachTrial(t, func(at int) faultfs.Faults { return faultfs.Faults{CutAt: at} }, faultfs.Drawn)
}

// U1: of what was not synced while a store was made, any part may arrive, in any order. The next
// process makes the store, or finds it.
func TestAStoreThatIsBeingMadeCanBeMadeAfterACutAtAnyStep(t *testing.T) {
	seed := *stormSeed
	if seed == 0 {
		seed = testutil.Seed(t)
	}
	t.Logf("again with: -args -trials %d -seed %d", *trials, seed)
	draws := uint64(3 + 10**trials)
	if testing.Short() {
		draws = 1
	}
	for at, struck := 1, true; struck; at++ {
		for n := range draws {
			r := newTrial(t, "bolt", seed, faultfs.New(seed+n+draws*uint64(at)))
			var err error
			struck, err = r.while(faultfs.Faults{CutAt: at}, func(*keeperProcess) error { return nil })
			if errors.Is(err, faultfs.ErrUnavailable) {
				t.Skip(err)
			}
			if err == nil {
				err = r.ended(faultfs.Scattered)
			}
			if err != nil {
				t.Fatalf("at step %d, draw %d, %q: %v", at, n, r.failure, err)
			}
		}
	}
}

func TestWhatAStoreSaysIsDurableIsThereAfterAnyWriteFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		t.Run(strings.ReplaceAll(errno.Error(), " ", "-"), func(t *testing.T) {
			eachTrial(t, func(at int) faultfs.Faults { return faultfs.Faults{Write: faultfs.Fault{Err: errno, At: at}} }, faultfs.Nothing)
		})
	}
}

func TestWhatAStoreSaysIsDurableIsThereAfterAnySyncFails(t *testing.T) {
	eachTrial(t, func(at int) faultfs.Faults { return faultfs.Faults{Sync: faultfs.Fault{Err: syscall.EIO, At: at}} }, faultfs.Drawn)
}

// syncs of an engine that a disk lies about, as if the engine left them out.
var leftOut = []struct {
	name string
	of   []string
	lies func(s faultfs.Synced) bool
}{
	{"all", engines, func(faultfs.Synced) bool { return true }},
	{"of the files of records", engines, func(s faultfs.Synced) bool {
		return s.Kind == faultfs.Data && (strings.HasSuffix(s.Path, ".wal") || strings.HasSuffix(s.Path, "log.db"))
	}},
	{"of the names of segments", []string{"wal"}, func(s faultfs.Synced) bool {
		return s.Kind == faultfs.Names && s.Path == "store/logs/kept.0"
	}},
}

// The trials see it when a sync is left out.
func TestATrialSeesThatSyncsAreLeftOut(t *testing.T) {
	for _, l := range leftOut {
		for _, engine := range l.of {
			t.Run(fmt.Sprintf("engine=%s/%s", engine, l.name), func(t *testing.T) {
				r := newTrial(t, engine, 1, faultfs.New(1))
				_, err := r.while(faultfs.Faults{}, func(k *keeperProcess) error {
					tasks := []keeperTask{{Do: keepAppend, Serial: 1, Sizes: []int{100, 100}}, {Do: keepCut, At: 1}, {Do: keepAppend, Serial: 3, Sizes: []int{100, 100}}}
					for i, task := range tasks {
						to := r.appended(task)
						if task.Do == keepCut {
							to.next = task.At
							r.disk.Fail(faultfs.Faults{Lies: l.lies})
						}
						if err := r.task(k, task, to); err != nil {
							return fmt.Errorf("task %d: %w", i, err)
						}
					}
					return nil
				})
				if errors.Is(err, faultfs.ErrUnavailable) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err, r.failure)
				}
				if err := r.ended(faultfs.Nothing); err == nil {
					t.Error("not seen")
				} else {
					t.Log(err)
				}
			})
		}
	}
}
