package copy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/squall-go/squall/internal/mapped"
	"github.com/squall-go/squall/rdmc"
)

var (
	errPiece  = errors.New("the pusher sends something else than it announced")
	errDigest = errors.New("what arrived is not what was sent")
)

// intake is what a receiver does with the messages of a push: it gives each of them its memory,
// hashes what arrived, and writes what is not in its file already.
//
// Large files are received straight into the stage; bundles into memory, of which there is never
// more than a few pieces, because the pusher waits for the count that told is given.
type intake struct {
	stage  *stage
	pieces []piece
	told   func(pieces int) // of every piece that is done with

	queue  chan []byte   // what arrived, in order
	ended  chan struct{} // closed when the last of it is done with, or it failed
	broken chan error    // gets why it failed
	all    []byte        // the digests as the pusher says them; then ended is closed
	err    error         // the same

	mu      sync.Mutex
	coming  int // pieces that were announced
	done    int
	mapping map[int]*mapped.File // by entry

	sums []digest  // by entry; the worker's own, as all below
	hash hash.Hash // of the large file that is arriving
}

func newIntake(s *stage, pieces []piece, told func(int)) *intake {
	in := &intake{
		stage: s, pieces: pieces, told: told, queue: make(chan []byte, ahead+1), ended: make(chan struct{}), broken: make(chan error, 1), mapping: map[int]*mapped.File{},
		sums: make([]digest, len(s.entries)), hash: sha256.New(),
	}
	for i := range in.sums {
		in.sums[i] = sha256.Sum256(nil)
	}
	return in
}

// incoming is where a message goes.
func (in *intake) incoming(m rdmc.Incoming) ([]byte, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if m.Index != uint64(in.coming) || in.coming >= len(in.pieces) || m.Size != in.pieces[in.coming].bytes {
		return nil, fmt.Errorf("%w: message %d of %d bytes", errPiece, m.Index, m.Size)
	}
	if in.coming-in.done > ahead {
		return nil, fmt.Errorf("%w: %d pieces ahead", errPiece, in.coming-in.done)
	}
	p := &in.pieces[in.coming]
	in.coming++
	if !p.large(in.stage.entries) {
		return make([]byte, p.bytes), nil
	}
	at := p.parts[0]
	f := in.mapping[at.entry]
	if f == nil {
		var err error
		if f, err = in.stage.open(at.entry); err != nil {
			return nil, err
		}
		in.mapping[at.entry] = f
	}
	if int64(len(f.Bytes())) < at.offset+at.bytes {
		return nil, fmt.Errorf("%w: %s", mapped.ErrResized, in.stage.entries[at.entry].Path)
	}
	return f.Bytes()[at.offset:][:at.bytes:at.bytes], nil
}

// completed takes a message that is here. There is always room: incoming admits no more.
func (in *intake) completed(m rdmc.Message) { in.queue <- m.Data }

// work does with all pieces what has to be done, until none is left or no more will come.
func (in *intake) work() {
	defer close(in.ended)
	for i := range in.pieces {
		data, ok := <-in.queue
		if !ok {
			in.err = errGone
			return
		}
		if in.err = in.take(&in.pieces[i], data); in.err != nil {
			in.broken <- in.err
			return
		}
		in.mu.Lock()
		in.done++
		in.mu.Unlock()
		in.told(i + 1)
	}
}

func (in *intake) take(p *piece, data []byte) error {
	switch {
	case p.last:
		in.all = data
		return nil
	case p.large(in.stage.entries):
		return in.takeLarge(p.parts[0], data)
	}
	for _, at := range p.parts {
		in.sums[at.entry] = sha256.Sum256(data[:at.bytes])
		if err := in.stage.write(at.entry, data[:at.bytes]); err != nil {
			return err
		}
		data = data[at.bytes:]
	}
	return nil
}

func (in *intake) takeLarge(at part, data []byte) error {
	in.hash.Write(data)
	if at.offset+at.bytes < in.stage.entries[at.entry].Size {
		return nil
	}
	in.hash.Sum(in.sums[at.entry][:0])
	in.hash.Reset()
	in.mu.Lock()
	f := in.mapping[at.entry]
	delete(in.mapping, at.entry)
	in.mu.Unlock()
	if in.stage.sync {
		if err := f.Sync(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// verify compares every file with what the pusher read (C5). The digest of the digests came another
// way than the digests: with a token, no process in between could change both.
func (in *intake) verify(said []byte) error {
	if len(in.pieces) == 0 {
		return nil
	}
	if sum := sha256.Sum256(in.all); string(said) != string(sum[:]) {
		return fmt.Errorf("%w: the digests of all files", errDigest)
	}
	rest := in.all
	for i := range in.stage.entries {
		e := &in.stage.entries[i]
		if e.Kind != file {
			continue
		}
		if want := rest[:sha256.Size]; string(want) != string(in.sums[i][:]) {
			return fmt.Errorf("%w: %s has SHA-256 %x, and had %x", errDigest, e.Path, in.sums[i], want)
		}
		rest = rest[sha256.Size:]
	}
	return nil
}

// end waits for the work, and gives back what is mapped. No message may come any more.
func (in *intake) end() error {
	close(in.queue)
	<-in.ended
	var errs []error
	for _, f := range in.mapping {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
