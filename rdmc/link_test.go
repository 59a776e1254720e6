package rdmc

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/relay"
)

// K2: the frames that a peer does not read are bounded, and then the link ends.
func TestTheFramesThatAPeerDoesNotReadAreBounded(t *testing.T) {
	l := newLink(&Node{}, 2, true, "session")
	here, there := net.Pipe()
	defer there.Close()
	l.control, l.blocks = here, here
	frame := relay.Control{Kind: relay.Ack}
	for range 2 * maxOutboxBytes / relay.ControlBytes {
		l.enqueue(&frame)
	}
	if n := len(l.outbox); n > maxOutboxBytes+relay.ControlBytes {
		t.Errorf("%d bytes wait, at most %d", n, maxOutboxBytes)
	}
	if !errors.Is(l.err, errMuch) {
		t.Errorf("the link ended with %v", l.err)
	}
	there.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stands: %v", err)
	}
}

// Groups share a link, and over TLS a header and its block are gathered in memory of the link:
// blocks go one at a time.
func TestBlocksOfSeveralGroupsDoNotMix(t *testing.T) {
	const groups, blocks, length = 4, 50, 5000
	l := newLink(&Node{}, 2, true, "session")
	here, there := net.Pipe() // which is no TCP connection, as TLS is not
	l.blocks = here
	var writing sync.WaitGroup
	for g := range uint32(groups) {
		writing.Go(func() {
			block := bytes.Repeat([]byte{byte(g)}, length)
			for k := range uint32(blocks) {
				l.writeBlock(&relay.Header{Channel: g, Block: k, Length: length}, block)
			}
		})
	}
	next := make([]uint32, groups)
	for range groups * blocks {
		var head [relay.HeaderBytes]byte
		block := make([]byte, length)
		if _, err := io.ReadFull(there, head[:]); err != nil {
			t.Fatal(err)
		}
		h, err := relay.ParseHeader(&head)
		if err == nil {
			_, err = io.ReadFull(there, block)
		}
		if err != nil || h.Channel >= groups || h.Block != next[h.Channel] || !bytes.Equal(block, bytes.Repeat([]byte{byte(h.Channel)}, length)) {
			here.Close()
			there.Close()
			t.Fatalf("block %d of group %d, want %d: %v; its bytes are another group's, or it came twice", h.Block, h.Channel, next, err)
		}
		next[h.Channel]++
	}
	writing.Wait()
}
