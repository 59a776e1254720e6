// Package core has what a member of a space and a client of it have in common: the state behind a
// *dds.Participant, and the interface Backend, which either of them implements.
//
// Package dds is written over it, and does not know which of the two it has. The client is in
// package dds, and the member in package dds/member, which needs a group: a program that is a
// client only is built without one.
//
// A Participant has one lock, Mu. The goroutine that delivers records or samples locks it once
// for a batch and applies them to Space; readers take samples out of their caches under it. A
// Backend is called where a topic, a writer or a reader comes, changes or goes, and once for each
// sample that is written (Outlet); never for one that is delivered or read.
package core
