package replicated

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/hooks"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// DefaultMaxAnswerBytes is the default of ServerConfig.MaxAnswerBytes: 64 MiB.
const DefaultMaxAnswerBytes = 64 << 20

// minAnswer is what an answer counts at least, so that the number of answers is bounded, too.
const minAnswer = 64 << 10

// longReply bounds how long an answer that is no short message may take.
const longReply = 30 * time.Second

// answers counts the answers of a server that are no short messages and that its clients have not taken, for each party (ripc.Message.Account). The requests
// of a party with too many of them wait.
type answers struct {
	most int
	done *sync.WaitGroup // of the server
	full atomic.Int32    // parties whose requests wait

	mu      sync.Mutex
	parties map[string]*party
	closed  bool
}

// party is what one party has not taken. One that has taken all is forgotten.
type party struct {
	bytes   int
	full    bool // it had the most, and has more than half of it still
	waiting []waitingRequest
}

// waitingRequest is a request that is not looked at yet.
type waitingRequest struct {
	d *desk
	m ripc.Message
}

// isAnswered reports whether the answer to a request may be large. All other requests are served at once, for example one that keeps a session.
func isAnswered(a relay.Ask) bool {
	return a == askCommand || a == askReplies || a == askQuery || a == askWatch
}

// wait keeps a request if its party has too many answers, and then leaves m empty.
func (a *answers) wait(d *desk, m *ripc.Message) bool {
	if a.full.Load() == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parties[m.Account()]
	if p == nil || !p.full {
		return false
	}
	p.waiting = append(p.waiting, waitingRequest{d, *m})
	*m = ripc.Message{}
	return true
}

// begin counts an answer.
func (a *answers) begin(of string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parties[of]
	if p == nil {
		p = &party{}
		a.parties[of] = p
	}
	if p.bytes += n; p.bytes >= a.most && !p.full {
		p.full = true
		a.full.Add(1)
	}
}

// end ends the count of an answer, and has the requests served that wait for it.
func (a *answers) end(of string, n int) {
	a.mu.Lock()
	p := a.parties[of]
	var waiting []waitingRequest
	if p.bytes -= n; p.full && p.bytes <= a.most/2 {
		p.full = false
		a.full.Add(-1)
		waiting, p.waiting = p.waiting, nil
	}
	if p.bytes == 0 {
		delete(a.parties, of)
	}
	if a.closed {
		waiting = nil
	} else {
		a.done.Add(1)
		defer a.done.Done()
	}
	a.mu.Unlock()
	for i := range waiting { // some may wait again
		waiting[i].d.accept(&waiting[i].m)
	}
}

// close has requests that wait stay where they are.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

// reply answers a request and gives it back. It does not wait: an answer that is no short message goes on its own. If together is not nil, the caller's process
// may learn of the answer only with the others of together.
func (a *answers) reply(together hooks.Replies, m *ripc.Message, answer []byte) {
	if len(answer) > m.MaxReply() {
		long, answer, of, counts := *m, bytes.Clone(answer), m.Account(), max(len(answer), minAnswer)
		*m = ripc.Message{}
		a.begin(of, counts)
		go func() {
			defer a.end(of, counts)
			ctx, cancel := context.WithTimeout(context.Background(), longReply)
			defer cancel()
			_ = long.ReplyLong(ctx, ripc.Bytes(answer)) // the client learns why it failed
			long.Release()
		}()
		return
	}
	var err error
	if together == nil {
		err = m.Reply(answer)
	} else {
		err = together.Reply(m, answer)
	}
	if err != nil {
		_ = m.Reply(append(append([]byte{byte(saidElse)}, make([]byte, answerHead-1)...), err.Error()...))
	}
	m.Release()
}
