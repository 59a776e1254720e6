// Package stream is the protocol of byte streams between two services, as frames that a channel of
// a pair carries in order and without loss.
//
// One side opens a stream; the other one accepts or resets it. Then both write bytes. Either side
// ends its own direction, or resets both directions. A frame is a message whose id says what it is:
//
//	id:   ┌── number of the stream (60 bits) ──┬ answer (1 bit) ┬ kind (3 bits) ┐
//
// The side that opens a stream numbers it. answer is set in frames of the other side.
//
//	open    with a limit: the other side may write so many bytes. It asks for the stream
//	credit  with a limit: the receiver of the frame may write so many bytes, since the beginning. The first one accepts the stream
//	data    with bytes
//	end     the sender of the frame writes no more
//	reset   with a reason: the sender of the frame does not know the stream any more
//
// Life of a byte, as positions in one direction: read ≤ received ≤ sent ≤ limit ≤ read + window.
// Bytes that are received and not read are in a buffer of the stream and not in the ring of the
// pair, so that a stream without a reader blocks no other stream. The window bounds the buffer.
//
// Invariants:
//
//	RS1  the numbers of the streams that a side opens only grow, and a frame names a stream that was opened
//	RS2  the bytes of a stream are read once each, in the order in which they were written
//	RS3  a side sends no byte at or above the limit that the other side gave, and more is a violation
//	RS4  a limit only grows, and the bytes that are received and not read are at most a window
//	RS5  after its end a side sends no data and no second end
//	RS6  a reader that has read everything learns of the end only if the other side ended the stream; of a stream that was reset it learns
//	     the reason
//	RS7  a side has at most so many streams open as the other side allows; the others are refused and leave nothing behind
//
// The caller guards a table and its streams with one lock.
package stream
