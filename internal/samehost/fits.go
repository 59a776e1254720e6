package samehost

import (
	"errors"
	"fmt"
)

// ErrNoMemory says that this machine has not so much memory free.
var ErrNoMemory = errors.New("not enough memory")

// fewBytes are not worth a look at how much is free.
const fewBytes = 16 << 20

// Fits says whether so many bytes more fit into the memory of this machine. A program that asks for
// more than there is gets killed, so a size that another process claims is not enough.
func Fits(size int64) error {
	if size < fewBytes {
		return nil
	}
	if free := freeMemory(); size > free {
		return fmt.Errorf("%w: %d bytes, %d are free", ErrNoMemory, size, free)
	}
	return nil
}

// Make allocates memory of so many bytes, if it fits.
func Make(size int64) ([]byte, error) {
	if err := Fits(size); err != nil {
		return nil, err
	}
	return make([]byte, size), nil
}
