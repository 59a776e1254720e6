// Package goroutine tells goroutines apart.
package goroutine

import (
	"bytes"
	"runtime"
	"strconv"
)

// ID returns the number of the calling goroutine, which no other one has had before, or 0 if it
// cannot be told. The runtime shows it in stack traces only, so that ID costs a microsecond or
// more: it is for places where a goroutine is about to wait, and never for the path of a message.
func ID() uint64 {
	var buf [64]byte
	return parse(buf[:runtime.Stack(buf[:], false)])
}

// parse reads the number out of a trace, which begins with "goroutine 7 [running]:".
func parse(trace []byte) uint64 {
	rest, ok := bytes.CutPrefix(trace, []byte("goroutine "))
	if !ok {
		return 0
	}
	digits, _, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return 0
	}
	id, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
