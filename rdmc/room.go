package rdmc

import "github.com/squall-go/squall/internal/shared"

// ErrNoMemory says that a message does not fit into the memory that this machine has free.
var ErrNoMemory = shared.ErrNoMemory

// MakeRoom makes memory for a message that is to come, of so many bytes, or fails with ErrNoMemory.
// It is what Incoming does by default.
func MakeRoom(size int64) ([]byte, error) {
	if err := shared.Fits(size); err != nil {
		return nil, err
	}
	return make([]byte, size), nil
}
