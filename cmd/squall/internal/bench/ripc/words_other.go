//go:build !linux

package ripc

import (
	"context"
	"errors"
)

// words need a segment that two processes map by its number, which only Linux offers.
type words struct{}

func (w *words) listen() (string, error)               { return "", errors.ErrUnsupported }
func (w *words) connect(context.Context, string) error { return errors.ErrUnsupported }
func (w *words) serve()                                {}
func (w *words) once(context.Context, int) error       { return errors.ErrUnsupported }
func (w *words) received(context.Context) (int, error) { return 0, errors.ErrUnsupported }
func (w *words) close() error                          { return nil }
