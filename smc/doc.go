// Package smc is the small-message ring: how one sender's messages lie in its row, and how the
// others find them.
//
// A sender has one stream of records, which goes round its area. A message is one record, in one
// piece; a null takes nothing.
//
//	header, 8 bytes:   ┌─ length, 31 bits ─┬─ kind, 2 ─┬─ gap, 31 ─┐┌─ data, up to a word ─ …
//	                    of the data         small, large, void, pad
//
// The index of a record is not written: it is that of the record before it, plus 1, plus the gap,
// which counts the nulls between the two. So only the first record of a publication has a gap, and
// a receiver that reads a header knows how many nulls come first. A record of kind void stands for
// a null, too: its claim was aborted. A pad has no index: it fills the end of the area where the
// next record does not fit, which follows it at the start. The bits of a gap are a floating-point
// number: one of 2^26 or more is rounded up, so that the message takes a later index.
//
// Of a large message the ring carries only a record, which tells receivers which message it is; the
// body takes another way. The record takes its place in the ring when every member has the body. So
// every published message is complete at every member, and no large message delays others.
//
// Life of a message, as a chain of counters of its sender:
//
//	claimed ≥ ready ≥ published ≥ released    counted in claims, each of which is a record
//	          position                        end of the published records (package multicast owns the word)
//	          sent                            counted in indexes: published plus nulls (the same)
//
// An application sends a message in one step (Send), or claims space, fills it in place and commits
// or aborts (Claim). One goroutine at a time does so: it enters the ring, unless another one is
// inside or has shut it. The word ready has a bit for each, so that leaving costs nothing besides.
// A goroutine that changes what all of them depend on, as at the end of a view, shuts the ring.
//
// The loop publishes the prefix of finished claims: it has the records pushed, then stores
// position, then sent. It looks at no message for that, unless claims were made in place: these
// have a slot each, and while one of them is not published the messages that are sent after it use
// their slots, too. Otherwise the prefix is the number ready. When every member delivered an index,
// the loop releases the record's space. Each publication has a checkpoint, by which its indexes are
// turned into claims.
//
// A receiver loads sent before position. So all records with indexes below that sent end below that
// position, and the indexes from the last record to sent are nulls. It loads a header once, checks
// it, and reads nothing of the record that depends on a second load.
//
// When a view ends, so do its rings. The ring of the next view takes over what was not delivered
// (Sender.Carry): messages that were published or committed are copied, and are unpublished there.
// Of an open claim only the number and the space move; the application goes on filling it where it
// is, learns from Commit that it moved, and has it copied then (Sender.CommitMoved). Until it does,
// that memory must stay (Sender.Foreign). A ring on plain memory keeps what a member cannot send
// for now.
//
//	       released          published        claimed                          ring of view 1
//	──────────┴─ 7 ── 8 ── 9 ───┴─ 10 ── 11 ─────┴──
//	              └─ delivered up to here
//	             ┴─ 8 ── 9 ── 10 ── 11 ──┴──                                   ring of view 2: nothing is published yet
//
// Invariants:
//
//	S1  released ≤ published ≤ claimed ≤ released + window
//	S2  the bytes of claims that are not released do not overlap: end(claimed) − end(released) ≤ area
//	S3  a receiver finds each record that sent covers, and its index, from the records before it: no
//	    record is written over before every member passed it
//	S4  what a receiver takes lies in the area and was published, whatever the headers say
//	S5  a claim is committed or aborted once, whatever rings it moved through
//	S6  what was not delivered when a ring ends moves to the next: each claim once, in its order,
//	    under its number
//	S7  all that moves has space in a ring of the same size
//	S8  a large message is published only when every member of the ring's view has its body, and
//	    delays its sender's later ones until then
//	S9  one goroutine at a time is inside a ring or has shut it
//
// Shared words:
//
//	word                 written by        read by              published by
//	ready                application       loop, application    itself (atomic)
//	slots[i].state       application, loop loop                 itself (atomic); the loop's part is to mark a claim as moved
//	published            loop              application          itself (atomic)
//	freed, freedBytes    loop              application          itself (atomic)
//	starved              application       loop                 itself (atomic); a hint
//	records              application, loop receivers            position; the loop writes gaps, times and voids before
//
// Source: Spindle §2.3; records of any length in one stream instead of fixed slots, and nulls
// without space, are Squall's.
package smc
