// Package sst is the shared state table: rows of monotonic counters, one row per member, each
// written by its owner only.
//
// A Layout assigns each column its offset. Every layer that writes a column declares it, for every
// row that has the column, in the order of rank and subgroup, so that all members compute the same
// layout from the same view. A Table is a layout on the memory of a fabric.Table: it hands out
// lines and areas, and pushes them.
//
// Life of a counter: declared (Line) → stored by its owner → pushed → loaded by the others, one
// load per step.
//
// Invariants:
//
//	D1  counters start at zero and only grow within a view; position n covers [0, n)
//	D2  a word has one writer: the loop of the row's owner
//	D3  a row has room for the subgroups its owner is in, and for nothing else
//
// Source: Derecho's SST as Spindle §2.2 describes it; the layout in lines is Squall's.
package sst
