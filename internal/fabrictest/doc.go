// Package fabrictest tries the promises of package fabric on any implementation of it, and has the
// smallest one: Memory.
//
// Run takes a function that opens the tables of one view, all of them in this process, and works
// through F1 to F5. Each table is then stepped by a goroutine of its own, as loops do, or by hand
// where the order of steps matters.
//
// Life of a try: opened → stepped until every node is done → closed, and nothing may be left.
//
// What a suite within one process cannot show, because it needs a process that dies or a look at
// its maps, stands in this package's tests.
package fabrictest
