// Package lint holds the rules of this repository that no tool knows: which package may import
// which, what a pure package must not touch, how long files and functions may be, and that every
// numbered invariant is executed somewhere.
//
// It has tests only. Each rule is a function from the parsed files to their faults; a test runs it
// over all modules, and another runs it over small sources that break it, because a rule that finds
// nothing may just not look. Only the standard library's parser and type checker are used.
//
// Every new package gets a place in the table of imports_test.go.
package lint
