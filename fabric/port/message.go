package port

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxMessageBytes bounds the JSON of one message. It is far more than a view of MaxMembers members takes.
const MaxMessageBytes = 1 << 20

var (
	// ErrMessageTooLarge says that a message, or the length that announces one, exceeds MaxMessageBytes.
	ErrMessageTooLarge = errors.New("message too large")
	// ErrMessageMalformed says that a message is not exactly one JSON value of the expected shape.
	ErrMessageMalformed = errors.New("message malformed")
)

const lengthBytes = 4

// WriteMessage sends v as a u32 little-endian length and that many bytes of JSON, in one write.
func WriteMessage(conn io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("port: write message: %w", err)
	}
	if len(body) > MaxMessageBytes {
		return fmt.Errorf("port: write message: %w: %d bytes of at most %d", ErrMessageTooLarge, len(body), MaxMessageBytes)
	}
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, lengthBytes+len(body)), uint32(len(body)))
	if _, err := conn.Write(append(frame, body...)); err != nil {
		return fmt.Errorf("port: write message: %w", err)
	}
	return nil
}

// ReadMessage receives one message into v and never reads a byte beyond it: other traffic may follow on the connection. A
// connection that ended between messages gives io.EOF, one that ended within a message io.ErrUnexpectedEOF.
func ReadMessage(conn io.Reader, v any) error {
	body, err := readBody(conn)
	if err != nil {
		return fmt.Errorf("port: read message: %w", err)
	}
	// Unmarshal, and not a Decoder: it takes the bytes to be one value and refuses anything behind it.
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("port: read message: %w: %d bytes: %w", ErrMessageMalformed, len(body), err)
	}
	return nil
}

// readBody judges the length before it allocates, and then allocates as bytes arrive: announcing a megabyte costs the
// announcer a megabyte.
func readBody(conn io.Reader) ([]byte, error) {
	var header [lengthBytes]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if length > MaxMessageBytes {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrMessageTooLarge, length, MaxMessageBytes)
	}
	var body bytes.Buffer
	n, err := io.CopyN(&body, conn, int64(length))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%d of %d bytes: %w", n, length, err)
	}
	return body.Bytes(), nil
}
