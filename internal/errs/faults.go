package errs

import (
	"errors"
	"fmt"
)

// Faults collects everything that is wrong with a configuration, to report all of it at once.
type Faults struct {
	Kind   error  // each fault wraps it, unless it is nil
	Prefix string // of each fault
	All    []error
}

// Add adds a fault.
func (f *Faults) Add(format string, args ...any) {
	err := fmt.Errorf(f.Prefix+format, args...)
	if f.Kind != nil {
		err = fmt.Errorf("%w: %w", f.Kind, err)
	}
	f.All = append(f.All, err)
}

// If adds a fault if something is bad.
func (f *Faults) If(bad bool, format string, args ...any) {
	if bad {
		f.Add(format, args...)
	}
}

// Wrap adds an error, unless it is nil, and says of what it is.
func (f *Faults) Wrap(what string, err error) { f.If(err != nil, "%s: %w", what, err) }

// Join adds errors of other checks as they are; nil ones are none.
func (f *Faults) Join(errs ...error) {
	for _, err := range errs {
		if err != nil {
			f.All = append(f.All, err)
		}
	}
}

// Err returns all faults, or nil.
func (f *Faults) Err() error { return errors.Join(f.All...) }
