// Package figures is what the benchmarks say of their measurements: a figure of several runs, beside its limit, and what is asked of it.
//
// Life of a figure: one value a run, in the order of the runs → its median and range → the ratio to the limit, run by run → held against its bar →
// a row of a table, for people or in Markdown.
//
// A ratio is always that of two runs of one round, which saw the same machine. Of no runs every figure is 0, and no table fails for want of them.
package figures
