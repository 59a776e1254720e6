package logwire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// In a frame, a record is six unsigned varints and its data:
//
//	views since the record before it; seqs since then, or from 0 in another view; nanoseconds since then; numbers since then;
//	sender; length of the data
//
// The first record of a frame counts from zero, so that a frame can be read without another one.
// Data that does not fit into the frame goes on in frames of kind more.
const maxHeadBytes = 6 * binary.MaxVarintLen64

// encoder packs records into frames.
type encoder struct {
	out    *wire.Conn
	frame  []byte
	before persist.Record // in this frame
	count  uint64
}

func newEncoder(out *wire.Conn) *encoder { return &encoder{out: out, frame: wire.NewFrame(frameBytes)} }

// add packs a record, and sends what is full.
func (e *encoder) add(r *persist.Record) error {
	if room := cap(e.frame) - len(e.frame); room < maxHeadBytes || room < maxHeadBytes+len(r.Data) && len(r.Data) < frameBytes {
		if err := e.flush(); err != nil {
			return err
		}
	}
	e.head(r)
	e.before, e.count = persist.Record{Version: r.Version, Time: r.Time, Number: r.Number}, e.count+1
	n := min(cap(e.frame)-len(e.frame), len(r.Data))
	e.frame = append(e.frame, r.Data[:n]...)
	if n < len(r.Data) {
		return e.more(r.Data[n:])
	}
	return nil
}

func (e *encoder) head(r *persist.Record) {
	b := &e.before
	seqs := uint64(r.Version.Seq)
	if r.Version.View == b.Version.View {
		seqs -= uint64(b.Version.Seq)
	}
	for _, v := range [...]uint64{
		uint64(r.Version.View - b.Version.View), seqs, uint64(r.Time - b.Time), r.Number - b.Number, uint64(r.Sender), uint64(len(r.Data)),
	} {
		e.frame = binary.AppendUvarint(e.frame, v)
	}
}

// more sends the rest of a record that is larger than a frame.
func (e *encoder) more(data []byte) error {
	if err := e.flush(); err != nil {
		return err
	}
	for len(data) > 0 {
		n := min(len(data), frameBytes)
		e.frame = append(e.frame, data[:n]...)
		if err := e.send(kindMore); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// flush sends what is gathered.
func (e *encoder) flush() error {
	if len(e.frame) == wire.HeaderBytes {
		return nil
	}
	return e.send(kindRecords)
}

func (e *encoder) send(k wire.Kind) error {
	err := e.out.Send(k, e.frame)
	e.frame, e.before = e.frame[:wire.HeaderBytes], persist.Record{}
	return err
}

// decoder unpacks one frame after the other, and judges what is in them.
type decoder struct {
	bounds bounds
	max    int // bytes of a record
	count  uint64

	frame  []byte         // what is left of it
	before persist.Record // in this frame
	last   persist.Record // of all
	part   persist.Record // whose data goes on in the next frames
	lacks  int            // bytes of it that are still to come
}

// bounds limits the records that may come.
type bounds struct {
	from, to     order.Version // half-open; zero to: no bound
	since, until order.Time    // the same
	begun        bool          // some came already
}

func (a *bounds) covers(r *persist.Record) bool {
	return !r.Version.Before(a.from) && (a.to == order.Version{} || r.Version.Before(a.to)) &&
		r.Time >= a.since && (a.until == 0 || r.Time < a.until)
}

// put takes a frame, of which everything must have been taken before.
func (d *decoder) put(k wire.Kind, frame []byte) error {
	switch {
	case k == kindRecords && d.lacks == 0:
		d.frame, d.before = frame, persist.Record{}
		return nil
	case k == kindMore && 0 < len(frame) && len(frame) <= d.lacks:
		d.part.Data = append(d.part.Data, frame...) // grows as bytes arrive, whatever was announced (LW2)
		d.lacks -= len(frame)
		return nil
	}
	return fmt.Errorf("%w: a frame of kind %d with %d bytes, while %d bytes of a record are missing", ErrCorrupt, k, len(frame), d.lacks)
}

// take is the next record, if there is a whole one.
func (d *decoder) take() (r persist.Record, ok bool, err error) {
	switch {
	case d.lacks > 0:
		return r, false, nil
	case d.part.Data != nil:
		r, d.part = d.part, persist.Record{}
		return r, true, nil
	case len(d.frame) == 0:
		return r, false, nil
	}
	length, err := d.head(&r)
	if err != nil {
		return r, false, err
	}
	if err := d.judge(&r, length); err != nil {
		return r, false, err
	}
	d.before, d.last, d.count = r, r, d.count+1
	n := min(uint64(len(d.frame)), length)
	r.Data, d.frame = d.frame[:n:n], d.frame[n:]
	if d.lacks = int(length - n); d.lacks > 0 {
		d.part = r
		return r, false, nil
	}
	return r, true, nil
}

// head reads what stands in front of a record's data.
func (d *decoder) head(r *persist.Record) (length uint64, err error) {
	var v [6]uint64
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(d.frame); n <= 0 {
			return 0, fmt.Errorf("%w: record %d is cut off", ErrCorrupt, d.count)
		}
		d.frame = d.frame[n:]
	}
	b := &d.before
	r.Version = order.Version{View: b.Version.View + order.ViewID(v[0]), Seq: order.Seq(v[1])}
	if v[0] == 0 {
		r.Version.Seq += b.Version.Seq
	}
	r.Time, r.Number, r.Sender = b.Time+order.Time(v[2]), b.Number+v[3], order.NodeID(v[4])
	return v[5], nil
}

// judge holds a record against the one before it and against what was asked for (LW1).
func (d *decoder) judge(r *persist.Record, length uint64) error {
	l := &d.last
	switch {
	case d.count > 0 && (!l.Version.Before(r.Version) || r.Time <= l.Time || r.Number <= l.Number):
		return fmt.Errorf("%w: record %d, %v at %v, after record %d, %v at %v", ErrOutOfOrder, r.Number, r.Version, r.Time, l.Number, l.Version, l.Time)
	case r.Version.View == 0 || r.Time > math.MaxInt64:
		return fmt.Errorf("%w: record %d: version %v at %d ns", ErrCorrupt, r.Number, r.Version, uint64(r.Time))
	case !d.bounds.covers(r):
		return fmt.Errorf("%w: record %d, %v at %v", ErrNotAsked, r.Number, r.Version, r.Time)
	case length > uint64(d.max):
		return fmt.Errorf("%w: record %d, %v, has %d bytes, at most %d", ErrTooLarge, r.Number, r.Version, length, d.max)
	}
	return nil
}

// whole reports whether nothing is missing of what came.
func (d *decoder) whole() bool { return d.lacks == 0 && d.part.Data == nil && len(d.frame) == 0 }
