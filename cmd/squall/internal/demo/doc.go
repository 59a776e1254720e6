// Package demo is the command "squall demo": processes on this machine send the lines of a text, and all of them deliver the
// same sequence.
//
// Life of a run: the parent reads the text and starts the members, each with every N-th line → they form a group and are
// ready → "send": all send at once, each delivers everything and reports what that took (loaded) → "probe", one member after
// the other: a closed loop of single messages while nobody else sends (unloaded) → "leave": all close, at about the same time → the parent
// compares the digests and prints the table.
//
// If a member goes before its time, the parent waits a moment for the others to notice, so that the error can say who went
// and what it looked like from there; then it ends them all.
package demo
