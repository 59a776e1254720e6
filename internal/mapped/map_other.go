//go:build !unix

package mapped

import (
	"errors"
	"os"
)

func mapFile(*os.File, int, bool) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmap([]byte) error                          { return nil }
func isFull(error) bool                           { return false }
