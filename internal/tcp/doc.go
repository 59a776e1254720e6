// Package tcp is the fabric link between hosts: rows follow over one TCP connection per pair.
//
// A push marks ranges dirty. A flush writes, in one vectored non-blocking write, one frame: the
// ranges straight from the row, then the control lines as they are at that moment. If the socket is
// full, the rest of the frame waits, and what is pushed meanwhile coalesces (fabric.Pending): what
// a slow peer costs is bounded by the row. Receiving reads straight into the replica; the lines of
// a frame are stored together, when all of it is here, so they overtake neither its ranges nor each
// other (F2). All of this happens in the polling thread. Where the socket cannot be polled (TLS, or
// away from Linux), a reader and a writer goroutine stand between the socket and the same code.
//
//	frame:  u16 ranges | u16 lines | u32 bytes | u64 view | { u32 off, u32 n } × ranges | bytes | { u64 off, 8 × u64 } × lines
//
// All numbers are little endian; bytes is the sum of the ranges' n.
//
// Invariants, each checked for every frame that arrives; a violation ends the link (F3):
//
//	FT1  a range is not empty and lies in the bytes part of the sender's row
//	FT2  a line lies in the control part of the sender's row, on a line boundary
//	FT3  a frame has at most maxRanges ranges, and no more lines than the row; its bytes are the sum
//	     of its ranges
//	FT4  a frame of an older view is consumed and dropped; one of a later view is a violation
package tcp
