package member

import (
	"context"
	"fmt"
	"runtime"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/internal/space"
)

// Progress is how far the order has come at this process.
type Progress struct {
	Position uint64         // records that were applied
	Version  squall.Version // of the last one, in the log of a space that is Persistent
	Changes  uint64         // of topics, writers and readers of the space
}

// Carried waits until this process is beyond a position, and calls see. Its argument returns the
// number of the last sample of an origin that is in the order, and the position at which the origin
// ended last (CloseOrigin): all earlier samples are in the order, and the number counts only later
// ones. Both are 0 if there is none. The argument must not be kept.
func (m *Member) Carried(ctx context.Context, after uint64, see func(of func(dds.Origin) (last, ended uint64))) (Progress, error) {
	p := m.b
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for p.Space.Position() <= after {
		if err := p.Wait(ctx); err != nil {
			return Progress{}, err
		}
	}
	see(func(o dds.Origin) (last, ended uint64) { return p.Space.Ordered(space.Origin(o)) })
	return Progress{p.Space.Position(), p.version, p.changes}, nil
}

// carrier is a writer that the relay has for one of a client: as dds.Writer.Carry, for samples that
// are encoded.
type carrier struct {
	p     *backend
	id    space.ID
	topic space.TopicInfo
}

// write writes a sample. It has the number of its origin in the order, also if its policies need
// none.
func (c *carrier) write(ctx context.Context, s *space.Sample, v dds.Encoded) error {
	p, t := c.p, c.p.SampleTime()
	s.Writer, s.Key = c.id, v.Key
	if !c.topic.Keyed {
		if s.Key = nil; s.Operation == space.Dispose {
			return fmt.Errorf("dds: topic %q has no keys: nothing can be disposed of", c.topic.Name)
		}
	}
	if s.Operation != space.Write {
		v.Data = nil
	}
	claim, err := p.sub.TryClaim(space.SampleBytes(s) + len(v.Data))
	if err != nil {
		if !waits(err) {
			return err
		}
		return p.send(ctx, p.sub, append(space.AppendSample(nil, t, s), v.Data...))
	}
	_ = append(space.AppendSample(claim.Bytes[:0], t, s), v.Data...)
	if p.keeper.pace(len(claim.Bytes)) {
		defer runtime.Gosched()
	}
	return claim.Commit()
}
