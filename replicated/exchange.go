package replicated

import (
	"sync"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// exchange is the request of a client's command, and the call or else the function that takes the
// answer. Exchanges come from a pool: a command allocates none.
type exchange struct {
	name    string
	pending invoke.Pending
	f       func([]byte) error
	out     invoke.Outcome
	request []byte
	parts   [1][]byte
	taken   func(answer []byte) error // take of this exchange
}

var exchanges = sync.Pool{New: func() any {
	x := new(exchange)
	x.taken = x.take
	return x
}}

// take takes the answer of a member.
func (x *exchange) take(answer []byte) error {
	v, reply, err := parseAnswer(x.name, answer)
	if err != nil {
		return err
	}
	if x.pending == nil {
		return x.f(reply)
	}
	x.out.Version, x.out.Reply = v, reply
	x.pending.Complete(&x.out)
	return nil
}

// giveBack ends the use of an exchange.
func (x *exchange) giveBack() {
	x.name, x.pending, x.f, x.out, x.parts = "", nil, nil, invoke.Outcome{}, [1][]byte{}
	exchanges.Put(x)
}
