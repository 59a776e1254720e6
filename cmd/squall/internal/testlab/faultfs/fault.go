package faultfs

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// Faults are what goes wrong on a disk from now on. The zero value is a good disk.
type Faults struct {
	Write Fault             // of changes of files
	Sync  Fault             // of files and directories
	Lies  func(Synced) bool // syncs that return without doing anything; nil: none
	Delay time.Duration     // of a sync, at most; it is drawn
	CutAt int               // the power goes before this step (see Steps); 0: it stays
	Where func(string) bool // paths at which Write and Sync happen; nil: all
	Fate  Fate              // of the writes that a failing sync covers
}

// Fault is an error that operations return instead of doing what they should.
type Fault struct {
	Err    syscall.Errno // 0: there is none
	At     int           // which one of the operations fails, from 1; 0: see Chance
	Chance float64       // that an operation fails
}

// strikes counts an operation, and reports whether it fails.
func (f *Fault) strikes(dice *rand.Rand) bool {
	if f.Err == 0 {
		return false
	}
	if f.At > 0 {
		f.At--
		return f.At == 0
	}
	return f.Chance > 0 && dice.Float64() < f.Chance
}

// Kind is a way to sync.
type Kind int

// Kinds of syncs.
const (
	File    Kind = iota // fsync
	Data                // fdatasync
	Names               // fsync of a directory
	Through             // a write with O_DSYNC, or RWF_DSYNC
)

func (k Kind) String() string {
	return [...]string{"fsync", "fdatasync", "fsync of directory", "synced write"}[k]
}

// Synced names a sync: the path of the file or directory on the disk, and the kind.
type Synced struct {
	Path string
	Kind Kind
}

// Power is the supply of one disk or more. It fails once.
type Power struct {
	off  chan struct{}
	once sync.Once
}

// NewPower returns power that is there.
func NewPower() *Power { return &Power{off: make(chan struct{})} }

// Cut ends the power: every operation that has not ended by then fails, on all of its disks.
func (p *Power) Cut() { p.once.Do(func() { close(p.off) }) }

// Gone is closed when the power is gone.
func (p *Power) Gone() <-chan struct{} { return p.off }

func (p *Power) isGone() bool {
	select {
	case <-p.off:
		return true
	default:
		return false
	}
}
