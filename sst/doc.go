// Package sst is the shared state table: rows of monotonic counters, one row per member, each
// written by its owner only.
//
// A Counter is a column: one word of a control line, and the type of what it counts. A Layout
// assigns each line its offset. Every layer that writes columns declares their line, for every row
// that has it, in the order of rank and subgroup, so that all members compute the same layout from
// the same view. A Table is a layout on the memory of a fabric.Table: it hands out lines and areas,
// and pushes them.
//
// A value that is more than a word lies in an Area. Its owner writes and pushes the area, and then
// stores and pushes the counter that covers it. A member that loads the counter sees the value (F2
// of package fabric). The rings of package smc, and the records of a view change, are such values.
//
// Life of a counter: declared (Lines) → stored by its owner → pushed → loaded by the others, one
// load per step → final, once its row is frozen: Freeze ends all that a failed member may still
// say.
//
// Invariants:
//
//	D1  counters start at zero and only grow within a view; position n covers [0, n)
//	D2  a word has one writer: the loop of the row's owner
//	D3  a row has space for the subgroups its owner is in, and for nothing else
//	D4  of two words of a row of which one must be loaded first, that one lies first: a row that is
//	    frozen is copied from its start, while its owner may go on
//
// Source: Derecho's SST as Spindle §2.2 describes it; the layout in lines is Squall's.
package sst
