package dds

import (
	"runtime"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/remote"
	"github.com/squall-go/squall/dds/internal/space"
)

// feedBytes bounds a batch of what readers of a client are told, about. The goroutine that sends to the client may share its processor with the loop, which takes as much as a ring has when it
// is its turn: a smaller batch is a smaller part of that.
const feedBytes = 1 << 20

// pump sends to the client what there is for it.
func (a *attendance) pump() error {
	var (
		p     = a.r.p
		out   []byte
		batch remote.Batch
		view  space.ViewStart // the client was told last
		beat  = time.NewTicker(heartbeat)
		sent  = time.Now()
		shut  = false // the client was told last that its readers are apart
	)
	defer beat.Stop()
	for {
		p.mu.Lock()
		alive := time.Since(sent) >= heartbeat/2
		for {
			out = append(out[:0], a.out...)
			a.out = a.out[:0]
			var more bool
			apart := a.follower.Apart()
			batch.Fed, more = a.follower.Collect(batch.Fed[:0], feedBytes)
			switch {
			case a.follower.Apart():
				batch.Gate = remote.GateShut
			case apart || a.follower.Mixed():
				batch.Gate = remote.GateBehind
			default:
				batch.Gate = remote.GateOpen
			}
			out = a.acks(out)
			if len(batch.Fed) > 0 || len(out) > 0 || alive || shut && batch.Gate != remote.GateShut {
				break
			}
			err := a.ctx.Err()
			if more { // nothing so far was for the client
				p.mu.Unlock()
				runtime.Gosched()
				p.mu.Lock()
			} else {
				err = p.waitUntil(a.ctx, beat.C)
			}
			if err != nil {
				p.mu.Unlock()
				return err
			}
			alive = time.Since(sent) >= heartbeat/2
		}
		must := len(out) > 0 || alive || shut != (batch.Gate == remote.GateShut)
		batch.Position, batch.Reached, batch.Lineage = p.space.Position(), batch.Reached[:0], nil
		if all := p.space.Lineage(); len(all) > 0 && all[len(all)-1] != view {
			batch.Lineage, view, must = all, all[len(all)-1], true
		}
		for _, r := range a.follower.Readers() {
			if r.Open() && !r.Held {
				batch.Reached = append(batch.Reached, remote.Reached{Number: r.Number, Reached: r.At()})
			}
		}
		p.mu.Unlock()
		if batch.Fed = space.Pass(batch.Fed); len(batch.Fed) == 0 && !must {
			continue
		}
		sent, shut = time.Now(), batch.Gate == remote.GateShut
		out = remote.AppendBatch(out, &batch)
		clear(batch.Fed)
		if _, err := a.conn.Write(out); err != nil {
			return err
		}
	}
}

// heartbeat is how often a relay and a client tell each other that they are there.
const heartbeat = 250 * time.Millisecond

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
	return remote.Come{Ordered: p.space.Last(x.origin), Stored: x.stored, At: p.version}
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
		p.mu.Lock()
		for all = all[:0]; ; {
			for _, x := range a.writers {
				if last := p.space.Last(x.origin); last > x.stored {
					all = append(all, upTo{x, last})
				}
			}
			if len(all) > 0 {
				break
			}
			if err := p.wait(a.ctx); err != nil {
				p.mu.Unlock()
				return
			}
		}
		version := p.version
		p.mu.Unlock()
		if err := log.WaitPersisted(a.ctx, squall.OnEveryDisk, version); err != nil {
			a.end(err)
			return
		}
		p.mu.Lock()
		for _, u := range all {
			u.x.stored = u.last
		}
		p.wake()
		p.mu.Unlock()
	}
}
