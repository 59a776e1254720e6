// Package callers tells whether the code that runs was called by a certain function.
package callers

import (
	"reflect"
	"runtime"
	"sync/atomic"
)

// Set is the goroutines that run certain functions.
//
// A goroutine is in the set if one of the functions on its stack is Run of this set. The runtime
// tells which functions are on a stack, and nothing of their arguments. So Run calls f by way of
// functions that spell the number of the set in binary: begin, and then one function for each
// digit, the lowest one first. The zero value is empty.
type Set struct {
	number  atomic.Uint32 // 0: Run was never called
	running atomic.Int32
}

// numbers is the number of the newest set; the first one is 1.
var numbers atomic.Uint32

// Run calls f; meanwhile the calling goroutine is in the set.
func (s *Set) Run(f func()) {
	s.running.Add(1)
	defer s.running.Add(-1)
	if s.number.Load() == 0 {
		s.number.CompareAndSwap(0, numbers.Add(1))
	}
	begin(s.number.Load(), f)
}

//go:noinline
func begin(number uint32, f func()) { next(number, f) }

//go:noinline
func zero(number uint32, f func()) { next(number, f) }

//go:noinline
func one(number uint32, f func()) { next(number, f) }

func next(number uint32, f func()) {
	switch {
	case number == 0:
		f()
	case number&1 == 0:
		zero(number>>1, f)
	default:
		one(number>>1, f)
	}
}

// IsEmpty reports whether no goroutine is in the set.
func (s *Set) IsEmpty() bool { return s.running.Load() == 0 }

// HasCaller reports whether the calling goroutine is in the set. It costs one load if the set is
// empty, and otherwise microseconds: it is for places where a goroutine is about to wait.
func (s *Set) HasCaller() bool {
	if s.IsEmpty() {
		return false
	}
	var number uint32
	for function := range functions {
		switch function {
		case zeroName:
			number <<= 1
		case oneName:
			number = number<<1 | 1
		case beginName:
			if number == s.number.Load() {
				return true
			}
			number = 0
		}
	}
	return false
}

var beginName, zeroName, oneName = nameOf(begin), nameOf(zero), nameOf(one)

func nameOf(f func(uint32, func())) string {
	return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
}

// Calls returns how many calls of the functions with the given names, with the path of the package
// as the runtime has them, the caller is in. The functions must not be inlined.
func Calls(names ...string) (n int) {
	for function := range functions {
		for _, name := range names {
			if function == name {
				n++
			}
		}
	}
	return n
}

// functions yields the functions on the stack, the innermost one first.
func functions(yield func(name string) bool) {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			// Also of a function that is inlined there is a pc, of its call in the other one.
			if f := runtime.FuncForPC(pc - 1); f != nil && !yield(f.Name()) {
				return
			}
		}
		if n < len(pcs) {
			return
		}
	}
}
