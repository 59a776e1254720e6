package join

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

// Pauses between two rounds over the addresses. The progression is fixed: at most MaxMembers processes ask, and a founder
// that is asked by all of them at once has no trouble.
const (
	pauseMin = 50 * time.Millisecond
	pauseMax = time.Second
)

// joiner asks until it is a member or refused.
type joiner struct {
	*desk
	config   Config
	failures map[string]error // the last one of each address

	nonce atomic.Value // string: of the request that is under way. W: ask. R: redirect.
	met   atomic.Bool  // the request under way came back to this process. W: ask clears it, redirect sets it before it answers.
}

func joinFounder(ctx context.Context, c Config) (*Session, error) {
	j := &joiner{desk: newDesk(c), config: c, failures: map[string]error{}}
	c.Port.Handle(port.KindControl, j.handler(j.redirect))
	s, err := j.askUntil(ctx)
	if err != nil {
		c.Port.Handle(port.KindControl, nil)
		return nil, err
	}
	return s, nil
}

// errItself says that the first address leads to this process, which makes it the founder.
var errItself = errors.New("the first address to join is this process itself")

// redirect answers those who take this process for the founder. It may be this process itself, which did not recognize one
// of the addresses as its own. Id and address do not tell, for another process may have been given the same by mistake, and
// two founders would be the result; the nonce of the request does.
func (j *joiner) redirect(conn net.Conn, q request) {
	answer := message{Verb: sayRedirect, Addr: j.config.Join[0]}
	if q.Nonce != "" && q.Nonce == j.nonce.Load() {
		j.met.Store(true)
	}
	if q.Member.ID == j.config.Self.ID && q.Member.Addr == j.config.Self.Addr {
		answer = saying(sayLater, "%s asked itself, or two processes have its id and address",
			node(q.Member.ID, q.Member.Addr))
	}
	if err := write(conn, answer); err != nil {
		j.reject(conn, err)
	}
}

// askUntil asks all addresses in turn, round after round.
func (j *joiner) askUntil(ctx context.Context) (*Session, error) {
	addrs := slices.DeleteFunc(slices.Clone(j.config.Join), func(addr string) bool { return addr == j.config.Self.Addr })
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		for _, addr := range addrs {
			s, err := j.askAt(ctx, addr)
			switch {
			case err == nil:
				return s, nil
			case errors.Is(err, errItself) && addr == j.config.Join[0]:
				return nil, err
			case errors.Is(err, ErrRefused) || errors.Is(err, ErrBadView):
				return nil, fmt.Errorf("join: %s: %w", addr, err)
			case ctx.Err() != nil:
				return nil, j.givingUp(ctx, addr, err)
			}
			j.failures[addr] = err
			j.emit(AttemptFailed{addr, err})
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, j.givingUp(ctx, "", nil)
		}
	}
}

// givingUp names the last failure of each address. The attempt that the context cut short counts only where there was none
// before: "connection refused" says more than "canceled".
func (j *joiner) givingUp(ctx context.Context, addr string, err error) error {
	if addr != "" && (j.failures[addr] == nil || errors.Is(err, errHeld)) {
		j.failures[addr] = err
	}
	text := fmt.Errorf("join: %w", context.Cause(ctx))
	for _, addr := range j.config.Join {
		if last := j.failures[addr]; last != nil {
			text = fmt.Errorf("%w; %s: %w", text, addr, last)
		}
	}
	return text
}

// askAt asks at one address and follows redirects from there.
func (j *joiner) askAt(ctx context.Context, addr string) (*Session, error) {
	for hop := range maxRedirects + 1 {
		s, next, err := j.ask(ctx, addr)
		if errors.Is(err, errItself) && hop > 0 {
			return nil, fmt.Errorf("redirected to %s: it is this process itself, which is not the founder", addr)
		}
		if err != nil && hop > 0 {
			return nil, fmt.Errorf("redirected to %s: %w", addr, err)
		}
		if err != nil || s != nil {
			return s, err
		}
		if _, _, err := net.SplitHostPort(next); err != nil {
			return nil, fmt.Errorf("%s redirected to %q: %w", addr, clip(next), err)
		}
		j.emit(Redirected{addr, next})
		addr = next
	}
	return nil, fmt.Errorf("%w: %d, the last to %s", ErrTooManyRedirects, maxRedirects+1, addr)
}

// ask is one conversation up to the View. It returns a session, or where to ask instead, or an error.
func (j *joiner) ask(ctx context.Context, addr string) (*Session, string, error) {
	brief, cancel := context.WithTimeout(ctx, j.silence)
	conn, err := port.Dial(brief, addr, port.KindControl, j.config.TLS)
	cancel()
	if err != nil {
		return nil, "", err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	view, next, err := j.request(conn)
	if err != nil && j.met.Load() {
		err = fmt.Errorf("%w: %w", errItself, err)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil || view == nil {
		conn.Close()
		return nil, next, err
	}
	return j.begin(conn, view), "", nil
}

// errHeld says that the founder holds our place but the View did not come.
var errHeld = errors.New("the founder waits for others")

// request sends our request and waits for the View: briefly for the first answer, which depends on the founder only, and
// then for as long as the others take.
func (j *joiner) request(conn net.Conn) (*views.View, string, error) {
	c, nonce := j.config, rand.Text()
	j.nonce.Store(nonce)
	j.met.Store(false)
	q := request{Cluster: c.Cluster, Member: c.Self, Expect: c.Expect, Declarations: c.Declarations, Nonce: nonce}
	if err := write(conn, q); err != nil {
		return nil, "", err
	}
	if err := conn.SetReadDeadline(time.Now().Add(j.silence)); err != nil {
		return nil, "", err
	}
	var m message
	if err := port.ReadMessage(conn, &m); err != nil {
		return nil, "", err
	}
	if m.Verb == sayWait {
		if err := conn.SetReadDeadline(time.Time{}); err != nil {
			return nil, "", err
		}
		j.emit(Held{conn.RemoteAddr().String()})
		m = message{}
		if err := port.ReadMessage(conn, &m); err != nil {
			return nil, "", fmt.Errorf("%w: %w", errHeld, err)
		}
	}
	return j.understand(conn, m)
}

// understand takes the message that ends the wait.
func (j *joiner) understand(conn net.Conn, m message) (*views.View, string, error) {
	switch m.Verb {
	case sayView:
		if err := checkView(j.config, m.View); err != nil {
			_ = write(conn, saying(sayAbort, "%v", err)) // if it is lost, the founder sees the connection break
			return nil, "", err
		}
		return m.View, "", nil
	case sayRedirect:
		return nil, m.Addr, nil
	case sayRefuse:
		return nil, "", fmt.Errorf("%w: %s", ErrRefused, clip(m.Text))
	case sayFormed:
		return nil, "", fmt.Errorf("%w: %w; %s", ErrRefused, ErrAlreadyFormed, clip(m.Text))
	case sayLater:
		return nil, "", fmt.Errorf("told to ask again: %s", clip(m.Text))
	}
	return nil, "", fmt.Errorf("%w: %q", errOutOfTurn, clip(string(m.Verb)))
}

// checkView is J5.
func checkView(c Config, v *views.View) error {
	if v == nil {
		return fmt.Errorf("%w: it is missing", ErrBadView)
	}
	if err := v.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadView, err)
	}
	if v.ID != firstView || v.Cluster != c.Cluster || len(v.Members) != c.Expect {
		return fmt.Errorf("%w: view %d of cluster %q with %d members, want view %d of %q with %d",
			ErrBadView, v.ID, v.Cluster, len(v.Members), firstView, c.Cluster, c.Expect)
	}
	if rank, ok := v.RankOf(c.Self.ID); !ok || v.Members[rank] != c.Self {
		return fmt.Errorf("%w: its members are %s, without %s as it is", ErrBadView, roster(v.Members), node(c.Self.ID, c.Self.Addr))
	}
	for _, m := range v.Members {
		if err := checkMember(m); err != nil {
			return fmt.Errorf("%w: %w", ErrBadView, err)
		}
	}
	if err := v.Fits(c.Declarations); err != nil {
		return fmt.Errorf("%w: its subgroups are not those declared here: %w", ErrBadView, err)
	}
	return nil
}

// membership is a joiner's part of a session: one goroutine reads the founder's last word, Ready and Abort write.
type membership struct {
	*desk
	conn    net.Conn
	session *Session
	self    string
	founder string
	closed  chan struct{} // closed when the reading goroutine has ended

	mu    sync.Mutex
	said  bool // ready was sent
	ended bool // the session was finished
}

func (j *joiner) begin(conn net.Conn, view *views.View) *Session {
	first := view.Members[0]
	m := &membership{
		desk: j.desk, conn: conn, closed: make(chan struct{}),
		self: node(j.config.Self.ID, j.config.Self.Addr), founder: node(first.ID, first.Addr),
	}
	m.session = newSession(m)
	m.session.view = view
	j.emit(ViewProposed{view})
	go m.follow()
	return m.session
}

// follow waits for the founder's last word.
func (m *membership) follow() {
	defer close(m.closed)
	defer m.conn.Close()
	var word message
	if err := port.ReadMessage(m.conn, &word); err != nil {
		m.end(m.aborted(m.founder, gone(err)))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case word.Verb == sayInstall && m.said: // J3: not before we are ready
		m.endLocked(nil)
	case word.Verb == sayAbort:
		m.endLocked(fmt.Errorf("join: %w: %s", ErrAborted, clip(word.Text)))
	default:
		m.endLocked(m.aborted(m.founder, fmt.Errorf("%w: %q", errOutOfTurn, clip(string(word.Verb)))))
	}
}

func (m *membership) aborted(who string, err error) error {
	return fmt.Errorf("join: %w: %s: %w", ErrAborted, who, err)
}

// end finishes the session, once.
func (m *membership) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked(err)
}

func (m *membership) endLocked(err error) {
	if m.ended {
		return
	}
	m.ended = true
	if err == nil {
		m.emit(ViewInstalled{m.session.view})
	} else {
		m.port.Handle(port.KindControl, nil)
		m.emit(Aborted{err})
	}
	m.session.finish(err)
}

func (m *membership) ready() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.said || m.ended {
		return
	}
	m.said = true
	if err := write(m.conn, message{Verb: sayReady}); err != nil {
		m.endLocked(m.aborted(m.founder, gone(err)))
		m.conn.Close()
	}
}

// abort ends the session here before it tells the founder, so that the founder's answer cannot put its words in place of the
// cause.
func (m *membership) abort(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.endLocked(m.aborted(m.self, err))
	_ = write(m.conn, saying(sayAbort, "%v", err)) // if it is lost, the founder sees the connection break
	hangUp(m.conn)
}

func (m *membership) flush() { <-m.closed }
