// Package ripc carries messages from one process to one other, at the speed of memory where both are on one host. It is in progress:
// docs/ripc.md says what is there.
package ripc
