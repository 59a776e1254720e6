package member

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/ripc"
)

// DefaultMaxAnswerBytes is the default of ServerConfig.MaxAnswerBytes: 64 MiB.
const DefaultMaxAnswerBytes = 64 << 20

// minAnswer is what an answer counts at least, so that the number of answers is bounded, too.
const minAnswer = 64 << 10

// longReply bounds how long an answer that is no short message may take.
const longReply = 30 * time.Second

// maxWorking bounds the requests that each run on a goroutine of their own: large requests,
// requests for the replies of all members, and queries about the past. maxWorkingPerParty bounds
// those of one party.
const (
	maxWorking         = 1024
	maxWorkingPerParty = 64
)

// answers counts, for each party (ripc.Message.Account), the answers of a server that are no short
// messages and that its clients have not taken, and the requests that have a goroutine each. The
// requests of a party with too many of them wait.
type answers struct {
	most            int
	mostWorking     int             // maxWorking
	mostWorkingEach int             // maxWorkingPerParty
	done            *sync.WaitGroup // of the server
	full            atomic.Int32    // parties whose requests wait

	mu      sync.Mutex
	parties map[string]*party
	working int      // requests that have a goroutine each
	stalled []*party // whose requests wait, and go on in this order when fewer than mostWorking have one
	closed  bool
}

// party is what one party has not taken. One that has taken all is forgotten.
type party struct {
	name    string
	bytes   int
	working int
	full    bool // it had the most of something, and has more than half of it still, or is stalled
	stalled bool // it is in answers.stalled
	waiting []waitingRequest
}

// waitingRequest is a request that is not looked at yet.
type waitingRequest struct {
	d *desk
	m ripc.Message
}

// isAnswered reports whether the answer to a request may be large. All other requests are served at
// once, for example one that keeps a session.
func isAnswered(a client.Ask) bool {
	return a == client.Command || a == client.Replies || a == client.Query || a == client.Watch
}

// wait keeps a request if its party has too much in progress, and then leaves m empty.
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

// work has f serve a request on a goroutine of its own, or keeps the request if there are too many.
// It leaves m empty.
func (a *answers) work(d *desk, m *ripc.Message, f func(m *ripc.Message)) {
	of := m.Account()
	mine := *m
	*m = ripc.Message{}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.party(of)
	if p.working < a.mostWorkingEach && a.working < a.mostWorking {
		p.working++
		a.working++
		a.done.Go(func() {
			defer a.end(of, 0, 1)
			f(&mine)
		})
		return
	}
	p.waiting = append(p.waiting, waitingRequest{d, mine})
	a.fill(p)
	if !p.stalled {
		p.stalled = true
		a.stalled = append(a.stalled, p)
	}
}

// party returns what is counted for a party. The lock is held.
func (a *answers) party(name string) *party {
	p := a.parties[name]
	if p == nil {
		p = &party{name: name}
		a.parties[name] = p
	}
	return p
}

// fill has the further requests of a party wait. The lock is held.
func (a *answers) fill(p *party) {
	if !p.full {
		p.full = true
		a.full.Add(1)
	}
}

// begin counts an answer.
func (a *answers) begin(of string, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.party(of)
	if p.bytes += n; p.bytes >= a.most {
		a.fill(p)
	}
}

// end ends the count of bytes of an answer, or of a request that had a goroutine, and has the
// requests served that wait for it.
func (a *answers) end(of string, bytes, working int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parties[of]
	p.bytes -= bytes
	p.working -= working
	a.working -= working
	a.serve(a.ready(p))
	a.next()
}

// next has the requests served of the party that stalled first, if a request may have a goroutine.
// The lock is held.
func (a *answers) next() {
	for len(a.stalled) > 0 && a.working < a.mostWorking {
		p := a.stalled[0]
		a.stalled = a.stalled[1:]
		p.stalled = false
		if waiting := a.ready(p); len(waiting) > 0 {
			a.serve(waiting)
			return
		}
	}
}

// serve has requests served that have waited. Those of one object do not wait for another one,
// whose ring may be full. The lock is held.
func (a *answers) serve(waiting []waitingRequest) {
	if a.closed {
		return
	}
	of := map[*desk][]ripc.Message{}
	for _, w := range waiting {
		of[w.d] = append(of[w.d], w.m)
	}
	for d, requests := range of {
		a.done.Go(func() {
			for i := range requests {
				d.accept(&requests[i]) // it may wait again
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.next()
		})
	}
}

// ready returns the requests of a party that wait, if it may go on. The lock is held.
func (a *answers) ready(p *party) (waiting []waitingRequest) {
	if p.full && !p.stalled && p.bytes <= a.most/2 && p.working <= a.mostWorkingEach/2 {
		p.full = false
		a.full.Add(-1)
		waiting, p.waiting = p.waiting, nil
	}
	if p.bytes == 0 && p.working == 0 && !p.full {
		delete(a.parties, p.name)
	}
	return waiting
}

// close has requests that wait stay where they are.
func (a *answers) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

// reply answers a request and gives it back. It does not wait: an answer that is no short message
// goes on its own. If together is not nil, the caller's process may learn of the answer only with
// the others of together.
func (a *answers) reply(together *ripc.Replies, m *ripc.Message, answer []byte) {
	if len(answer) > m.MaxReplyBytes() {
		long, answer, of, counts := *m, bytes.Clone(answer), m.Account(), max(len(answer), minAnswer)
		*m = ripc.Message{}
		a.begin(of, counts)
		go func() {
			defer a.end(of, counts, 0)
			ctx, cancel := context.WithTimeout(context.Background(), longReply)
			defer cancel()
			_ = long.ReplyLong(ctx, ripc.NewBody(answer)) // the client learns why it failed
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
		_ = m.Reply(append(append([]byte{byte(client.Else)}, make([]byte, client.AnswerHead-1)...), err.Error()...))
	}
	m.Release()
}
