// Package status has the command "squall status", which asks the members of a group how they are.
//
// One member that answers names the others, and each is asked for itself: what a member says of its
// own state and its own log is better than what another one sees of it. gather asks, Report
// compares, and print shows; Report is what --json prints.
package status
