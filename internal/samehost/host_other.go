//go:build !linux

package samehost

import (
	"context"
	"errors"
	"math"
)

// segment does not exist here.
type segment struct {
	id  ID
	fd  int
	mem []byte
}

var errNone = errors.New("shared memory needs Linux")

func newSegment(int) (*segment, error) { return nil, errNone }
func (*segment) drop() error           { return nil }
func freeMemory() int64                { return math.MaxInt64 }

// TotalMemory is not known here.
func TotalMemory() int { return math.MaxInt }

// listener does not exist here.
type listener struct{}

func newListener(*Space, int, func(remote string, err error)) (*listener, error) { return nil, errNone }
func (*listener) close()                                                         {}
func (*listener) name() string                                                   { return "" }

func ask(context.Context, string, ID) ([]byte, error) { return nil, errNone }
func unmap([]byte)                                    {}

// Reach always fails here.
func Reach(context.Context, string) error { return errNone }

// Host is empty: there are no abstract sockets here.
func Host() string { return "" }
