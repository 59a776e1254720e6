//go:build unix && !solaris && !aix

package join

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is started while the lock is closed has its descriptor for a moment.
func TestADirectoryIsFreeAlthoughAnotherProcessHasTheDescriptor(t *testing.T) {
	dir := t.TempDir()
	_, _, lock := identity(t, dir, 1)
	other, err := unix.Dup(int(lock.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	identity(t, dir, 1)
}
