package multicast

import (
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// Counters of a subgroup's control line.
const (
	wordSkipped   sst.Counter[order.Index] = 0
	wordSent      sst.Counter[order.Index] = 1
	wordPosition  sst.Counter[uint64]      = 2
	wordPersisted sst.Counter[order.Seq]   = 3
	wordWhole     sst.Counter[uint64]      = 4
	wordDelivered sst.Counter[order.Seq]   = 5
	wordReceived  sst.Counter[order.Seq]   = 6
)

// wordNames are the names of these counters.
var wordNames = []string{"skipped", "sent", "position", "persisted", "whole", "delivered", "received"}

// Columns is the place of a subgroup's columns in each row that has them.
type Columns struct {
	line  []int      // by place among the members
	taken []int      // the same; unordered mode only
	rings []sst.Area // by sender rank
}

// Declare lays a subgroup out in the rows of its members.
func Declare(l *sst.Layout, sg views.Subgroup) Columns {
	c := Columns{line: make([]int, 0, len(sg.Members)), rings: make([]sst.Area, 0, len(sg.Senders))}
	for _, r := range sg.Members {
		c.line = append(c.line, l.Line(r, sg.Name, wordNames...))
		if sg.Mode == views.Unordered {
			c.taken = append(c.taken, l.Vector(r, sg.Name+".taken", len(sg.Senders)))
		}
	}
	for _, r := range sg.Senders {
		c.rings = append(c.rings, l.Bytes(r, smc.AreaBytes(sg.RingBytes, sg.Window)))
	}
	return c
}

// Message is one delivered message. Data points into the ring, or to the body of a large one, and
// is good until the upcall returns.
type Message struct {
	Data   []byte
	Sender order.NodeID
	View   order.ViewID
	Seq    order.Seq // its place in the order; in unordered mode its number at its sender
	// Time is, in persistent mode, that of its version in the log; in the others 0.
	Time order.Time
	body *Body
}

// Body is what a large message's Data is: a caller that holds it may keep Data beyond the upcall.
// It is nil for other messages.
func (m Message) Body() *Body { return m.body }

// replayed is the body of all messages that come out of a log, which have no other one.
var replayed Body

// Replayed makes a message of a record that comes out of a log. It is for the application alone.
func Replayed(v order.Version, t order.Time, sender order.NodeID, data []byte) Message {
	return Message{Data: data, Sender: sender, View: v.View, Seq: v.Seq, Time: t, body: &replayed}
}

// Replayed reports whether the body is that of messages that come out of a log.
func (b *Body) Replayed() bool { return b == &replayed }

// Version is the message's place in the order across views.
func (m Message) Version() order.Version { return order.Version{View: m.View, Seq: m.Seq} }
