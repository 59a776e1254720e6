package squall

import (
	"unsafe"

	"github.com/squall-go/squall/internal/multicast"
)

// Message is one delivered message.
type Message struct {
	Data   []byte // valid until the callback returns: it is part of the ring, or the body of a large message
	Sender NodeID
	View   ViewID
	Seq    Seq  // the position in the order; in Unordered mode the number of the message at its sender
	Time   Time // of the message's version in the log; 0 if the subgroup is not Persistent

	body *multicast.Body
}

// Version is the message's position in the order across views.
func (m Message) Version() Version { return Version{View: m.View, Seq: m.Seq} }

// Replayed reports whether the message comes out of the log: this process starts, or has entered
// the shard, and the application has restored the state of the log's snapshot. Replayed messages
// come before all others. The message may have been delivered to an earlier process with this log
// already.
func (m Message) Replayed() bool { return m.body.Replayed() }

// Body returns the content of a large message, and nil for other messages and for replayed ones. A
// caller that holds it may read Data after the callback.
func (m Message) Body() *Body {
	if m.Replayed() {
		return nil
	}
	return (*Body)(unsafe.Pointer(m.body))
}

// Body is the content of a large message. A goroutine that holds it may read it, until it releases
// it.
type Body struct{ body multicast.Body }

// Bytes returns the content.
func (b *Body) Bytes() []byte { return b.body.Data }

// File returns the file that has the content, if SubgroupConfig.LargeDir is set, or "" if the
// content is in memory. The file exists as long as the body is held.
func (b *Body) File() string { return b.body.File }

// Hold keeps the body until one more Release, and returns it. The caller holds the body already, or
// is in the callback of its message.
func (b *Body) Hold() *Body {
	b.body.Hold()
	return b
}

// Release ends one hold. When the last one has ended the content is freed.
func (b *Body) Release() { b.body.Release() }

// messages returns a run of messages of the core as the application sees them: the same memory,
// under the type of this package. TestMessagesOfTheCoreAreMessages compares the two layouts.
func messages(run []multicast.Message) []Message {
	return unsafe.Slice((*Message)(unsafe.Pointer(unsafe.SliceData(run))), len(run))
}
