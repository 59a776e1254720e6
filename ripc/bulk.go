package ripc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/trust"
)

// bulk is the second connection of a pair over TCP, on which the bodies of long messages come and
// go in blocks, so that short ones need not wait behind them. It is made when the first long
// message needs it, by the side that made the pair, and ends with the pair.
type bulk struct {
	p       *peer
	conn    fabric.Stream
	turn    chan struct{} // has room for the goroutine that writes
	known   *sync.Cond    // with the endpoint's mu: an offer came
	scratch []byte        // of the goroutine that reads, for what goes into files or nowhere

	reads, writes calm

	mu      sync.Mutex
	filling *receiving // into whose window the goroutine that reads does
}

const (
	blockBytes  = 256 << 10   // of a long message, before others have their turn
	shortPiece  = 64 << 10    // read or written before other goroutines run: short messages need not wait for longer
	longPiece   = blockBytes  // the same while none come
	calmBlocks  = 16          // without a look at the peers: short messages do not come
	scratchSize = 128 << 10   // for what is not read straight to its place
	graceTime   = time.Second // for the rest of a block whose sender gave up
	attachTime  = time.Second // in which a pair is known for whose long messages a connection came
)

// calm tells when short messages do not come: no goroutine looked at the peers for some blocks.
type calm struct {
	steps  uint64
	blocks int
}

// piece is how much of the next block is moved at a time. The caller holds the endpoint's mu.
func (c *calm) piece(e *Endpoint) int {
	if steps := e.hot.Steps(); c.steps != steps {
		c.steps, c.blocks = steps, 0
	}
	if c.blocks++; c.blocks > calmBlocks {
		return longPiece
	}
	return shortPiece
}

// locker is the endpoint's mu for a condition.
type locker struct{ e *Endpoint }

func (l locker) Lock()   { l.e.lock() }
func (l locker) Unlock() { l.e.unlock() }

// isSame returns an error for a connection to a process with another identity: long messages come
// from the same process as short ones.
func (p *peer) isSame(who Peer) error {
	if who.Identity != p.who.Identity {
		return fmt.Errorf("%w: a connection of %q for long messages of %q", ErrRefused, who.Identity, p.who.Identity)
	}
	return nil
}

// attach begins to use a connection, or a stream. The caller holds the mu.
func (p *peer) attach(conn fabric.Stream) error {
	if p.ended() || p.long.bulk != nil {
		return fmt.Errorf("%w: the pair has ended, or has its connection for long messages", ErrRefused)
	}
	b := &bulk{p: p, conn: conn, turn: make(chan struct{}, 1), known: sync.NewCond(locker{p.e})}
	p.long.bulk, p.long.isReady = b, true
	close(p.long.ready)
	p.e.background.Go(b.readAll)
	return nil
}

// dialBulk has the connection made, if that is not done. The caller holds the mu.
func (p *peer) dialBulk() {
	if p.long.dialing || p.ended() {
		return
	}
	p.long.dialing = true
	e := p.e
	name := p.reserveStream(nil)
	e.background.Go(func() {
		ctx, cancel := context.WithTimeout(e.ctx, handshakeTime)
		defer cancel()
		conn, stream, err := p.callBulk(ctx, name)
		if err == nil {
			err = p.begin(ctx, conn, stream)
		}
		if name != "" && (err != nil || !stream) {
			p.releaseStream()
		}
		if err != nil {
			e.lock()
			defer e.unlock()
			p.fail(fmt.Errorf("%w: no connection for long messages: %w", fabric.ErrPeerGone, err))
		}
	})
}

// streamBytes is what a process has in memory for a stream of a transport.
const streamBytes = 2 << 20

// reserve counts the memory of a stream, and returns the name of the transport, or "" if there will
// be no stream: this end needs a transport, of the name for which the other end asked, if it did,
// and memory. The caller holds the mu.
func (p *peer) reserveStream(asked *string) string {
	t := p.e.cfg.LongTransport
	if t == nil || asked != nil && *asked != t.Name() || p.long.reserved || !p.charge(streamBytes) {
		return ""
	}
	p.long.reserved = true
	return t.Name()
}

// releaseStream gives that memory back.
func (p *peer) releaseStream() {
	p.e.lock()
	defer p.e.unlock()
	if p.long.reserved {
		p.long.reserved = false
		p.refund(streamBytes)
	}
}

// begin makes the stream, if both ends agreed on one, and begins to use it. If it is refused, at
// both ends, the connection carries long messages itself. It closes what it does not use.
func (p *peer) begin(ctx context.Context, conn net.Conn, stream bool) error {
	var through fabric.Stream = conn
	var refused error
	if stream {
		made, err := p.e.cfg.LongTransport.Stream(ctx, conn)
		switch {
		case err == nil:
			through = made
		case errors.Is(err, fabric.ErrRefused):
			refused = err
		default:
			conn.Close()
			return err
		}
	}
	if refused != nil {
		p.releaseStream()
	}
	p.e.lock()
	if refused != nil {
		p.e.emit(StreamRefused{p.who.String(), refused})
	}
	err := p.attach(through)
	p.e.unlock()
	if err != nil {
		through.Close() // a stream takes its time for that
	}
	return err
}

// connection waits for the connection.
func (p *peer) connection(ctx context.Context) (*bulk, error) {
	select {
	case <-p.long.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.long.bulk == nil { // it was closed when the pair ended
		return nil, ErrPeerGone
	}
	return p.long.bulk, nil
}

// callBulk makes the connection for the long messages of a pair, for a stream of the transport with
// that name, if the other end has one.
func (p *peer) callBulk(ctx context.Context, name string) (conn net.Conn, stream bool, err error) {
	conn, g, err := p.e.greetTCP(ctx, p.long.place, p.long.token, name)
	if err == nil {
		if err = p.isSame(callerOf(conn)); err != nil {
			conn.Close()
		}
	}
	return conn, g.stream, err
}

// acceptBulk takes a connection for the long messages of a pair, when the pair is known.
func (e *Endpoint) acceptBulk(conn net.Conn, who Peer, h hello, w welcome) error {
	for end := time.Now().Add(attachTime); ; pause() {
		e.lock()
		p := e.memory.byToken[h.Long]
		e.unlock()
		if p == nil {
			if time.Now().After(end) || e.ctx.Err() != nil {
				return fmt.Errorf("%w: long messages of a pair that there is not", ErrRefused)
			}
			continue
		}
		if err := p.isSame(who); err != nil {
			return err
		}
		return p.welcome(conn, h, w)
	}
}

// welcome answers on a connection for long messages, and begins to use it.
func (p *peer) welcome(conn net.Conn, h hello, w welcome) error {
	e := p.e
	e.lock()
	w.Stream = p.reserveStream(&h.Stream)
	e.unlock()
	err := wire.WriteMessage(conn, e.signed(h, w))
	if err == nil {
		conn.SetDeadline(time.Time{})
		err = p.begin(e.ctx, conn, w.Stream != "")
	}
	if err != nil && w.Stream != "" {
		p.releaseStream()
	}
	return err
}

// tokenOf returns the token by which both processes of a pair name it.
func (e *Endpoint) tokenOf(c challenge, h hello) string {
	mac := e.key.MAC(trust.Dialer, c, h, "long messages")
	return fmt.Sprintf("%x", mac[:])
}

// startLong prepares for long messages of a new peer. The caller holds the mu.
func (e *Endpoint) startLong(p *peer) {
	p.long.ready = make(chan struct{})
	if p.long.token != "" && !p.long.dialer {
		e.memory.byToken[p.long.token] = p
	}
}

// forgetBulk makes the pair unknown. The caller holds the mu.
func (e *Endpoint) forgetBulk(p *peer) {
	if p.long.token != "" && e.memory.byToken[p.long.token] == p {
		delete(e.memory.byToken, p.long.token)
	}
}

// close ends the connection. The caller holds the mu, which a stream does not have while it ends.
func (b *bulk) close() {
	e := b.p.e
	b.known.Broadcast()
	if !b.p.long.reserved {
		closeNow(b.conn)
		return
	}
	e.background.Go(func() { // readAll has not ended
		b.conn.Close()
		b.p.releaseStream()
	})
}

// closeNow closes a connection without its last words, for which TLS would wait.
func closeNow(conn fabric.Stream) {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

// readAll reads blocks until the connection ends, and the pair with it.
func (b *bulk) readAll() {
	err := b.readBlocks()
	closeNow(b.conn)
	b.p.e.lock()
	defer b.p.e.unlock()
	b.fail(err)
}

// fail ends the pair. The peer may have said why on the pair's own connection, before it closed
// both. The caller holds the mu.
func (b *bulk) fail(err error) {
	switch {
	case errors.Is(err, fabric.ErrViolation):
	case b.p.ended():
		return
	default:
		err = fmt.Errorf("%w: the connection for long messages: %w", fabric.ErrPeerGone, err)
		_, _ = b.p.line.link.Poll() // the pair ends in any case
	}
	b.p.fail(err)
}

func (b *bulk) readBlocks() error {
	var header [pair.BlockBytes]byte
	for {
		if err := b.fill(header[:]); err != nil {
			return err
		}
		id, n, err := pair.ParseBlock(&header)
		if err != nil {
			return err
		}
		m, offset, piece, err := b.expect(id, n)
		if err == nil && n > 0 {
			err = b.readBlock(m, int64(offset), n, piece)
		}
		if err != nil {
			return err
		}
	}
}

// expect finds the message of a block, whose offer may still be on its way, and says how much of it
// to read at a time.
func (b *bulk) expect(id uint64, n int) (m *receiving, offset uint64, piece int, err error) {
	p := b.p
	p.e.lock()
	defer p.e.unlock()
	for {
		in, offset, err := p.long.in.Block(id, n)
		switch {
		case err != nil:
			return nil, 0, 0, err
		case p.ended():
			return nil, 0, 0, net.ErrClosed
		case in == nil:
			b.known.Wait()
			continue
		}
		m := in.Value
		if n == 0 && in.IsOpen() {
			m.denyAs(pair.Unwanted, "its sender gave up", true)
		}
		return m, offset, b.reads.piece(p.e), nil
	}
}

// readBlock reads a block to its place, or discards it if its message is not wanted any more.
func (b *bulk) readBlock(m *receiving, offset int64, n, piece int) error {
	into := b.begin(m)
	if into == nil {
		return b.discard(n)
	}
	into.furnish()
	var failed error
	for n > 0 && !m.over.Load() && failed == nil {
		var target []byte
		if into.file != nil {
			target = b.scrap(n)
		} else {
			target = into.bytes[offset:][:min(n, piece)]
		}
		k, err := b.conn.Read(target)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			b.conn.SetReadDeadline(time.Time{})
			err = nil
		}
		if into.file != nil && k > 0 {
			failed = into.write(target[:k], offset)
		}
		n, offset = n-k, offset+int64(k)
		b.p.e.letOthers()
		if err != nil && n > 0 {
			b.end(m, false, nil)
			return err
		}
	}
	b.end(m, n == 0, failed)
	return b.discard(n)
}

// begin notes that a window is written, and returns it; nil if the message is over.
func (b *bulk) begin(m *receiving) *Window {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.over.Load() {
		return nil
	}
	b.filling = m
	return m.window
}

// end notes that the window is not written at the moment, and whether the block came whole.
func (b *bulk) end(m *receiving, whole bool, failed error) {
	e := b.p.e
	e.lock()
	defer e.unlock()
	b.mu.Lock()
	b.filling = nil
	b.mu.Unlock()
	m.halted()
	switch {
	case !m.in.IsOpen():
	case failed != nil:
		m.deny(pair.Failed, failed.Error())
	case whole && m.in.IsWhole():
		m.arrived()
	}
}

// interrupt has the goroutine that reads leave the window of a message that is over. The caller
// holds the endpoint's mu.
func (b *bulk) interrupt(m *receiving) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.filling == m && m.stopped == nil {
		m.stopped = make(chan struct{})
		b.conn.SetReadDeadline(time.Unix(1, 0)) // long ago: a Read returns, and the next one clears it
	}
}

// scrap is memory for up to n bytes that do not go straight to their place.
func (b *bulk) scrap(n int) []byte {
	if b.scratch == nil {
		b.scratch = make([]byte, scratchSize)
	}
	return b.scratch[:min(n, scratchSize)]
}

// discard reads and drops unwanted bytes.
func (b *bulk) discard(n int) error {
	for n > 0 {
		into := b.scrap(n)
		if err := b.fill(into); err != nil {
			return err
		}
		n -= len(into)
	}
	return nil
}

// fill reads all of into.
func (b *bulk) fill(into []byte) error {
	for len(into) > 0 {
		n, err := b.conn.Read(into)
		if errors.Is(err, os.ErrDeadlineExceeded) { // it was for a message that is over
			b.conn.SetReadDeadline(time.Time{})
			err = nil
		}
		into = into[n:]
		if err != nil && len(into) > 0 {
			return err
		}
	}
	return nil
}

// write sends the bytes of a message in blocks, by turns with others.
func (p *peer) write(ctx context.Context, m *sending, body *Body) error {
	b, err := p.connection(ctx)
	if err != nil {
		return err
	}
	tcp, plain := b.conn.(*net.TCPConn)
	straight := body.file != nil && plain && canSendFile
	var scratch []byte
	if !body.inMemory() && !straight {
		scratch = make([]byte, min(body.size, blockBytes))
	}
	for at := int64(0); at < body.size; {
		n := int(min(body.size-at, blockBytes))
		var data []byte
		if !straight {
			if data, err = body.next(at, n, scratch); err != nil {
				return b.cut(ctx, m, fmt.Errorf("the body: %w", err))
			}
		}
		if err := b.take(ctx); err != nil {
			return b.cut(ctx, m, err)
		}
		var piece int
		if n, piece = b.claim(m, n); n == 0 { // the peer denied it, or ended
			<-b.turn
			return b.cut(ctx, m, nil)
		}
		err = b.patiently(ctx, func() error {
			if !straight {
				return b.writeBlock(m.out.ID, data[:n], piece)
			}
			return b.writeFile(tcp, m.out.ID, body.file, body.offset+at, n, piece)
		})
		<-b.turn
		if errors.Is(err, errShortFile) {
			return b.cut(ctx, m, fmt.Errorf("the body: %w", err))
		}
		if err != nil {
			return b.broken(err)
		}
		at += int64(n)
	}
	return nil
}

// take waits for the turn to write.
func (b *bulk) take(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// claim takes the next n bytes of a message to send, and says how many to write at a time; n is 0
// if the message ended.
func (b *bulk) claim(m *sending, most int) (n, piece int) {
	b.p.e.lock()
	defer b.p.e.unlock()
	if b.p.ended() {
		return 0, 0
	}
	_, n = m.out.Block(most)
	return n, b.writes.piece(b.p.e)
}

// cut tells the peer that the rest of a message does not come, if it waits for it, and returns why.
func (b *bulk) cut(ctx context.Context, m *sending, why error) error {
	e := b.p.e
	e.lock()
	if m.err == nil {
		m.err = why // and not what the peer answers
	}
	owed := !b.p.ended() && m.out.Cut()
	e.unlock()
	if owed {
		b.turn <- struct{}{} // the goroutine whose turn it is ends its turn: a peer that reads nothing is cut off
		err := b.patiently(ctx, func() error { return b.writeBlock(m.out.ID, nil, shortPiece) })
		<-b.turn
		if err != nil {
			return b.broken(err)
		}
	}
	return why
}

// broken ends the pair after a write that failed.
func (b *bulk) broken(err error) error {
	b.p.e.lock()
	defer b.p.e.unlock()
	b.fail(err)
	return firstOf(b.p.why, err)
}

// patiently writes a block as a whole: behind half a block the reader would not find the next one.
// When ctx ends meanwhile, the peer has a little time left to read the block.
func (b *bulk) patiently(ctx context.Context, write func() error) error {
	if ctx.Done() == nil {
		return write()
	}
	limited := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		b.conn.SetWriteDeadline(time.Now().Add(graceTime))
		close(limited)
	})
	err := write()
	if !stop() {
		<-limited
		b.conn.SetWriteDeadline(time.Time{})
	}
	return err
}

// writeBlock writes a header and a block, piece by piece.
func (b *bulk) writeBlock(id uint64, data []byte, piece int) error {
	var header [pair.BlockBytes]byte
	pair.PutBlock(&header, id, len(data))
	first := data[:min(len(data), piece)]
	_, err := (&net.Buffers{header[:], first}).WriteTo(b.conn)
	b.p.e.letOthers()
	for data = data[len(first):]; len(data) > 0 && err == nil; data = data[min(len(data), piece):] {
		_, err = b.conn.Write(data[:min(len(data), piece)])
		b.p.e.letOthers()
	}
	return err
}

// errShortFile says that a file ended before its body.
var errShortFile = fmt.Errorf("the file was cut: %w", os.ErrInvalid)

// writeFile writes a header and a block from a file, which the system copies. A file that ends
// before gets zeros behind it, and is an error.
func (b *bulk) writeFile(conn *net.TCPConn, id uint64, file *os.File, offset int64, n, piece int) error {
	var header [pair.BlockBytes]byte
	pair.PutBlock(&header, id, n)
	_, err := conn.Write(header[:])
	for n > 0 && err == nil {
		part, sent := min(n, piece), 0
		if sent, err = sendFile(conn, file, offset, part); err == nil && sent < part {
			if _, err = conn.Write(make([]byte, n-sent)); err == nil {
				err = errShortFile
			}
		}
		n, offset = n-part, offset+int64(part)
		b.p.e.letOthers()
	}
	return err
}

// greetTCP connects to a place and proves both sides to each other. token names a pair that the
// connection is for, and is empty for a new one; stream names the transport of a stream for it. It
// returns the token of a new pair as well.
func (e *Endpoint) greetTCP(ctx context.Context, place Place, token, stream string) (conn net.Conn, g greeted, err error) {
	dialed, err := port.Dial(ctx, place.Addr, port.KindServices, e.cfg.TLS)
	if err != nil {
		return nil, g, err
	}
	conn = dialed
	stop := context.AfterFunc(ctx, func() { dialed.SetDeadline(time.Unix(1, 0)) }) // it may run when conn was returned as nil
	var c challenge
	var h hello
	var w welcome
	if err = wire.ReadMessage(conn, greetingBytes, &c); err == nil {
		h = e.hello(c, token, stream)
		err = wire.WriteMessage(conn, h)
	}
	if err == nil {
		err = wire.ReadMessage(conn, greetingBytes, &w)
	}
	if err == nil {
		err = e.heed(h, w, place.Incarnation)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, g, fmt.Errorf("%s: %w", place.Addr, err)
	}
	conn.SetDeadline(time.Time{})
	return conn, greeted{w.RingBytes, e.tokenOf(c, h), w.Stream != ""}, nil
}

// greeted is what both sides of a new connection know.
type greeted struct {
	ring   int
	token  string
	stream bool // they agreed on one
}
