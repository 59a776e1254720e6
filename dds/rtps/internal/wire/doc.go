// Package wire is the encoding of RTPS 2: messages and their submessages, parameter lists, and what
// discovery says in them.
//
// A message is a header and submessages, each with a byte order of its own. Decoder takes a message
// apart without a copy: what it returns lies in the message. Appender puts messages together, in
// little endian. Parameter lists are read by Parameters, and Participant and Endpoint are the two
// kinds of them that discovery exchanges.
//
// Nothing of the input is trusted: every length, count and offset is compared with the bytes that
// remain before anything is read or allocated, and a submessage that is malformed ends its message.
// Kinds of submessages and parameters that are unknown are skipped, but for parameters that must be
// understood.
package wire
