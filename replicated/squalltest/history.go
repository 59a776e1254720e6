package squalltest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/simulate"
)

// call is an operation that a client called.
type call struct {
	client  int
	shard   int // 1 + its number; 0: of an object without shards, or of none
	request client.Request
	began   time.Duration
	ended   time.Duration // 0: it has not
	at      simulate.At
	reply   []byte
	failed  bool // the reply is the text of an error
	unknown bool // it may have been executed or not
	refused bool // it is called again, with its number
}

// Ask implements client.Carrier.
func (c carrier) Ask(shard int, request []byte) int {
	r, _ := client.Parse(request)
	c.run.calls = append(c.run.calls, call{client: c.number, shard: shard, request: r, began: c.run.world.Now(), unknown: true})
	return len(c.run.calls) - 1
}

// Asked implements client.Carrier.
func (c carrier) Asked(i int, answer []byte, err error) {
	r := c.run
	k := &r.calls[i]
	k.ended = r.world.Now()
	r.world.Stir()
	if k.request.Ask != client.Command && k.request.Ask != client.Query {
		return
	}
	a, bad := client.ParseAnswer(answer)
	said := a.Said
	if bad != nil {
		said = client.Away // there was no answer
	}
	r.world.Note(uint64(c.number), uint64(i), uint64(said))
	switch said {
	case client.Done, client.Failed:
		k.unknown, k.failed, k.reply = false, said == client.Failed, bytes.Clone(a.Text)
		k.at = r.places[place{max(0, k.shard-1), version(a.View, a.Seq)}]
		r.answered++
		if n := (number{max(0, k.shard-1), k.request.Session, k.request.Number}); k.request.Ask == client.Command {
			at, executed := r.executions[n]
			if !executed {
				c.Fail(fmt.Errorf("number %d of session %x was answered and not executed", n.number, n.session))
			}
			k.at = at
		}
	case client.Full:
		k.refused = true
		r.refused++
	case client.Else, client.Unknown, client.TooLarge, client.NoKey, client.NotPersistent:
		c.Fail(fmt.Errorf("%s, number %d of session %x: %w", k.request.Name, k.request.Number, k.request.Session, err))
	}
}

func version(view, seq uint64) order.Version {
	return order.Version{View: order.ViewID(view), Seq: order.Seq(seq)}
}

// maxChecked is how long porcupine may look.
const maxChecked = 30 * time.Second

// judge checks what clients saw of each shard.
func (r *run) judge() error {
	if err := r.judgeOwn(); err != nil || r.cfg.SkipHistories || r.forgets() {
		return err
	}
	for shard := range r.declared.Shards {
		if r.lost[shard] {
			continue
		}
		if err := r.judgeShard(shard); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) judgeShard(shard int) error {
	m := r.object().Simulate().Model()
	var all []porcupine.Operation
	end := r.world.Now()
	for i := range r.calls {
		k := &r.calls[i]
		ended := k.ended
		switch {
		case k.refused, max(0, k.shard-1) != shard, k.request.Ask != client.Command && (k.request.Ask != client.Query || k.request.Consistency != 0 || k.unknown):
			continue
		case k.unknown: // it was executed at some later time, or never
			at, executed := r.executions[number{shard, k.request.Session, k.request.Number}]
			if !executed {
				continue
			}
			k.at, ended = at, end+1
		}
		all = append(all, porcupine.Operation{ClientId: i, Input: k, Call: int64(k.began), Output: k, Return: int64(ended)})
	}
	model := porcupine.Model{
		Init: func() any { return m.Reset() },
		Step: func(state, input, _ any) (bool, any) {
			k := input.(*call)
			reply, failed, next := m.Execute(state.(string), string(k.request.Name), k.request.Args, k.at)
			return k.unknown || failed == k.failed && bytes.Equal(reply, k.reply), next
		},
	}
	switch verdict := porcupine.CheckOperationsTimeout(model, all, maxChecked); verdict {
	case porcupine.Illegal:
		return fmt.Errorf("what the clients saw is not linearizable:\n%s", r.describe())
	case porcupine.Unknown:
		return fmt.Errorf("porcupine could not decide within %v whether %d operations are linearizable: let fewer run at the same time, or set SkipHistories", maxChecked, len(all))
	}
	return nil
}

// describe lists the calls.
func (r *run) describe() string {
	var b bytes.Buffer
	for i := range r.calls {
		k := &r.calls[i]
		if k.refused || k.request.Ask != client.Command && k.request.Ask != client.Query {
			continue
		}
		fmt.Fprintf(&b, "client %d, %v to %v: %s(% x)", k.client, k.began, k.ended, k.request.Name, k.request.Args)
		switch {
		case k.unknown:
			fmt.Fprintln(&b, ": no answer")
		case k.failed:
			fmt.Fprintf(&b, " at %d:%d: error %q\n", k.at.View, k.at.Seq, k.reply)
		default:
			fmt.Fprintf(&b, " at %d:%d: % x\n", k.at.View, k.at.Seq, k.reply)
		}
	}
	return b.String()
}
