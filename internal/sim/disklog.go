package sim

import (
	"fmt"
	"time"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
)

// shardID names a log: that of a shard of a declaration, over all views.
type shardID struct {
	decl, shard int
}

// dir is where it lies on every disk.
func (id shardID) dir() string { return fmt.Sprintf("%s%d", shardsDir(id.decl), id.shard) }

// shardsDir is how the paths of a declaration's logs begin.
func shardsDir(decl int) string { return fmt.Sprintf("logs/%c.", 'a'+decl) }

// diskLog is a process's log of a shard, with the journal and the book that real ones have, on a
// simulated engine. What package persist does with a goroutine, it does in turns: take all that was
// appended, write it, and after as long as the disk takes, sync it.
type diskLog struct {
	proc    *process
	id      shardID
	engine  *engine
	book    *journal.Book
	journal *journal.Journal
	begun   uint64 // records that it had then

	writer *routine
	idle   bool      // it waits until it is called
	groups []written // that were given to the engine and are not known to be on the platter
	safe   journal.End
	err    error // why the disk failed
}

// written is a group that was given to the engine: with entry, the log ends there.
type written struct {
	entry int // entries in the engine
	end   journal.End
}

// looksAfter is how long a writer takes to look after it was called.
const looksAfter = 3 * time.Microsecond

// openLog opens the log of a shard on the process's disk.
func (p *process) openLog(id shardID) (*diskLog, error) {
	l := &diskLog{proc: p, id: id, idle: true}
	l.writer = p.routine(func(time.Duration) (time.Duration, bool) { return never, p.over }, l.write)
	var err error
	if l.engine, err = openEngine(p.node.disk, id.dir()); err != nil {
		return nil, err
	}
	if l.book, _, err = journal.OpenBook(l.engine, id.dir()); err != nil {
		return nil, err
	}
	p.world.sometimes(TornTail, l.engine.tidy())
	if n := p.node.mustHave(id); l.book.End().Records < n {
		return nil, fmt.Errorf("it has %d records, and %d were on the platter", l.book.End().Records, n)
	}
	l.begin()
	return l, nil
}

// begin has the journal go on where the log on disk ends.
func (l *diskLog) begin() {
	l.safe = l.book.End()
	l.begun = l.safe.Records
	keep := l.proc.world.plan.Keep
	l.journal = journal.New(journal.Config{Memory: keep.Memory, Block: keep.Block, After: l.safe})
}

// Append implements member.Log.
func (l *diskLog) Append(r *journal.Record) bool {
	number := l.next()
	if !l.journal.Append(r) {
		l.proc.world.shard(l.id).full = true
		l.proc.world.probes[LogFull]++
		return false
	}
	l.call()
	l.proc.world.logged(l, r, number, false)
	if r.Sender == l.proc.self.ID {
		l.proc.world.judge("log", l.proc.ledgers[l.id.decl].record(l.proc.world, l.id, r.Version))
	}
	return true
}

// Import appends a record of another member's log, or reports that there is no room now.
func (l *diskLog) Import(r journal.Record) bool {
	number := l.next()
	if !l.journal.AppendAt(r) {
		return false
	}
	l.call()
	l.proc.world.logged(l, &r, number, true)
	return true
}

// Appended implements member.Log.
func (l *diskLog) Appended() uint64 { return l.journal.Appended() }

// Durable implements member.Log.
func (l *diskLog) Durable() (records uint64, last order.Version) { return l.journal.Durable() }

// SetGlobal implements member.Log.
func (l *diskLog) SetGlobal(last order.Version) {
	l.proc.world.stir()
	l.proc.world.judge("log", checkGlobal(l, last))
}

// call has the writer look.
func (l *diskLog) call() {
	if l.idle && l.err == nil {
		l.idle = false
		l.writer.begin(l.proc.world.now + looksAfter)
	}
}

// write is the writer: it takes what was appended, and syncs it.
func (l *diskLog) write(wait func(time.Duration)) {
	d := l.proc.node.disk
	for l.err == nil {
		group := l.journal.Next()
		if group == nil {
			l.idle = true
			wait(never)
			continue
		}
		err := l.engine.write(group)
		if err == nil {
			if d.lax == EarlyWritten {
				l.finish(nil)
			}
			wait(d.takes(l.engine.name, l.proc.world.now))
			err = l.engine.sync()
		}
		l.finish(err)
	}
}

// finish tells the journal what became of its group.
func (l *diskLog) finish(err error) {
	l.journal.Written(err)
	if err != nil {
		l.fail(err)
		return
	}
	end := l.journal.End()
	if err := l.book.Extend(end); err != nil {
		l.fail(err)
		return
	}
	l.groups = append(l.groups, written{len(l.engine.log.seen.data), end})
	l.proc.world.stir()
	l.proc.wake()
}

// fail ends the member: it must not go on as if it kept what it delivers.
func (l *diskLog) fail(err error) {
	p := l.proc
	l.err = fmt.Errorf("log of shard %d of %q: %w", l.id.shard, p.world.plan.Decls[l.id.decl].Name, err)
	if p.member != nil {
		p.member.Call(func() { p.member.Halt(l.err) })
	}
}

// platter returns where the log really ends on the platter.
func (l *diskLog) platter() journal.End {
	entries := l.engine.onPlatter()
	for len(l.groups) > 0 && l.groups[0].entry <= entries {
		l.safe, l.groups = l.groups[0].end, l.groups[1:]
	}
	return l.safe
}

// cutFrom drops the record of a number and all records after it. No write is in flight. If the
// power fails during the call, the platter may have the old log or the new one.
func (l *diskLog) cutFrom(number uint64) error {
	l.groups, l.safe.Records = nil, min(number, l.platter().Records)
	if err := l.book.CutFrom(number); err != nil {
		return err
	}
	l.begin()
	return nil
}

// next is the number of the record that is appended next.
func (l *diskLog) next() uint64 { return l.begun + l.journal.Appended() }

// drained reports whether all appended records are durable according to the journal.
func (l *diskLog) drained() bool {
	records, _ := l.journal.Durable()
	return records == l.journal.Appended()
}

func (l *diskLog) String() string {
	return fmt.Sprintf("node %d: the log of %q, shard %d,", l.proc.self.ID, l.proc.world.plan.Decls[l.id.decl].Name, l.id.shard)
}
