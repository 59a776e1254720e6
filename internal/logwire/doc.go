// Package logwire reads logs over the port's connections of kind log, in conversations of package
// wire: for a process that asks a member, and for a member that brings its own log up to another
// one's.
//
// Life of a conversation: challenged → admitted, or refused → requests, one after the other, each
// answered by frames that finish with an end. While nothing else is said, both sides pulse. A
// stream that broke is asked for again, from behind the last record that came: a few times by a
// process that reads what is there, and by one that follows until the member is back.
//
//	reader                                         member
//	                                     ◀───────  {format, nonce}
//	{format, cluster, group, nonce, proof} ──────▶
//	                                     ◀───────  {group, proof}, or why not
//	request {list|info|get|at|probe|…}   ───────▶
//	                                     ◀───────  infos, marks, records or bytes; pulses; end, or why not
//	pulses                               ───────▶
//
// A catch-up is a task of package catchup over such a conversation. If the source fails, another
// one is asked, and what is here stays.
//
// Invariants:
//
//	LW1  a reader gets records in the order of their versions and times, within what it asked for,
//	     each from a frame whose checksum is right
//	LW2  what a peer says of lengths takes no memory: it is taken as bytes arrive, and bounded
//	LW3  a catch-up that succeeds leaves the log that its source has, up to what was asked for, and
//	     durable
//	LW4  however slow readers are, a member holds one frame for each, and serves a bounded number of
//	     them
//	LW5  nothing is cut, and nothing is taken, of a source that does not prove that it is of the
//	     group whose log this is
//	LW6  a reader is told nothing of a log before it has proved the group's secret in this
//	     conversation, shown a certificate, or the logs are open
package logwire
