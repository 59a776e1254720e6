package relay

// Effects are what a driver has to do, in the order of the fields. The caller owns and reuses them:
// Relay appends.
type Effects struct {
	Frames []Outbound
	Calls  []Call
}

// Outbound is a control frame on its way to a place.
type Outbound struct {
	To int
	Control
}

// CallKind says what the application is told.
type CallKind uint8

// What the application is told. Calls are made one after the other, in the order in which they were
// asked for.
const (
	MakeRoom   CallKind = iota + 1 // give memory for a message, and tell with Room; from then on blocks may come
	Completed                      // a message is here, and nothing here touches its memory any more; then Heard
	Aborted                        // a message was given up, and nothing here touches its memory any more; then Heard
	Withdrawn                      // a message that was completed here was given up: others may not have it
	Failed                         // the group failed, and nothing here touches any memory any more
	Sent                           // the root's: the memory of a message is free
	Everywhere                     // the root's: all members have it, or with an error: it was given up, and no member has memory for it any more
)

// Call is one thing that the application is told.
type Call struct {
	Kind   CallKind
	Number uint64 // Sent and Everywhere: as Start returned it
	Index  uint64 // the others: the message
	Tag    uint64
	Size   int64
	Err    error // Aborted, Failed; Sent and Everywhere: nil if they are true
	InView bool  // Completed: it is not copied, and the application looks at it until Released
	Seen   bool  // Sent, with an error: others may look at the memory for ever
}

// Reset empties effects, and keeps their memory.
func (e *Effects) Reset() {
	clear(e.Calls) // so that errors do not stay alive
	clear(e.Frames)
	e.Frames, e.Calls = e.Frames[:0], e.Calls[:0]
}

func (e *Effects) call(c Call) { e.Calls = append(e.Calls, c) }
