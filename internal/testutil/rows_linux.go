package testutil

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// OwnRows returns the rows of shared memory that this process may write: what a hostile process can
// change without any help of the library.
func OwnRows() (all [][]byte) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uintptr
		var mode string
		if !strings.Contains(lines.Text(), "memfd:squall-row") {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err == nil && strings.HasPrefix(mode, "rw") {
			all = append(all, unsafe.Slice(*(**byte)(unsafe.Pointer(&from)), to-from))
		}
	}
	return all
}
