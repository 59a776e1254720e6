// Package dds implements publish-subscribe with the terms of DDS: topics with keys and policies.
// All readers of a topic see the same samples in the same order.
//
//	c, err := dds.Dial(ctx, dds.ClientConfig{Cluster: "fleet", Space: "fleet", Addresses: []string{ … }}) // or member.Open
//	positions, err := dds.NewTopic(ctx, c, "positions", dds.CBOR[Position](), dds.QoS{Durability: qos.Transient})
//	w, err := positions.Writer(ctx, dds.QoS{Durability: qos.Transient})
//	r, err := positions.Reader(ctx, dds.QoS{History: qos.KeepAll()})
//	err = w.Write(ctx, Position{Vehicle: 7, X: 1})
//	for s, err := range r.All(ctx) { … s.Value, s.Info.Position … }
//
// # Members and clients
//
// A process uses topics as a member of a group, which package dds/member makes it, or as a client
// of such members (Dial). Topics, writers and readers are the same for both. A program that imports
// this package only is built without the group's code.
//
// # Spaces
//
// The topics of a participant are a space: one subgroup of a group, in which every member has the
// same topics, writers, readers, matches and histories. Topics come and go while the members run.
// The order is one for all topics of the space, and its positions are numbers: Info.Position.
//
// A match has a position, too. A reader gets everything that was written after the position at
// which it was opened; Writer.Matched waits for readers, so that no first sample is missed. A
// reader of a durable topic begins with the history at its position.
//
// # Policies
//
// Package qos has the policies and says what each of them does. A set that is not supported is
// refused, by the call that has it. The level of storage follows from two policies and the mode of
// the subgroup:
//
//	RELIABLE, VOLATILE                     Ordered     samples are for the readers that are there
//	RELIABLE, TRANSIENT_LOCAL, TRANSIENT   Ordered     the members have the history, and a new member gets it
//	RELIABLE, PERSISTENT                   Persistent  … and so do the disks
//
// BEST_EFFORT is for readers that would rather lose samples than block the writers when they are
// slow. The order is the same.
//
// # Keys
//
// Fields with the tag `dds:"key"` are the key, for all codecs; package cdr has the types that they
// may have.
//
// # Waiting
//
// A RELIABLE reader that is bounded (RESOURCE_LIMITS) and full blocks the delivery at its
// process, and with it in the end the writers, until samples are taken. Calls on a participant must
// not be made in its function Events.
package dds
