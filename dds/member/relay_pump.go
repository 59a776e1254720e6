package member

import (
	"runtime"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/core"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
)

// feedBytes bounds a batch of what readers of a client are told, about. The goroutine that sends to
// the client may share its processor with the loop, which takes as much as a ring has when it is
// its turn: a smaller batch is a smaller part of that.
const feedBytes = 1 << 20

// pump is what sends to the client.
type pump struct {
	*attendance
	out   []byte
	batch remote.Batch
	view  space.ViewStart // the client was told last
	beat  *time.Ticker
	sent  time.Time
	shut  bool // the client was told last that its readers are apart
}

// pump sends to the client what there is for it.
func (a *attendance) pump() error {
	u := pump{attendance: a, beat: time.NewTicker(core.Heartbeat), sent: time.Now()}
	defer u.beat.Stop()
	for {
		must, err := u.next()
		if err != nil {
			return err
		}
		if u.batch.Fed = space.Pass(u.batch.Fed); len(u.batch.Fed) == 0 && !must {
			continue
		}
		u.sent, u.shut = time.Now(), u.batch.Gate == remote.GateShut
		u.out = remote.AppendBatch(u.out, &u.batch)
		clear(u.batch.Fed)
		if _, err := a.conn.Write(u.out); err != nil {
			return err
		}
	}
}

// next waits until there is something for the client: answers, events and acknowledgements in out,
// and the batch. It reports whether the batch is to be sent also if the filters of the readers
// leave nothing of it.
func (u *pump) next() (must bool, err error) {
	p, batch := u.r.p, &u.batch
	p.Mu.Lock()
	defer p.Mu.Unlock()
	alive := time.Since(u.sent) >= core.Heartbeat/2
	for {
		more := u.collect()
		if len(batch.Fed) > 0 || len(u.out) > 0 || alive || u.shut && batch.Gate != remote.GateShut {
			break
		}
		err := u.ctx.Err()
		if more { // nothing so far was for the client
			p.Mu.Unlock()
			runtime.Gosched()
			p.Mu.Lock()
		} else {
			err = p.WaitUntil(u.ctx, u.beat.C)
		}
		if err != nil {
			return false, err
		}
		alive = time.Since(u.sent) >= core.Heartbeat/2
	}
	must = len(u.out) > 0 || alive || u.shut != (batch.Gate == remote.GateShut)
	batch.Position, batch.Reached, batch.Lineage = p.Space.Position(), batch.Reached[:0], nil
	if all := p.Space.Lineage(); len(all) > 0 && all[len(all)-1] != u.view {
		batch.Lineage, u.view, must = all, all[len(all)-1], true
	}
	for _, r := range u.follower.Readers() {
		if r.Open() && !r.Held {
			batch.Reached = append(batch.Reached, remote.Reached{Number: r.Number, Reached: r.At()})
		}
	}
	return must, nil
}

// collect takes what there is for the client now. It reports whether there is more. The lock is
// held.
func (u *pump) collect() (more bool) {
	u.out = append(u.out[:0], u.attendance.out...)
	u.attendance.out = u.attendance.out[:0]
	apart := u.follower.Apart()
	u.batch.Fed, more = u.follower.Collect(u.batch.Fed[:0], feedBytes)
	switch {
	case u.follower.Apart():
		u.batch.Gate = remote.GateShut
	case apart || u.follower.Mixed():
		u.batch.Gate = remote.GateBehind
	default:
		u.batch.Gate = remote.GateOpen
	}
	u.out = u.acks(u.out)
	return more
}

// acks appends how far samples of the client have come since it was told last. The lock is held.
func (a *attendance) acks(out []byte) []byte {
	for _, x := range a.writers {
		if c := x.come(); c.Ordered > x.acked.Ordered || c.Stored > x.acked.Stored {
			x.acked = c
			out = remote.AppendAck(out, x.number, c)
		}
	}
	return out
}

// come returns how far the samples of a writer have come. The lock is held.
func (x *attended) come() remote.Come {
	p := x.of.r.p
	return remote.Come{Ordered: p.Space.Last(x.origin), Stored: x.stored, At: p.version}
}

// watchDisks notes which samples of the client's writers are on all disks.
func (a *attendance) watchDisks() {
	p := a.r.p
	log, err := p.sub.Log()
	if err != nil {
		a.end(err)
		return
	}
	type upTo struct {
		x    *attended
		last uint64
	}
	var all []upTo
	for {
		p.Mu.Lock()
		for all = all[:0]; ; {
			for _, x := range a.writers {
				if last := p.Space.Last(x.origin); last > x.stored {
					all = append(all, upTo{x, last})
				}
			}
			if len(all) > 0 {
				break
			}
			if err := p.Wait(a.ctx); err != nil {
				p.Mu.Unlock()
				return
			}
		}
		version := p.version
		p.Mu.Unlock()
		if err := log.WaitPersisted(a.ctx, squall.OnEveryDisk, version); err != nil {
			a.end(err)
			return
		}
		p.Mu.Lock()
		for _, u := range all {
			u.x.stored = u.last
		}
		p.Wake()
		p.Mu.Unlock()
	}
}
