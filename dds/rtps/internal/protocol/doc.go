// Package protocol is a participant of RTPS as a function of what it is given: messages, time, and
// samples to write. It discovers other participants and their writers and readers, matches them
// with its own, and moves samples between them, best effort or reliably.
//
// Life of a sample that comes in: a DATA, or all its fragments, arrives → it is put in the order of
// its writer's numbers → the host gets it → the host says that it may be acknowledged → the writer
// is told, in the answer to its next heartbeat or as soon as one is due.
//
// Life of a sample that goes out: written, and numbered → sent to each reader as far as its window
// goes → acknowledged by all reliable readers → forgotten, unless the writer is durable and keeps
// it for readers that come later.
//
// These hold for every participant:
//
//	RT1  the host gets the samples of a reliable writer in the order of their numbers, each once, and none that the writer still had is left out
//	RT2  a writer is never told that a sample has arrived which the host has not acknowledged
//	RT3  a reliable writer keeps a sample until every reliable reader that matches it has acknowledged it; one of discovery, until it is replaced
//	RT4  what is kept for a peer is bounded: held samples, fragments, endpoints, and samples that readers have not acknowledged; held samples,
//	     fragments and endpoints of all peers together, too; of a peer that has proved nothing, only its addresses
//	RT5  until a peer has proved that it receives at its address, at most three bytes leave for it for each byte that came from it, with the
//	     headers of IPv4 and UDP
//
// A peer is a participant that was discovered, with the time until which it is believed to be
// there. A proxy is a writer's idea of one reader that matches it, or a reader's of one writer.
// Each has one owner, the Participant, whose methods are not called concurrently.
//
// The package is pure: time comes with each call, messages and news go to the Host.
package protocol
