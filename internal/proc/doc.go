// Package proc starts this executable again as member processes, talks with them in lines of JSON,
// and has them stand still, go on and end. Tests of several processes, "squall demo" and "squall
// bench" all start theirs with it.
//
// Life of a child: Start runs a hidden command of this executable → the first line on its standard
// input is its configuration → both sides Send and Receive, a line a value → it may stand still
// (Stop) and go on (Continue), any number of times → the child's function returns, or the parent
// kills it, also while it stands still → its standard output ends, so Receive fails with an Exit
// that says which child it was and how it went.
//
// No child outlives its parent. On Linux the kernel kills it with the parent, whatever the parent
// dies of; everywhere the end of its standard input ends the context that its function runs under,
// and after a while the process itself.
//
// Standard error is for people: the parent keeps the last lines of it and shows them only if the
// child failed.
package proc
