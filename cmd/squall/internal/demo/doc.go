// Package demo is the command "squall demo": processes on this machine send the lines of a text,
// and all of them deliver the same sequence.
//
// A run is a trial: members are processes of package testlab, which do what the parent tells them,
// and the parent hears what they say.
//
// Life of a run without --chaos and --durable (run): the parent reads the text and starts the
// members, each with every N-th line → they form a group → "send": all send at once, each delivers
// everything and says what that took (loaded) → "probe", one member after the other: a closed loop
// of single messages while no other member sends (unloaded) → "leave": all close, at about the same
// time → the parent compares the digests and prints the table.
//
// If a member goes before its time, the parent waits a moment for the others to notice, so that the
// error can name the member that went and what the others saw; then it ends them all.
//
// Life of a run with --chaos (chaosRun): the parent starts the first members, which form a group
// and send without a pause → at times that a seed gives, one is killed, stopped by the system until
// the others have gone on without it, or told to leave; a new process takes its place, sometimes as
// the same node, and gets the state from the others → when time is up and all places are taken, all
// stop sending, and deliver the rest → the parent compares, prints the table, and all leave.
//
// The state is that of package testlab, whose ledger compares the marks of all members.
//
// Life of a run with --durable (durableRun): the members form a group, send without a pause, and
// say which of their messages are on every disk → half-way the parent kills all of them, and reads
// their logs → it starts them again, in another order; they find each other, agree on what there
// is, and make the state of their logs → all send again, stop, deliver the rest, and leave → the
// parent reads the logs once more, and compares: what was acknowledged is on every disk and in
// every state, which are the same.
//
// Each process has a number of its own, from 1 up, since a node can have several in a run. With
// --chaos and --durable each message has to be the line that its number says.
package demo
