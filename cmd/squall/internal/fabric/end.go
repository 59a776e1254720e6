package fabric

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/rdma"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/wait"
)

// The two ends are members 1 and 2 of a group with one subgroup.
const (
	cluster  = "squall fabric check"
	listener = squall.NodeID(1)
	checker  = squall.NodeID(2)

	largeBytes = 10 << 10
	smallBytes = 512
	connectIn  = 15 * time.Second
	answerIn   = 10 * time.Second
	pings      = 1000
)

// A message is its kind and the rest.
const (
	kindData    = 'd' // index, and bytes that follow from the index
	kindControl = 'c' // JSON
	kindPing    = 'p'
)

const headBytes = 9

// control is what the ends say to each other. The one that checks asks.
type control struct {
	Do       string        `json:"do"`                    // begin: count anew; count; send: send for a time, and then count; hash
	For      time.Duration `json:"for_ns,omitempty"`      // send
	Bytes    int           `json:"bytes,omitempty"`       // send: of the largest message
	Messages uint64        `json:"messages,omitempty"`    // answers: what was delivered since begin
	Wrong    uint64        `json:"wrong,omitempty"`       // of them
	Hash     uint64        `json:"hash,string,omitempty"` // of the order up to the question
}

// end is one of the two processes.
type end struct {
	group *squall.Group
	all   *squall.Subgroup
	asked chan control // of the other end, as they are delivered
	pongs wait.Bell

	// The rest is used by deliveries alone.
	id              squall.NodeID
	next            [3]uint64 // index of each sender
	messages, wrong uint64
	order           uint64
}

// open joins the group, or begins it.
func (e *end) open(ctx context.Context, c squall.Config) (err error) {
	e.id, e.asked, e.pongs = c.ID, make(chan control, 16), wait.NewBell()
	c.Cluster, c.InitialMembers, c.Logger = cluster, 1, slog.New(slog.NewTextHandler(io.Discard, nil))
	c.Subgroups = []squall.SubgroupConfig{{Name: "check", Deliver: e.deliver}}
	if e.group, err = squall.Open(ctx, c); err != nil {
		return err
	}
	e.all, err = e.group.Subgroup("check")
	return err
}

// pattern is what contents are cut from.
var pattern = func() []byte {
	b := make([]byte, largeBytes+256)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}()

// content is what a message of n bytes has after its head.
func content(sender squall.NodeID, index uint64, n int) []byte {
	return pattern[byte(index*31)+byte(sender):][:n-headBytes]
}

func (e *end) deliver(m squall.Message) {
	switch {
	case len(m.Data) == 0 || m.Sender != listener && m.Sender != checker:
		e.wrong++
	case m.Data[0] == kindPing && m.Sender == e.id:
		e.pongs.Ring()
	case m.Data[0] == kindData:
		e.check(m)
	case m.Data[0] == kindControl:
		var c control
		if json.Unmarshal(m.Data[1:], &c) != nil {
			e.wrong++
			return
		}
		if c.Do == "begin" {
			e.next, e.messages, e.wrong, e.order = [3]uint64{}, 0, 0, 0
		}
		if m.Sender == e.id && c.Do != "hash" {
			return
		}
		if c.Do == "count" || c.Do == "hash" { // as it is here in the order
			c.Messages, c.Wrong, c.Hash = e.messages, e.wrong, e.order
		}
		select {
		case e.asked <- c:
		default: // a peer that asks too much gets no answer
		}
	}
}

// check checks content and order of a message.
func (e *end) check(m squall.Message) {
	e.messages++
	n, index := len(m.Data), e.next[m.Sender]
	if n < headBytes || n > largeBytes || binary.LittleEndian.Uint64(m.Data[1:]) != index || !bytes.Equal(m.Data[headBytes:], content(m.Sender, index, n)) {
		e.wrong++
	}
	e.next[m.Sender]++
	h := fnv.New64a()
	binary.Write(h, binary.LittleEndian, [3]uint64{e.order, uint64(m.Sender), e.next[m.Sender]})
	e.order = h.Sum64()
}

func (e *end) say(ctx context.Context, c control) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return e.all.Send(ctx, append([]byte{kindControl}, b...))
}

// flood sends messages of up to so many bytes for a time. Their sizes are random if they are small.
func (e *end) flood(ctx context.Context, c control, index *uint64) (sent int, err error) {
	if c.For < 0 || c.For > mostDuration || c.Bytes < headBytes || c.Bytes > largeBytes {
		return 0, fmt.Errorf("asked to send messages of %d bytes for %v", c.Bytes, c.For)
	}
	for until := time.Now().Add(c.For); time.Now().Before(until); *index++ {
		n := c.Bytes
		if n <= smallBytes {
			n = headBytes + rand.IntN(n-headBytes+1)
		}
		claim, err := e.all.Claim(ctx, n)
		if err != nil {
			return sent, err
		}
		into := claim.Bytes
		into[0] = kindData
		binary.LittleEndian.PutUint64(into[1:], *index)
		copy(into[headBytes:], content(e.id, *index, n))
		if err := claim.Commit(); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// listen takes part in checks until ctx ends.
func listen(ctx context.Context, addr string, ready func(addr string)) error {
	e, c := &end{}, squall.Config{ID: listener, Listen: addr}
	if err := rdma.Offer(&c); err != nil {
		return err
	}
	if err := e.open(ctx, c); err != nil {
		return err
	}
	ready(e.group.Addr())
	var index uint64
	for {
		var c control
		select {
		case c = <-e.asked:
		case <-e.group.Done():
			return e.group.Err()
		case <-ctx.Done():
			return show.AfterEnd(ctx, answerIn, e.group.Close)
		}
		if err := e.answer(ctx, c, &index); err != nil && ctx.Err() == nil {
			slog.Warn("a check could not be answered", "error", err)
		}
	}
}

// answer does what the end that checks asks for.
func (e *end) answer(ctx context.Context, c control, index *uint64) error {
	switch c.Do {
	case "begin":
		*index = 0
	case "send":
		if _, err := e.flood(ctx, c, index); err != nil {
			return err
		}
		return e.say(ctx, control{Do: "sent"})
	case "count", "hash":
		c.Do += "ed"
		return e.say(ctx, c)
	}
	return nil
}

// check checks one fabric.
func check(ctx context.Context, addr string, o *options, r *Result) (err error) {
	c := squall.Config{ID: checker, Listen: o.listen, Join: []string{addr}, Fabric: fabrics[r.Fabric]}
	if err := rdma.Use(&c); err != nil {
		return err
	}
	e := &end{}
	opening, cancel := context.WithTimeout(ctx, connectIn)
	defer cancel()
	if err := e.open(opening, c); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, show.AfterEnd(ctx, answerIn, e.group.Close)) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-e.group.Done():
			stop()
		case <-ctx.Done():
		}
	}()
	if err := e.connected(ctx, r); err != nil {
		return err
	}
	for _, part := range []func(context.Context, time.Duration, *Result) error{e.latency, e.bandwidth, e.both} {
		if err := part(ctx, o.duration, r); err != nil {
			return errors.Join(err, e.group.Err())
		}
	}
	return nil
}

// connected waits until the other end is linked.
func (e *end) connected(ctx context.Context, r *Result) error {
	ctx, cancel := context.WithTimeout(ctx, connectIn)
	defer cancel()
	if err := e.say(ctx, control{Do: "begin"}); err != nil { // it waits for the link
		return err
	}
	if _, err := e.ask(ctx, control{Do: "count"}, "counted", 0); err != nil {
		return err
	}
	link, err := e.group.Debug().Link(listener)
	r.Link = link
	return err
}

// ask asks the other end, and waits for an answer.
func (e *end) ask(ctx context.Context, c control, answer string, within time.Duration) (control, error) {
	if err := e.say(ctx, c); err != nil {
		return control{}, err
	}
	return e.await(ctx, answer, within)
}

func (e *end) await(ctx context.Context, answer string, within time.Duration) (control, error) {
	ctx, cancel := context.WithTimeout(ctx, within+answerIn)
	defer cancel()
	for {
		select {
		case c := <-e.asked:
			if c.Do == answer {
				return c, nil
			}
		case <-ctx.Done():
			return control{}, fmt.Errorf("the other end does not answer: %w", context.Cause(ctx))
		}
	}
}

// latency measures single messages.
func (e *end) latency(ctx context.Context, d time.Duration, r *Result) error {
	var took []time.Duration
	for began := time.Now(); len(took) < pings && time.Since(began) < d; {
		start := time.Now()
		if err := e.all.Send(ctx, []byte{kindPing, 0}); err != nil {
			return err
		}
		select {
		case <-e.pongs:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	r.LatencyP50, r.LatencyP99 = took[len(took)/2], took[len(took)*99/100]
	return nil
}

// bandwidth sends large messages there, and has some sent back.
func (e *end) bandwidth(ctx context.Context, d time.Duration, r *Result) error {
	var index uint64
	start := time.Now()
	if err := e.say(ctx, control{Do: "begin"}); err != nil {
		return err
	}
	sent, err := e.flood(ctx, control{For: d, Bytes: largeBytes}, &index)
	if err != nil {
		return err
	}
	there, err := e.ask(ctx, control{Do: "count"}, "counted", 0)
	if err != nil {
		return err
	}
	r.ThereBytesS = float64(sent) / time.Since(start).Seconds()
	r.Messages, r.Wrong = r.Messages+there.Messages, r.Wrong+there.Wrong+index-min(index, there.Messages)
	start = time.Now()
	if _, err = e.ask(ctx, control{Do: "send", For: d, Bytes: largeBytes}, "sent", d); err != nil {
		return err
	}
	took := time.Since(start)
	back, err := e.hashed(ctx)
	if err != nil {
		return err
	}
	r.BackBytesS = float64(back.Messages-there.Messages) * largeBytes / took.Seconds()
	r.Messages, r.Wrong = r.Messages+back.Messages, r.Wrong+back.Wrong
	return nil
}

// hashed is what this end counts at its own question.
func (e *end) hashed(ctx context.Context) (control, error) {
	return e.ask(ctx, control{Do: "hash"}, "hash", 0)
}

// both has both ends send small messages at the same time, and compares the orders.
func (e *end) both(ctx context.Context, d time.Duration, r *Result) error {
	var index uint64
	if err := e.say(ctx, control{Do: "begin"}); err != nil {
		return err
	}
	order := control{Do: "send", For: d, Bytes: smallBytes}
	if err := e.say(ctx, order); err != nil {
		return err
	}
	if _, err := e.flood(ctx, order, &index); err != nil {
		return err
	}
	if _, err := e.await(ctx, "sent", d); err != nil {
		return err
	}
	here, err := e.hashed(ctx)
	if err != nil {
		return err
	}
	there, err := e.await(ctx, "hashed", 0)
	if err != nil {
		return err
	}
	r.Messages, r.Wrong = r.Messages+here.Messages+there.Messages, r.Wrong+here.Wrong+there.Wrong
	if r.SameOrder = here.Hash == there.Hash; !r.SameOrder {
		r.Wrong++
	}
	return nil
}
