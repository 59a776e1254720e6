// Package rtps is a gateway between programs of other implementations of DDS and the topics of a
// space: RTPS 2 over UDP on one side, the order of the space on the other.
//
//	kind, err := rtps.TypeOf[Position]()
//	g, err := rtps.Open(ctx, rtps.Config{
//		Member: m, Interface: "lo",
//		Topics: []rtps.Topic{{Name: "positions", Type: kind, Direction: rtps.Both}},
//	})
//
// In a domain of DDS the gateway is a participant. Which topics it carries, in which direction and
// with which policies is its configuration; it carries no other topic.
//
// Life of a sample that comes in: written by a DDS program → received, in the order of its writer →
// carried into the space by the gateway that is appointed, under the writer's GUID and the sample's
// number → in the order, at every member → acknowledged to the DDS writer; in a space that is
// Persistent, of a topic that is persistent, once it is on the disks of all members.
//
// Life of a sample that goes out: in the order → taken by the reader of the appointed gateway →
// written by the RTPS writer that stands for its writer in the space → acknowledged by all DDS
// readers that are reliable.
//
// Several gateways may be members of a space on one side. Each of them receives; the first one in
// the order of the space carries, and another one goes on when it has ended. A sample that both
// carry takes effect once. These hold:
//
//	RG1  a sample is acknowledged to its DDS writer only when it is in the order, or on the disks of a persistent topic
//	RG2  a sample of a reliable DDS writer is in the order once, also when the gateway that carries it ends and another one goes on
//	RG3  a sample does not go out on a side, and does not come into a space, on which or in which it was before
//
// The machine of the protocol is in dds/rtps/internal/protocol, the encoding in
// dds/rtps/internal/wire. One lock guards the machine and the samples that come in; the gateway
// calls the space without the lock.
package rtps
