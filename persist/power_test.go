package persist

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
	"github.com/squall-go/squall/persist/internal/wallog"
)

// platter is the disk of one log of segments. What a program sees are real files in a directory;
// beside them stands what would be left if the power went:
//
//	file   content as it was synced, and the writes since then
//	name   as the directory was synced, and the changes since then
//	list   of segments: as its last transaction left it
//
// When the power goes, each write since its file's last sync has arrived, or not, or as far as some
// sector; and each name, or not. What was set aside and not written may be gone in any case. Other
// files in the directory are taken for durable.
type platter struct {
	t    *testing.T
	dice *rand.Rand
	dir  string

	mu       sync.Mutex
	files    map[string]*platterFile // as names lead to them
	durable  map[string]*platterFile // the same, as of the last sync of the directory
	list     []byte
	ops      []string // that were made, or tried
	stop     int      // the operation that is the last one, from 1 on: it is made, or not, and fails like all behind it; 0: none
	fault    error    // what that one fails with
	once     bool     // only that one fails
	hit      string   // the operation that failed
	forgives bool     // it was one that nothing depends on
	deaf     bool     // a sync says that it was done, and does nothing
	syncs    int      // of files
	dirSyncs int
}

// platterFile is a file on it.
type platterFile struct {
	kept   []byte
	writes []platterWrite
}

type platterWrite struct {
	at   int64
	data []byte
}

func newPlatter(t *testing.T, seed uint64) *platter {
	return &platter{t: t, dice: rand.New(rand.NewPCG(seed, 11)), files: map[string]*platterFile{}, durable: map[string]*platterFile{}}
}

// holds says that the log in a store's directory is on the disk, and of which size its segments
// are. Whatever is there then is durable; another process may go on with what it sees.
func (p *platter) holds(store string, size int) wallog.Driver {
	p.begin(filepath.Join(store, logsDir, ticks.escape()))
	return wallog.Driver{Disk: p, SegmentBytes: size}
}

func (p *platter) begin(dir string) {
	if p.dir != "" {
		return
	}
	p.dir = dir
	names, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, path := range names {
		content, err := os.ReadFile(path)
		if err != nil {
			p.t.Fatal(err)
		}
		p.files[path] = &platterFile{kept: bytes.TrimRight(content, "\x00")}
	}
	p.durable = maps.Clone(p.files)
	p.commit()
}

// commit takes what the list of segments has now.
func (p *platter) commit() {
	var err error
	if p.list, err = os.ReadFile(filepath.Join(p.dir, engine.WALListFile)); err != nil {
		p.t.Fatal(err)
	}
}

// op makes an operation, unless it is one that fails.
func (p *platter) op(what string, tolerable bool, do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ops = append(p.ops, what)
	switch n := len(p.ops); {
	case p.stop == 0 || n < p.stop || n > p.stop && p.once:
		return do()
	case n == p.stop:
		p.hit, p.forgives = what, tolerable
		if !p.once && p.dice.IntN(2) == 0 {
			if err := do(); err != nil {
				return err
			}
		}
	}
	return p.fault
}

func (p *platter) Make(path string, size int64) (f wallog.SegmentFile, err error) {
	err = p.op("make", false, func() error {
		if f, err = (wallog.OSSegments{}).Make(path, size); err == nil {
			p.files[path] = &platterFile{}
		}
		return err
	})
	if err != nil && f != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p.file(path, f), err
}

func (p *platter) Open(path string) (wallog.SegmentFile, error) {
	f, err := wallog.OSSegments{}.Open(path)
	return p.file(path, f), err
}

func (p *platter) file(path string, f wallog.SegmentFile) wallog.SegmentFile {
	if f == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &platterSegment{f, p, p.files[path]}
}

func (p *platter) Remove(path string) error {
	return p.op("remove", true, func() error {
		delete(p.files, path)
		return wallog.OSSegments{}.Remove(path)
	})
}

func (p *platter) SyncDir(string) error {
	return p.op("sync the directory", false, func() error {
		p.dirSyncs++
		if !p.deaf {
			p.durable = maps.Clone(p.files)
		}
		return nil
	})
}

func (p *platter) Transact(change func() error) error {
	return p.op("transaction", false, func() error {
		if err := change(); err != nil {
			return err
		}
		p.commit()
		return nil
	})
}

// platterSegment is a file that is open.
type platterSegment struct {
	wallog.SegmentFile
	p    *platter
	node *platterFile
}

func (s *platterSegment) WriteAt(b []byte, at int64) (n int, err error) {
	err = s.p.op("write", false, func() error {
		s.node.writes = append(s.node.writes, platterWrite{at, bytes.Clone(b)})
		n, err = s.SegmentFile.WriteAt(b, at)
		return err
	})
	return n, err
}

// Sync does not reach the real disk: only a power cut could tell the difference. One that fails,
// while the process goes on, loses what it should have made durable.
func (s *platterSegment) Sync() error {
	err := s.p.op("sync", false, func() error {
		s.p.syncs++
		if !s.p.deaf {
			s.node.arrive(func(platterWrite) int { return -1 })
		}
		return nil
	})
	if err != nil && s.p.once {
		s.p.mu.Lock()
		s.node.arrive(s.p.part)
		s.p.mu.Unlock()
	}
	return err
}

func (s *platterSegment) Direct() wallog.SegmentFile {
	if f := s.SegmentFile.Direct(); f != nil {
		return &platterSegment{f, s.p, s.node}
	}
	return nil
}

// part is how much of a write has arrived: nothing, some sectors, or all of it.
func (p *platter) part(w platterWrite) int {
	switch p.dice.IntN(3) {
	case 0:
		return 0
	case 1:
		return p.dice.IntN(len(w.data)/512+1) * 512
	}
	return len(w.data)
}

// arrive takes the writes since the last sync to where they last, as far as is said; -1: as a
// whole.
func (f *platterFile) arrive(part func(platterWrite) int) {
	for _, w := range f.writes {
		n := part(w)
		if n < 0 {
			n = len(w.data)
		}
		if n == 0 {
			continue
		}
		if grow := int(w.at) + n - len(f.kept); grow > 0 {
			f.kept = append(f.kept, make([]byte, grow)...)
		}
		copy(f.kept[w.at:], w.data[:n])
	}
	f.writes = nil
}

// cut is the loss of power. It returns a copy of the store's directory with what is left of the
// log.
func (p *platter) cut(store string) (dir string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	dir = testutil.MemoryDir(p.t)
	if err := os.CopyFS(dir, os.DirFS(store)); err != nil {
		p.t.Fatal(err)
	}
	at, err := filepath.Rel(store, p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	at = filepath.Join(dir, at)
	put := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(at, name), content, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	put(engine.WALListFile, p.list)
	paths := slices.Sorted(maps.Keys(p.files))
	for path := range p.durable {
		if p.files[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		f, name := p.files[path], filepath.Base(path)
		if p.durable[path] != p.files[path] && p.dice.IntN(2) == 0 || f == nil {
			if f = p.durable[path]; f == nil {
				if err := os.RemoveAll(filepath.Join(at, name)); err != nil {
					p.t.Fatal(err)
				}
				continue
			}
		}
		f.arrive(p.part)
		put(name, append(bytes.Clone(f.kept), make([]byte, p.dice.IntN(3)*4096)...))
	}
	return dir
}

// smallSegments make the log change its segment every few groups.
const smallSegments = 16 << 10

// smallLog makes a store with a log that has such segments from the first one on, and copies it.
func smallLog(t *testing.T) (copies func() (dir string)) {
	t.Helper()
	made := testutil.MemoryDir(t)
	s, l := reopened(t, made, LogConfig{Engine: EngineWAL})
	mustClose(t, s)
	files, err := filepath.Glob(filepath.Join(l.dir, "*wal*"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	e, err := wallog.Driver{SegmentBytes: smallSegments}.Open(engine.Opening{Context: t.Context(), Create: true}, l.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return func() string {
		dir := testutil.MemoryDir(t)
		if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
}

// workDone is what a workload did: how many samples were acknowledged at least, how many may be in
// the log, the errors that the log reported, and the error of closing the store.
type workDone struct {
	acked, appended int
	reported        []error
	closed          error
}

// workload appends to a log, cuts it once, appends again, and closes the store.
func workload(t *testing.T, dir string, p *platter) (o workDone) {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir, Cluster: "test", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	var reported []error // complete once the store is closed: the writer of the log has ended then
	defer func() {
		o.closed = s.Close()
		o.reported = append(o.reported, reported...)
	}()
	l, err := s.Log(t.Context(), LogConfig{ID: ticks, Engine: p.holds(dir, smallSegments), Failed: func(err error) {
		reported = append(reported, err)
	}})
	if err != nil {
		o.reported = []error{err}
		return o
	}
	first, _ := l.Durable()
	write := func(from, to int) bool {
		for n := from; n < to; n++ {
			r := sample(n)
			if !l.Append(&r) {
				return false
			}
			o.appended = max(o.appended, n+1)
			if l.Sync(t.Context()) != nil {
				return false
			}
			o.acked = n + 1
		}
		return true
	}
	if write(0, 40) {
		cut := l.Cut(sample(29).Version)
		if o.acked = 30; cut == nil {
			o.appended = 30
			write(30, 50)
		}
	}
	if n, _ := l.Durable(); n < first {
		t.Error("what is durable became less")
	}
	return o
}

// hasAtLeast opens a log as a process does that comes after a crash: it has what was acknowledged,
// in order, and nothing that was never appended.
func hasAtLeast(dir string, t *testing.T, acked, appended int) error {
	s, err := Open(t.Context(), Config{Dir: dir, Cluster: "test", Node: 1})
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := s.Log(t.Context(), LogConfig{ID: ticks})
	if err != nil {
		return err
	}
	n := 0
	for r, err := range l.Range(order.Version{}, order.Version{}) {
		if err != nil {
			return err
		}
		if w := sample(n); r.Version != w.Version || !bytes.Equal(r.Data, w.Data) {
			return fmt.Errorf("record %d is %v", n, r)
		}
		n++
	}
	if n < acked || n > appended {
		return fmt.Errorf("%d records are there; %d were acknowledged and %d appended", n, acked, appended)
	}
	r := sample(n)
	if !l.Append(&r) {
		return errors.New("it takes nothing")
	}
	return l.Sync(t.Context())
}

// everyOperation runs a test for every operation of the workload, until one has had none that
// failed.
func everyOperation(t *testing.T, test func(at int, p *platter, dir string) (whole bool)) {
	copies := smallLog(t)
	step := testutil.Seeds(3, 1)
	if testing.Short() {
		step = 5
	}
	for at := 1; ; at += step {
		p := newPlatter(t, uint64(at))
		p.stop = at
		if test(at, p, copies()) {
			if at < 50 {
				t.Errorf("there are %d operations only", at)
			}
			return
		}
	}
}

// The power goes at any write, sync, change of a name and transaction: what was acknowledged is
// there, and nothing is that was never appended.
func TestWhatIsAcknowledgedSurvivesALossOfPowerAtAnyOperation(t *testing.T) {
	t.Parallel()
	everyOperation(t, func(at int, p *platter, dir string) bool {
		p.fault = errPower
		o := workload(t, dir, p)
		if err := hasAtLeast(p.cut(dir), t, o.acked, o.appended); err != nil {
			t.Errorf("power went at operation %d, %s: %v", at, p.hit, err)
		}
		return p.hit == ""
	})
}

// A process ends at any operation, and the next one sees what it left, synced or not. What that one
// counts as durable survives a loss of power.
func TestWhatTheNextProcessFindsSurvivesALossOfPower(t *testing.T) {
	t.Parallel()
	everyOperation(t, func(at int, p *platter, dir string) bool {
		p.fault = errPower // to this process it is the same
		o := workload(t, dir, p)
		done := p.hit == ""
		p.stop = 0
		s, err := Open(t.Context(), Config{Dir: dir, Cluster: "test", Node: 1})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Log(t.Context(), LogConfig{ID: ticks, Engine: p.holds(dir, smallSegments)})
		if err != nil {
			t.Fatalf("operation %d, %s: %v", at, p.hit, err)
		}
		found := int(l.End().Records)
		if err := hasAtLeast(p.cut(dir), t, found, max(found, o.appended)); err != nil {
			t.Errorf("the process ended at operation %d, %s: %v", at, p.hit, err)
		}
		_ = s.Close()
		return done
	})
}

// A disk that fails once, and works again, ends the log, and a sync that failed loses what it
// should have made durable: nothing behind it is acknowledged.
func TestAnErrorOfTheDiskEndsTheLog(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
		everyOperation(t, func(at int, p *platter, dir string) bool {
			p.fault, p.once = fault, true
			o := workload(t, dir, p)
			if p.hit != "" && !p.forgives && len(o.reported) == 0 && o.closed == nil {
				t.Errorf("operation %d, %s, failed with %v, and no error was reported", at, p.hit, fault)
			}
			for _, err := range o.reported {
				if !errors.Is(err, fault) {
					t.Errorf("operation %d, %s, failed with %v, and the log reported %v", at, p.hit, fault, err)
				}
			}
			if err := hasAtLeast(p.cut(dir), t, o.acked, o.appended); err != nil {
				t.Errorf("operation %d, %s, failed: %v", at, p.hit, err)
			}
			return p.hit == ""
		})
	}
}

// The tests above notice a disk that does not do what it says.
func TestADiskThatDoesNotSyncIsNoticed(t *testing.T) {
	t.Parallel()
	p := newPlatter(t, 1)
	p.deaf, p.fault, p.stop = true, errPower, 60
	dir := smallLog(t)()
	o := workload(t, dir, p)
	if err := hasAtLeast(p.cut(dir), t, o.acked, o.appended); err == nil {
		t.Errorf("%d records were acknowledged, and are there", o.acked)
	}
}

// As docs/logs.md says: with engine wal a group of records is one sync of a file, and no
// transaction; the first group in a segment syncs its name, too.
func TestAGroupIsOneSync(t *testing.T) {
	t.Parallel()
	p := newPlatter(t, 1)
	dir := testutil.MemoryDir(t)
	s, _ := reopened(t, dir, LogConfig{Engine: EngineWAL})
	mustClose(t, s)
	_, l := reopened(t, dir, LogConfig{Engine: p.holds(dir, wallog.SegmentBytes)})
	appendSamples(t, l, 0, 1)
	p.ops, p.syncs, p.dirSyncs = nil, 0, 0
	for n := 1; n <= 100; n++ {
		appendSamples(t, l, n, n+1)
	}
	if p.syncs != 100 || p.dirSyncs != 0 || len(p.ops) != 200 {
		t.Errorf("100 groups took %d syncs of files, %d of directories, %d operations", p.syncs, p.dirSyncs, len(p.ops))
	}
}
