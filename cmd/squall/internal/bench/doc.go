// Package bench is the harness of all measurements: "squall bench" and the commands below it.
//
// A workload is what the processes of one measurement do: package messages streams messages through
// a group, package large sends large messages among small ones, package logs keeps messages on
// disk, package rdmc relays one large message. Each of them has its own flags, cases and bars;
// everything else is here.
//
// Life of a measurement: a Set names cases and the bars that they have to reach → TakeTurns
// measures all cases once, then all again, so that whatever else the machine does hits all of them
// → a case starts a Fleet of processes, which tell where they listen, connect, and answer requests
// → the samples of the processes become one run → the bars are judged over the runs of their cases
// → a Report prints rows, series, JSON and CSV.
package bench
