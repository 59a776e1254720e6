package logs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// dump is one that is under way.
type dump struct {
	ctx   context.Context
	l     library
	log   *persist.Info
	until bound
	to    *outlet
	r     Dumped
}

// headLine is the first line of a dump.
type headLine struct {
	Kind     string         `json:"kind"` // log
	Log      string         `json:"log"`
	Name     string         `json:"name"`
	Shard    int            `json:"shard"`
	Snapshot *persist.Place `json:"snapshot,omitempty"` // the last record that it stands for
}

// pieceLine is a part of the snapshot.
type pieceLine struct {
	Kind string `json:"kind"` // snapshot
	Data []byte `json:"data"`
}

// recordLine is a record.
type recordLine struct {
	Kind string `json:"kind"` // record
	line
}

// endLine is the last line.
type endLine struct {
	Kind          string `json:"kind"` // end
	Records       uint64 `json:"records"`
	Bytes         int64  `json:"bytes"`
	SnapshotBytes int64  `json:"snapshot_bytes"`
}

// pieceBytes is how much of a snapshot is on a line. It is a multiple of three, so that base64
// needs no filling in between.
const pieceBytes = 48 << 10

func (d *dump) everything() error {
	from, err := d.snapshot()
	if err != nil {
		return err
	}
	for r, err := range d.l.Range(d.ctx, d.log.ID, from, order.Version{}) {
		if err != nil {
			return err
		}
		if !d.until.covers(&r) {
			break
		}
		if err := show.JSONLine(d.to.lines, recordLine{"record", lineOf(&r)}); err != nil {
			return err
		}
		d.r.Records, d.r.Bytes, d.r.Last = d.r.Records+1, d.r.Bytes+int64(len(r.Data)), r.Version.String()
	}
	return show.JSONLine(d.to.lines, endLine{"end", d.r.Records, d.r.Bytes, d.r.SnapshotBytes})
}

// snapshot takes out the snapshot, if there is one, and returns where records begin that it does
// not stand for.
func (d *dump) snapshot() (from order.Version, err error) {
	head := headLine{Kind: "log", Log: d.log.ID.String(), Name: d.log.ID.Name, Shard: d.log.ID.Shard}
	at, r, err := d.l.Snapshot(d.ctx, d.log.ID)
	if errors.Is(err, persist.ErrNotFound) {
		if err := d.begins(); err != nil {
			return from, err
		}
		return from, show.JSONLine(d.to.lines, head)
	}
	if err != nil {
		return from, err
	}
	defer r.Close()
	if !d.until.covers(&at) {
		return from, fmt.Errorf("log %v: what came before its snapshot of %v at %v is not kept one by one; ask for that or later", d.log.ID, at.Version, at.Time)
	}
	head.Snapshot, d.r.Snapshot, d.r.Last = persist.PlaceOf(&at), at.Version.String(), at.Version.String()
	if err := show.JSONLine(d.to.lines, head); err != nil {
		return from, err
	}
	from = order.Version{View: at.Version.View, Seq: at.Version.Seq + 1}
	if d.to.snapshot != "" {
		return from, d.file(r)
	}
	return from, d.pieces(r)
}

// begins refuses a state that cannot be rebuilt, because records were dropped without a snapshot.
func (d *dump) begins() error {
	if d.log.First.Number > 0 && !d.until.covers(&d.log.First) {
		return fmt.Errorf("log %v: its first record is %v at %v; ask for that or later", d.log.ID, d.log.First.Version, d.log.First.Time)
	}
	return nil
}

// file writes the snapshot as it is.
func (d *dump) file(r io.Reader) error {
	f, err := create(d.to.snapshot)
	if err != nil {
		return err
	}
	d.to.made = append(d.to.made, d.to.snapshot)
	d.r.SnapshotBytes, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}

// pieces writes it as lines.
func (d *dump) pieces(r io.Reader) error {
	piece := make([]byte, pieceBytes)
	for {
		n, err := io.ReadFull(r, piece)
		if n > 0 {
			d.r.SnapshotBytes += int64(n)
			if err := show.JSONLine(d.to.lines, pieceLine{"snapshot", piece[:n]}); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF: // as ReadFull says it; a source that broke off wraps its own
			return nil
		case err != nil:
			return err
		}
	}
}
