// Package ripc measures messages between two processes: "squall bench ripc".
//
// One process answers, the other one measures: round trips of messages, messages one way, and calls, one at a time or many at
// once. Beside package ripc stand what the Go standard library offers for the same: plain sockets and net/rpc.
package ripc
