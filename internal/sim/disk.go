package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"
)

// disk is a node's. It outlives the node's processes, and forgets what was not synced when the node loses power.
//
// What a program sees is kept apart from what the platter has. Between the two stand the changes that are not synced, in the order in
// which they were made:
//
//	seen:     file "log"   aaaa bbbb cccc dd       directory   meta → inode 7
//	changes:                    bbbb cccc dd                    meta.new → inode 7, meta.new becomes meta
//	platter:               aaaa                                meta → inode 3
//
// A sync of a file takes its changes to the platter, a sync of a directory the changes of its
// names; neither does the other's. When the power goes, a prefix of each list has arrived, and a
// part of the change behind it; the sector in which that part ends may hold anything. When a
// process ends and the host goes on, nothing is lost.
//
// Times are the world's: a sync here takes effect at once, and the code that asks for it waits first for as long as takes says.
type disk struct {
	dice dice
	plan DiskPlan
	root *inode
	used int // bytes
	// full and failing are the faults of the disk; both stay until they are reset.
	full, failing bool
	slow          string        // syncs of files whose paths begin so are slow …
	slowUntil     time.Duration // … until then

	syncs  int   // sync points that were passed
	fuse   int   // the power goes at this one, counted from 1; 0: at none
	arrive parts // what of the changes has arrived then

	lax DiskBug
}

// DiskPlan is the character of a disk.
type DiskPlan struct {
	Sync   time.Duration // what a sync takes, about
	SlowIn int           // one in so many syncs takes longer; 0: none
	Slow   time.Duration // how long that is at most
	Bytes  int           // how much it holds; 0: no end
}

// DiskBug is a fault of what stands between a log and its disk, as a program might have one. Tests show with it that the checkers look.
type DiskBug uint8

const (
	SoundDisk      DiskBug = iota
	NoSync                 // a sync of a file says that it was done
	NoDirSync              // a sync of a directory says so
	EarlyWritten           // what is written counts as synced
	CutsTooLittle          // a process that drops the end of a log keeps a record of it
	CutsTooMuch            // or drops one more
	OtherShard             // a log is brought up to the logs of another shard
	LateWhole              // that a log is whole is said late, whatever has become of it since
	AheadOfAnybody         // a process that comes back makes its log that of the first process that answers, before it joins
	DeafToLacks            // of what others lack, only what concerns the first shard is heard
)

// sector is what a disk writes as a whole.
const sector = 512

// inode is a file or a directory.
type inode struct {
	data, kept []byte  // of a file: as seen, and on the platter
	writes     []write // in between

	names, keptNames map[string]*inode // of a directory; nil: it is a file
	namings          []naming
}

// write is a change of a file: it is cut at a length, and something is put behind it.
type write struct {
	at   int
	data []byte
}

// naming is a change of a directory: a name is given, or taken away, and the name that it had before is gone.
type naming struct {
	name, was string
	node      *inode
}

// parts says what has arrived of the changes that were not synced.
type parts uint8

const (
	someParts parts = iota // drawn, for every file and directory
	noParts
	tornParts // all, but for a part of the last
	allParts
)

// powerCut is what a sync panics with at which the power goes.
type powerCut struct{}

// What a disk says when it does not do what it is told.
var (
	errFull = fmt.Errorf("simulated disk: %w", syscall.ENOSPC)
	errIO   = fmt.Errorf("simulated disk: %w", syscall.EIO)
)

func newDisk(d dice, plan DiskPlan) *disk {
	return &disk{dice: d, plan: plan, root: newDirectory()}
}

func newDirectory() *inode {
	return &inode{names: map[string]*inode{}, keptNames: map[string]*inode{}}
}

// find returns the directory in which a path ends, the name there, and the inode of that name.
func (d *disk) find(path string) (dir *inode, name string, node *inode, err error) {
	dir = d.root
	for {
		head, tail, more := strings.Cut(path, "/")
		node = dir.names[head]
		if !more {
			return dir, head, node, nil
		}
		if node == nil || node.names == nil {
			return nil, "", nil, fmt.Errorf("%q in %q: %w", head, path, fs.ErrNotExist)
		}
		dir, path = node, tail
	}
}

// file is what a path names, which must be a file.
func (d *disk) file(path string) (*inode, error) {
	_, _, node, err := d.find(path)
	if err == nil && (node == nil || node.names != nil) {
		err = fmt.Errorf("file %q: %w", path, fs.ErrNotExist)
	}
	return node, err
}

// has reports whether a directory is seen.
func (d *disk) has(path string) bool {
	_, err := d.directory(path)
	return err == nil
}

// directory is what a path names, which must be one; the empty path names the root.
func (d *disk) directory(path string) (*inode, error) {
	if path == "" {
		return d.root, nil
	}
	_, _, node, err := d.find(path)
	if err == nil && (node == nil || node.names == nil) {
		err = fmt.Errorf("directory %q: %w", path, fs.ErrNotExist)
	}
	return node, err
}

// create makes an empty file, in the place of one of that name.
func (d *disk) create(path string) error { return d.make(path, &inode{}) }

// mkdir makes a directory unless it exists.
func (d *disk) mkdir(path string) error {
	if _, err := d.directory(path); err == nil {
		return nil
	}
	return d.make(path, newDirectory())
}

func (d *disk) make(path string, node *inode) error {
	dir, name, _, err := d.find(path)
	if err == nil {
		err = d.writable(path)
	}
	if err != nil {
		return err
	}
	dir.rename(naming{name: name, node: node})
	return nil
}

// writable reports why nothing can be changed.
func (d *disk) writable(path string) error {
	switch {
	case d.failing:
		return fmt.Errorf("%q: %w", path, errIO)
	case d.full:
		return fmt.Errorf("%q: %w", path, errFull)
	}
	return nil
}

func (dir *inode) rename(n naming) {
	dir.namings = append(dir.namings, n)
	n.apply(dir.names)
}

func (n naming) apply(names map[string]*inode) {
	if n.was != "" {
		delete(names, n.was)
	}
	if n.node == nil {
		delete(names, n.name)
		return
	}
	names[n.name] = n.node
}

// rename gives a file another name in its directory. Whatever had that is gone.
func (d *disk) rename(from, to string) error {
	dir, was, node, err := d.find(from)
	if err != nil || node == nil {
		return or(err, fmt.Errorf("%q: %w", from, fs.ErrNotExist))
	}
	other, name, _, err := d.find(to)
	if err != nil || other != dir {
		return or(err, fmt.Errorf("%q and %q: %w", from, to, syscall.EXDEV))
	}
	if d.failing {
		return fmt.Errorf("%q: %w", from, errIO)
	}
	dir.rename(naming{name: name, was: was, node: node})
	return nil
}

// remove takes a name away.
func (d *disk) remove(path string) error {
	dir, name, node, err := d.find(path)
	if err != nil || node == nil {
		return or(err, fmt.Errorf("%q: %w", path, fs.ErrNotExist))
	}
	if d.failing {
		return fmt.Errorf("%q: %w", path, errIO)
	}
	d.used -= len(node.data)
	dir.rename(naming{name: name})
	return nil
}

// read is the content of a file. It must not be changed.
func (d *disk) read(path string) ([]byte, error) {
	f, err := d.file(path)
	if err != nil {
		return nil, err
	}
	return f.data, nil
}

// extend puts data, which must not be changed afterwards, behind the end of a file. A disk that is full takes a part of it.
func (d *disk) extend(path string, data []byte) error {
	f, err := d.file(path)
	if err == nil && d.failing {
		err = fmt.Errorf("%q: %w", path, errIO)
	}
	if err != nil {
		return err
	}
	fits := len(data)
	if d.plan.Bytes > 0 {
		fits = min(fits, max(0, d.plan.Bytes-d.used))
	}
	if d.full {
		fits = min(fits, d.dice.IntN(len(data)+1), len(data)-1)
	}
	d.used += max(0, fits)
	f.write(write{at: len(f.data), data: data[:max(0, fits)]})
	if fits < len(data) {
		return fmt.Errorf("%q: %w", path, errFull)
	}
	return nil
}

// truncate cuts a file.
func (d *disk) truncate(path string, size int) error {
	f, err := d.file(path)
	if err == nil && d.failing {
		err = fmt.Errorf("%q: %w", path, errIO)
	}
	if err != nil || size >= len(f.data) {
		return err
	}
	d.used -= len(f.data) - size
	f.write(write{at: size})
	return nil
}

func (f *inode) write(c write) {
	f.writes = append(f.writes, c)
	f.data = c.apply(f.data, len(c.data))
}

// apply makes the change, with so many of its bytes. What was there stays as it is: the platter may have the same memory.
func (c write) apply(data []byte, n int) []byte {
	switch at := min(c.at, len(data)); {
	case at == 0:
		return c.data[:n:n]
	case at < len(data):
		return append(data[:at:at], c.data[:n]...)
	}
	return append(data, c.data[:n]...)
}

// sync takes what was written to a file to the platter. Its name is another matter.
func (d *disk) sync(path string) error {
	f, err := d.file(path)
	if err != nil {
		return err
	}
	return d.pass(path, f)
}

// syncDir takes what became of the names in a directory to the platter.
func (d *disk) syncDir(path string) error {
	dir, err := d.directory(path)
	if err != nil || d.lax == NoDirSync {
		return err
	}
	return d.pass(path, dir)
}

// pass is a sync point. One that fails has lost what it was to take: a later one does not find it any more.
func (d *disk) pass(path string, node *inode) error {
	d.syncs++
	if d.syncs == d.fuse && d.arrive != allParts {
		panic(powerCut{})
	}
	if d.failing {
		node.writes, node.namings = nil, nil
		return fmt.Errorf("sync %q: %w", path, errIO)
	}
	if d.lax != NoSync {
		node.settle()
	}
	if d.syncs == d.fuse {
		panic(powerCut{})
	}
	return nil
}

// settle takes all changes to the platter.
func (node *inode) settle() {
	for _, c := range node.writes {
		node.kept = c.apply(node.kept, len(c.data))
	}
	for _, n := range node.namings {
		n.apply(node.keptNames)
	}
	node.writes, node.namings = nil, nil
}

// disarm takes back a fault that waits for a sync.
func (d *disk) disarm() {
	if d != nil {
		d.fuse, d.full = 0, false
	}
}

// powerOff is what is left when the power comes back.
func (d *disk) powerOff() {
	if d.syncs != d.fuse {
		d.arrive = someParts
	}
	if d.full, d.used = false, 0; d.syncs >= d.fuse {
		d.fuse = 0
	}
	d.lose(d.root)
}

// lose leaves a directory or file with what is on the platter, and what was on its way there and has arrived.
func (d *disk) lose(node *inode) {
	if node.names == nil {
		d.loseWrites(node)
		d.used += len(node.data)
		return
	}
	for _, n := range node.namings[:d.arrived(len(node.namings))] {
		n.apply(node.keptNames)
	}
	node.namings, node.names = nil, map[string]*inode{}
	for _, name := range sortedNames(node.keptNames) {
		node.names[name] = node.keptNames[name]
		d.lose(node.names[name])
	}
}

func sortedNames(names map[string]*inode) (sorted []string) {
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

// arrived draws how many of some changes are on the platter.
func (d *disk) arrived(n int) int {
	switch d.arrive {
	case noParts:
		return 0
	case tornParts, allParts:
		return n
	}
	return d.dice.IntN(n + 1)
}

func (d *disk) loseWrites(f *inode) {
	n := d.arrived(len(f.writes))
	torn := d.arrive == tornParts && n > 0
	if torn {
		n-- // the last one, of which a part has arrived
	}
	for _, c := range f.writes[:n] {
		f.kept = c.apply(f.kept, len(c.data))
	}
	if n < len(f.writes) && (torn || d.arrive == someParts && d.dice.oneIn(2)) {
		f.kept = d.tear(f.kept, f.writes[n])
	}
	f.writes, f.data = nil, slices.Clone(f.kept)
}

// tear makes a part of a change. The sector in which it ends may be garbage.
func (d *disk) tear(data []byte, c write) []byte {
	if len(c.data) == 0 {
		return data
	}
	data = c.apply(data, d.dice.IntN(len(c.data)))
	if d.dice.oneIn(2) {
		return data
	}
	end := len(data)
	for range min(1+d.dice.IntN(sector), c.at+len(c.data)-end) {
		data = append(data, byte(d.dice.IntN(256)))
	}
	return data
}

// replace puts an empty disk in the place of this one.
func (d *disk) replace() {
	d.root, d.used, d.full, d.failing = newDirectory(), 0, false, false
}

// rot flips a bit of a file, on the platter too.
func (d *disk) rot(path string, off int) error {
	f, err := d.file(path)
	if err != nil || off >= len(f.data) {
		return or(err, errors.New("after the end of the file"))
	}
	f.data = slices.Clone(f.data)
	f.data[off] ^= 1 << d.dice.IntN(8)
	if off < len(f.kept) {
		f.kept = slices.Clone(f.kept)
		f.kept[off] = f.data[off]
	}
	return nil
}

// kept is how many bytes of a file, from its beginning, are on the platter, names and all.
func (d *disk) kept(path string) int {
	node := d.root
	for name := range strings.SplitSeq(path, "/") {
		if node == nil || node.names == nil || node.keptNames[name] != node.names[name] {
			return 0
		}
		node = node.names[name]
	}
	if node == nil {
		return 0
	}
	n := len(node.kept)
	for _, c := range node.writes {
		n = min(n, c.at)
	}
	return n
}

// takes draws how long a sync of a file takes that is asked for now.
func (d *disk) takes(path string, now time.Duration) time.Duration {
	t := d.plan.Sync/2 + time.Duration(d.dice.Int64N(int64(d.plan.Sync)+1))
	if d.dice.oneIn(d.plan.SlowIn) {
		t += d.dice.upTo(d.plan.Slow)
	}
	if now < d.slowUntil && strings.HasPrefix(path, d.slow) {
		t = max(t, d.slowUntil-now)
	}
	return t
}

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
