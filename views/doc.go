// Package views describes the membership of a group and the roles of its members.
//
// A View is immutable: an id, the members in order of seniority (rank), their addresses, and the
// subgroups with their members, senders and sizes. The leader that proposes a view computes it once
// (Place) and sends it as a value; every member that installs it lays out the same table from it. A
// view has a Subgroup for every shard of every declaration, in that order, whether the shard has
// members or not: index i means the same subgroup in all views of a group. A Subgroup without
// members is not provisioned.
//
// Invariants of a view, checked by View.Validate on everything that arrives from elsewhere:
//
//	V1  member ids are distinct, and there is at least one member
//	V2  a subgroup's members are distinct, in rank order and ranks of this view; its senders are
//	    among its members
//	V3  ring and window are powers of two within the limits of package smc
//	V4  the shards of a subgroup follow each other from 0, are of one kind, and no member is in two
//	    of them
//	V11  a persistent subgroup has members only if one of them has all of its log, or no process
//	     ever had any of it
//	V12  a view has the identity of the group of the view before it, and its lineage is that of the
//	     view before it and one link more
//
// How one view follows another is decided by the members: see internal/viewchange, which has V5 to
// V10 and V13 to V15.
package views
