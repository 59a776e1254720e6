package show

import (
	"io"
	"sync"
)

// Output is the standard output of a command. It keeps the first error of writing, so that a
// command that checks no single write does not succeed when its output is lost.
type Output struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

// NewOutput returns an output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{to: w} }

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// Err returns the first error of writing.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
