// Package remote is what a client of a topic space and its relay, a member, say to each other, and
// what decides at the client which samples of a writer are sent again.
//
// Each of them sends frames, in both directions of one connection: a length, a kind, and a body.
// Frames of samples have a fixed layout, the others CBOR.
//
// Life of a sample of a client: put into the Outbox, with the next number of its writer → sent to
// the relay → put into the order by the relay, as a sample of an origin → acknowledged, when it has
// its position, or is on the disks → dropped from the Outbox. With another relay, Resume says which
// samples the order has, and the others are sent again. What the order has twice, it drops by its
// number.
//
// The package is pure.
package remote
