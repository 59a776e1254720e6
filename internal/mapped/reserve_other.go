//go:build !linux && !darwin

package mapped

import (
	"errors"
	"os"
)

func reserve(*os.File, int64) error { return errors.ErrUnsupported }
