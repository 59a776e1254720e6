package testlab

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist"
)

// Audit reads the logs that processes left behind, record by record, next to each other. It knows
// nothing of how they came about: only what the processes were told is on every disk.
type Audit struct {
	Disks        []Disk
	Log          persist.LogID
	Acknowledged []Acknowledged // by version
	Same         bool           // all logs have to be the same, to the end. Otherwise some may lack an end, or have one of their own
}

// Disk is the directory of a node.
type Disk struct {
	Node squall.NodeID
	Dir  string
}

// Acknowledged is a message that must not be lost.
type Acknowledged struct {
	Version squall.Version
	Life    int // of the process that sent it
	Number  uint64
	On      []squall.NodeID // the nodes whose disks must have the message
}

// Findings are what an audit looked at.
type Findings struct {
	Records      uint64 // of the log that came furthest
	Acknowledged int
	Behind       uint64 // records that some other log lacks
	Own          uint64 // records at the ends of logs that the longest log does not have
}

func (f *Findings) add(g Findings) {
	f.Records += g.Records
	f.Acknowledged += g.Acknowledged
	f.Behind += g.Behind
	f.Own += g.Own
}

func (f Findings) String() string {
	return fmt.Sprintf("%d records, %d of them acknowledged; others lack %d, and have %d of their own", f.Records, f.Acknowledged, f.Behind, f.Own)
}

// Run opens the directories, of which no process must run, and compares.
func (a *Audit) Run() (Findings, error) {
	var shelves []*shelf
	for _, d := range a.Disks {
		report, err := persist.Verify(context.Background(), d.Dir, nil, nil)
		if err != nil {
			return Findings{}, err
		}
		if !report.OK() {
			return Findings{}, fmt.Errorf("node %d: %s is damaged: %+v", d.Node, d.Dir, report)
		}
		s, err := open(d, a.Log)
		if err != nil {
			return Findings{}, fmt.Errorf("node %d: %w", d.Node, err)
		}
		defer s.close()
		shelves = append(shelves, s)
	}
	return a.compare(shelves)
}

// shelf is the log of one node.
type shelf struct {
	node  squall.NodeID
	end   squall.Version // of the last record
	next  func() (persist.Record, error, bool)
	close func()

	at    persist.Record // the next one
	more  bool           // there is one
	last  persist.Record // that came before
	read  uint64         // records
	apart bool           // it has records that the log that came furthest lacks
}

// open opens a node's log to be read.
func open(d Disk, id persist.LogID) (*shelf, error) {
	store, err := persist.Open(context.Background(), persist.Config{Dir: d.Dir, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	log, err := store.Log(context.Background(), persist.LogConfig{ID: id})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s := newShelf(d.Node, log.Info().Last.Version, log.Range(squall.Version{}, squall.Version{}))
	stop := s.close
	s.close = func() { stop(); store.Close() }
	return s, nil
}

func newShelf(node squall.NodeID, end squall.Version, records iter.Seq2[persist.Record, error]) *shelf {
	s := &shelf{node: node, end: end}
	s.next, s.close = iter.Pull2(records)
	return s
}

// advance takes the next record. Versions, times and numbers grow within a log.
func (s *shelf) advance() error {
	s.last = s.at
	r, err, more := s.next()
	if err != nil {
		return fmt.Errorf("node %d, after record %d: %w", s.node, s.read, err)
	}
	if s.at, s.more = r, more; !more {
		return nil
	}
	if s.read++; s.read == 1 {
		return nil
	}
	switch {
	case !s.last.Version.Before(r.Version):
		return fmt.Errorf("node %d: version %v comes after %v", s.node, r.Version, s.last.Version)
	case s.last.Time >= r.Time:
		return fmt.Errorf("node %d: the time of %v is %v, and %v before it: %v", s.node, r.Version, r.Time, s.last.Version, s.last.Time)
	case s.last.Number+1 != r.Number:
		return fmt.Errorf("node %d: version %v is record %d after record %d", s.node, r.Version, r.Number, s.last.Number)
	}
	return nil
}

// compare goes through all logs at once, led by the longest one.
func (a *Audit) compare(shelves []*shelf) (f Findings, err error) {
	if err := advance(shelves); err != nil || len(shelves) == 0 {
		return f, err
	}
	lead := slices.MaxFunc(shelves, func(s, t *shelf) int { return s.end.Compare(t.end) })
	open := slices.Clone(a.Acknowledged)
	for ; lead.more; f.Records++ {
		with := together(lead, shelves)
		f.Behind += uint64(len(shelves) - len(with))
		for len(open) > 0 && !lead.at.Version.Before(open[0].Version) {
			if err := open[0].check(lead.at, with); err != nil {
				return f, err
			}
			f.Acknowledged++
			open = open[1:]
		}
		if err := advance(with); err != nil {
			return f, err
		}
	}
	if len(open) > 0 {
		return f, fmt.Errorf("lost: %v, message %d of process %d, and %d more that were acknowledged; node %d, which came furthest, ends with %v",
			open[0].Version, open[0].Number, open[0].Life, len(open)-1, lead.node, lead.end)
	}
	return f, a.tails(&f, shelves)
}

func advance(shelves []*shelf) error {
	for _, s := range shelves {
		if err := s.advance(); err != nil {
			return err
		}
	}
	return nil
}

// together returns the logs that have the record of the leading log, and everything before it.
func together(lead *shelf, shelves []*shelf) (with []*shelf) {
	for _, s := range shelves {
		if s.more && !s.apart {
			s.apart = !same(s.at, lead.at)
		}
		if s.more && !s.apart {
			with = append(with, s)
		}
	}
	return with
}

func same(a, b persist.Record) bool {
	return a.Version == b.Version && a.Time == b.Time && a.Sender == b.Sender && a.Number == b.Number && string(a.Data) == string(b.Data)
}

// check verifies that a record is the acknowledged one, and that it is on the disks where it has to
// be.
func (k *Acknowledged) check(r persist.Record, with []*shelf) error {
	if r.Version != k.Version {
		return fmt.Errorf("lost: %v, message %d of process %d, which was acknowledged: %v stands there", k.Version, k.Number, k.Life, r.Version)
	}
	d, err := pattern.read(squall.Message{Data: r.Data, Sender: r.Sender, View: r.Version.View, Seq: r.Version.Seq})
	if err != nil {
		return err
	}
	if d.life != k.Life || d.number != k.Number {
		return fmt.Errorf("%v was acknowledged as message %d of process %d, and is message %d of process %d", k.Version, k.Number, k.Life, d.number, d.life)
	}
	for _, id := range k.On {
		if !slices.ContainsFunc(with, func(s *shelf) bool { return s.node == id }) {
			return fmt.Errorf("lost: %v, message %d of process %d, was acknowledged by nodes %v, and node %d does not have it", k.Version, k.Number, k.Life, k.On, id)
		}
	}
	return nil
}

// tails reads what the logs have besides.
func (a *Audit) tails(f *Findings, shelves []*shelf) error {
	for _, s := range shelves {
		for s.more { // the one that leads has no more
			f.Own++
			if err := s.advance(); err != nil {
				return err
			}
		}
	}
	if a.Same && f.Behind+f.Own > 0 {
		return fmt.Errorf("the logs differ: %v", *f)
	}
	return nil
}
