package persist

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// A snapshot stands for all records up to one, that one included. It is a file next to the log:
//
//	head     magic 8 │ format 4 │ reserved 4 │ number 8 │ view 8 │ seq 8 │ time 8 │ sender 8 │ block 8 │ sum 4 │ reserved 4
//	content  as it was written
//	tail     bytes of content 8 │ sum of content 4 │ magic 4
//
// The bytes are durable before the name leads to them, and the name before a record is dropped. So
// at any time there is the old snapshot with the records after it, or the new snapshot with the
// records after it; blocks that a crash left undropped are dropped when the log is opened.
const (
	snapshotFile      = "snapshot"
	snapshotHeadBytes = 8 + 4 + 4 + 6*8 + 8
	snapshotTailBytes = 16
	snapshotMagic     = "SQLSNAP\n"
	snapshotTailMagic = "PANS"
)

// snapshotHead is the head of a snapshot's file.
type snapshotHead struct {
	at    journal.Record // the last record that it stands for, without data
	block uint64         // of a snapshot that replaced the log: no block up to this one is part of it. 0: it replaced none
}

// end is where a log ends that begins after the snapshot.
func (h *snapshotHead) end() journal.End {
	return journal.End{Block: h.block, Records: h.at.Number + 1, Version: h.at.Version, Time: h.at.Time}
}

func (h *snapshotHead) encode() []byte {
	b := append(make([]byte, 0, snapshotHeadBytes), snapshotMagic...)
	b = binary.LittleEndian.AppendUint32(b, Format)
	b = binary.LittleEndian.AppendUint32(b, 0)
	r := &h.at
	for _, v := range []uint64{r.Number, uint64(r.Version.View), uint64(r.Version.Seq), uint64(r.Time), uint64(r.Sender), h.block} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, crc.Of(b))
	return binary.LittleEndian.AppendUint32(b, 0)
}

// decode reads a head. The format comes before the checksum, which a later one may have elsewhere.
func (h *snapshotHead) decode(b []byte, path string) error {
	if string(b[:8]) != snapshotMagic {
		return engine.Damaged(path, "it does not begin as a snapshot does")
	}
	if f := binary.LittleEndian.Uint32(b[8:]); f > Format {
		return fmt.Errorf("%s: %w: it is format %d, and this program knows %d; use the program that wrote it, or a later one",
			path, ErrNewerFormat, f, Format)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[16+8*i:]) }
	sum := b[snapshotHeadBytes-8:]
	if crc.Of(b[:snapshotHeadBytes-8]) != binary.LittleEndian.Uint32(sum) || binary.LittleEndian.Uint32(sum[4:]) != 0 {
		return engine.Damaged(path, "its head has a wrong checksum")
	}
	h.at = journal.Record{
		Number: word(0), Version: order.Version{View: order.ViewID(word(1)), Seq: order.Seq(word(2))},
		Time: order.Time(word(3)), Sender: order.NodeID(word(4)),
	}
	h.block = word(5)
	return nil
}

// summed counts and sums what goes through it.
type summed struct {
	to    io.Writer
	sum   hash.Hash32
	bytes uint64
}

func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.sum.Write(b[:n])
	s.bytes += uint64(n)
	return n, err
}

// writeSnapshot replaces the snapshot in a log's directory.
func writeSnapshot(d disk, dir string, h snapshotHead, write func(io.Writer) error) error {
	return writeAtomic(d, filepath.Join(dir, engine.SnapshotFile), func(w io.Writer) error {
		if _, err := w.Write(h.encode()); err != nil {
			return err
		}
		s := &summed{to: w, sum: crc.New()}
		if err := write(s); err != nil {
			return err
		}
		tail := binary.LittleEndian.AppendUint64(nil, s.bytes)
		tail = binary.LittleEndian.AppendUint32(tail, s.sum.Sum32())
		_, err := w.Write(append(tail, snapshotTailMagic...))
		return err
	})
}

// readSnapshotHead returns fs.ErrNotExist if there is no snapshot.
func readSnapshotHead(dir string) (snapshotHead, error) {
	s, err := openSnapshot(dir)
	if err != nil {
		return snapshotHead{}, err
	}
	return s.head, s.Close()
}

// readWhole reads a snapshot to its end, if there is one.
func readWhole(ctx context.Context, dir string) (*snapshotHead, error) {
	s, err := openSnapshot(dir)
	if engine.Missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(untilDone{ctx, io.Discard}, s)
	return &s.head, errors.Join(err, s.Close())
}

// untilDone writes until a context ends.
type untilDone struct {
	ctx context.Context
	to  io.Writer
}

func (w untilDone) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}

// snapshot is one that is read. Its content is compared with the checksum at its end, where an
// error stands instead of io.EOF if it is another one.
type snapshot struct {
	path    string
	file    *os.File
	head    snapshotHead
	content io.Reader
	sum     hash.Hash32
	want    uint32
	notice  func(error) error // optional: is told of damage, and names it
}

func openSnapshot(dir string) (*snapshot, error) {
	path := filepath.Join(dir, engine.SnapshotFile)
	f, err := os.Open(path)
	if err != nil {
		return nil, engine.Named(err, path)
	}
	s := &snapshot{path: path, file: f, sum: crc.New()}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// begin reads what stands before the content, and after it.
func (s *snapshot) begin() error {
	info, err := s.file.Stat()
	if err != nil {
		return engine.Named(err, s.path)
	}
	content := info.Size() - snapshotHeadBytes - snapshotTailBytes
	if content < 0 {
		return engine.Damaged(s.path, "it has %d bytes", info.Size())
	}
	b := make([]byte, snapshotHeadBytes+snapshotTailBytes)
	tail := b[snapshotHeadBytes:]
	if _, err := s.file.ReadAt(b[:snapshotHeadBytes], 0); err != nil {
		return engine.Named(err, s.path)
	}
	if err := s.head.decode(b, s.path); err != nil {
		return err
	}
	if _, err := s.file.ReadAt(tail, snapshotHeadBytes+content); err != nil {
		return engine.Named(err, s.path)
	}
	if string(tail[12:]) != snapshotTailMagic {
		return engine.Damaged(s.path, "it does not end as a snapshot does")
	}
	if n := binary.LittleEndian.Uint64(tail); n != uint64(content) {
		return engine.Damaged(s.path, "it has %d bytes of content, and its end says %d", content, n)
	}
	s.want = binary.LittleEndian.Uint32(tail[8:])
	s.content = io.NewSectionReader(s.file, snapshotHeadBytes, content)
	return nil
}

func (s *snapshot) Read(b []byte) (int, error) {
	n, err := s.content.Read(b)
	s.sum.Write(b[:n])
	switch {
	case err == io.EOF && s.sum.Sum32() == s.want:
		return n, err
	case err == io.EOF:
		err = engine.Damaged(s.path, "its content has a wrong checksum")
	case err != nil:
		err = engine.Named(err, s.path)
	}
	if err != nil && s.notice != nil {
		err = s.notice(err)
	}
	return n, err
}

func (s *snapshot) Close() error { return s.file.Close() }

// settleSnapshot lets a log that is opened begin after its snapshot, if there is one. It ends what
// a crash may have interrupted: a log that the snapshot replaced is dropped, and so are blocks with
// nothing but records that it stands for.
func settleSnapshot(b *journal.Book, dir string) error {
	h, err := readSnapshotHead(dir)
	if engine.Missing(err) {
		return nil
	}
	if err == nil && h.block > b.End().Block {
		err = b.Restart(h.end())
	}
	if err == nil {
		err = b.BeginBehind(h.at)
	}
	return engine.Named(err, dir)
}
