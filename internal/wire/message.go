package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteMessage sends v as a frame of kind Message, in one write. Nothing is sent of a message that
// is too large.
func WriteMessage(to io.Writer, v any) error {
	frame, err := encode(v)
	if err == nil {
		seal(Message, frame)
		_, err = to.Write(frame)
	}
	if err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	return nil
}

// ReadMessage receives one message of at most so many bytes into v, and never reads a byte beyond
// it: other traffic may follow on the connection. A connection that ended between messages gives
// io.EOF, one that ended within a message io.ErrUnexpectedEOF.
func ReadMessage(from io.Reader, most int, v any) error {
	f := frames{in: from, most: most}
	k, bytes, err := f.next()
	if err == nil {
		err = message(k, bytes, v)
	}
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	return nil
}

// message is what a frame says, which must be a message.
func message(k Kind, bytes []byte, v any) error {
	if k != Message {
		return fmt.Errorf("%w: a frame of kind %d instead of a message", ErrCorrupt, k)
	}
	return Decode(bytes, v)
}

// encode makes a frame of a value.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxMessageBytes {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(text), MaxMessageBytes)
	}
	return append(NewFrame(len(text)), text...), nil
}

// Decode reads JSON that came in a frame. Unmarshal, and not a Decoder: it takes the bytes to be
// one value and refuses anything behind it.
func Decode(bytes []byte, v any) error {
	if err := json.Unmarshal(bytes, v); err != nil {
		return fmt.Errorf("%w: %d bytes: %w", ErrMalformed, len(bytes), err)
	}
	return nil
}

// Clip bounds a text that came from elsewhere, or goes there.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
