//go:build !linux

package ripc

import (
	"context"
	"errors"
)

// LocalServices needs Linux.
func LocalServices(context.Context) ([]LocalService, error) { return nil, errors.ErrUnsupported }
