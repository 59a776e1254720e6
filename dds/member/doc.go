// Package member makes a process a member of a group with a space of topics, as package dds
// describes them, and has members serve clients.
//
//	m, err := member.Open(ctx, member.Config{Group: squall.Config{ … }, Subgroup: squall.SubgroupConfig{Name: "fleet"}})
//	positions, err := dds.NewTopic(ctx, m, "positions", dds.CBOR[Position](), dds.QoS{Durability: qos.Transient})
//
// A member has the state of the space: its topics, writers, readers, matches and histories. Every
// member delivers all records of the space, in one order, and so all have the same state at the
// same position. What a process does is a record: its own call returns when the record is applied
// here.
//
// A member serves clients with Serve: the Relay opens writers and readers for them, puts their
// samples into the order, and sends to them what their readers are to have.
package member
