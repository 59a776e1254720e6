package member

import (
	"bufio"
	"io"
	"runtime"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/space"
)

// deliver applies records, and tells what happened. It takes none that a reader has no room for.
func (p *backend) deliver(batch []squall.Message) (taken int) {
	p.Elapsed()
	p.Mu.Lock()
	stays, largest, first := p.keeper.stays(), 0, p.Space.Position()+1
	// One record for all, filled field by field and not copied: a processor that copies a whole record
	// right after that waits until the fields are stored.
	var r space.Record
	for taken < len(batch) {
		m := &batch[taken]
		r.View, r.Sender, r.Data = uint64(m.View), uint64(m.Sender), m.Data
		r.Stays = stays && len(m.Data) <= p.keeper.largest && m.Body() == nil
		applied, err := p.Space.TryApply(&r)
		if !applied {
			if !p.Closing {
				p.Stalled = true
				break
			}
			err = p.Space.Apply(r)
		}
		taken++
		largest = max(largest, len(m.Data))
		if space.IsSample(m.Data) {
			continue
		}
		p.changes++
		if call := space.Call(m.Data); call != 0 && r.Sender == p.Self.Node && p.Self.Node != 0 && !m.Replayed() {
			if result := p.calls[call]; result != nil {
				result <- err
			}
		}
	}
	if taken > 0 {
		p.version = batch[taken-1].Version()
	}
	p.Space.Settle()
	switch {
	case !stays || taken == 0:
	case largest > p.keeper.largest: // such messages need room in one piece
		p.keeper.letGo()
	default:
		p.keeper.delivered(run{batch[0].Seq, first, p.Space.Position()})
	}
	p.Wake()
	p.TellAll()
	serves := len(p.clients) > 0
	p.Mu.Unlock()
	if serves { // the goroutines that send to clients may share the only processor with the loop, which goes on while there is something to deliver
		runtime.Gosched()
	}
	return taken
}

// pass gives samples without an order to the readers of this process.
func (p *backend) pass(batch []squall.Message) {
	p.Elapsed()
	p.Mu.Lock()
	for i := range batch {
		p.Space.Pass(space.Record{Sender: uint64(batch[i].Sender), Data: batch[i].Data})
	}
	p.Wake()
	p.TellAll()
	p.Mu.Unlock()
}

// Roomy has the loop offer again what a reader had no space for. There are readers only once there
// is a subgroup.
func (p *backend) Roomy() {
	if p.sub != nil {
		p.sub.Resume()
	}
}

func (p *backend) snapshot() func(io.Writer) error {
	p.Mu.Lock()
	write := p.Space.Snapshot()
	p.Mu.Unlock()
	return func(w io.Writer) error { return write(yielding{w}) }
}

// yielding is a writer of a long state, which is written beside everything else that this process
// does: others have the processor first.
type yielding struct{ w io.Writer }

func (y yielding) Write(b []byte) (int, error) {
	runtime.Gosched()
	return y.w.Write(b)
}

func (p *backend) restore(r io.Reader) error {
	in, state := bufio.NewReader(r), &space.Space{}
	if _, err := in.Peek(1); err == nil {
		if state, err = space.ReadState(in); err != nil {
			return err
		}
	} else if err != io.EOF { // the space begins
		return err
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Space.Replace(state)
	return nil
}
