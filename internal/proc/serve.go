package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"
)

// ErrParentGone is why a child's context ended when its standard input did.
var ErrParentGone = errors.New("the parent process closed the connection")

// grace is how long a child's function may take to return after its parent is gone.
const grace = 5 * time.Second

// ahead is how many lines of the parent wait for a Receive before the input is read no further, and
// its end not noticed.
const ahead = 64

// Parent is a child's side of the conversation.
type Parent struct {
	config json.RawMessage
	lines  chan json.RawMessage // closed when the input ends; inErr then says why
	inErr  error

	mu  sync.Mutex // of out
	out *json.Encoder
}

// Serve runs a child's function, with a context that ends with the parent and the configuration
// that the parent sent, and returns its error. An interrupt from the terminal reaches all processes
// of a job; children leave it to their parent.
func (c Program) Serve(ctx context.Context, input io.Reader, output io.Writer) error {
	signal.Ignore(os.Interrupt)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in := bufio.NewReader(input)
	p := &Parent{lines: make(chan json.RawMessage, ahead), out: json.NewEncoder(output)}
	var err error
	if p.config, err = in.ReadBytes('\n'); err != nil {
		return fmt.Errorf("%s is started by other commands of this program, not by hand: no configuration on standard input: %w", c.Name, err)
	}
	go p.listen(ctx, in, cancel)
	return c.Run(ctx, p)
}

// listen reads the parent's lines. When they end, listen ends the context and, if that does not
// help, the process: the parent is gone and could not end it.
func (p *Parent) listen(ctx context.Context, in *bufio.Reader, cancel context.CancelCauseFunc) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			p.inErr = ErrParentGone
			if !errors.Is(err, io.EOF) {
				p.inErr = fmt.Errorf("%w: %w", ErrParentGone, err)
			}
			close(p.lines)
			cancel(p.inErr)
			time.AfterFunc(grace, func() { os.Exit(1) })
			return
		}
		select {
		case p.lines <- line:
		case <-ctx.Done():
			return
		}
	}
}

// Config reads the configuration into v.
func (p *Parent) Config(v any) error {
	if err := json.Unmarshal(p.config, v); err != nil {
		return fmt.Errorf("configuration from the parent: %.80q: %w", p.config, err)
	}
	return nil
}

// Send writes a value to the parent. It may be called from any goroutine.
func (p *Parent) Send(v any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Encode(v); err != nil {
		return fmt.Errorf("send to the parent: %w", err)
	}
	return nil
}

// Receive reads the parent's next value into v, and waits for it until ctx ends. It fails with
// ErrParentGone when none will come.
func (p *Parent) Receive(ctx context.Context, v any) error {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return p.inErr
		}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("receive from the parent: %.80q: %w", line, err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
