package join

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

// identity closes its lock at the end of the test.
func identity(t *testing.T, dir string, chosen order.NodeID) (order.NodeID, uint64, *Lock) {
	t.Helper()
	id, incarnation, lock, err := Identity(dir, chosen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	return id, incarnation, lock
}

func TestANodeKeepsItsIDAndHasANewIncarnationEachTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "is", "made")
	first, one, lock := identity(t, dir, 0)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	second, other, lock := identity(t, dir, 0)
	if first == 0 || first>>63 != 0 || second != first || one == 0 || other == one {
		t.Fatalf("%d.%d, then %d.%d", first, one, second, other)
	}
	lock.Close()
	if third, _, _ := identity(t, dir, first); third != first {
		t.Fatalf("%d", third)
	}
	left, _ := os.ReadDir(dir)
	for _, f := range left {
		if f.Name() != idFile && f.Name() != lockFile {
			t.Errorf("%s is left behind", f.Name())
		}
	}
}

func TestAChosenIDIsKept(t *testing.T) {
	dir := t.TempDir()
	_, _, lock := identity(t, dir, 42)
	lock.Close()
	if data, err := os.ReadFile(filepath.Join(dir, idFile)); string(data) != "42\n" {
		t.Fatalf("%q, %v", data, err)
	}
	_, _, _, err := Identity(dir, 43)
	expectError(t, err, ErrOtherID, filepath.Join(dir, idFile), "node 42", "node 43")
	if id, _, _ := identity(t, dir, 0); id != 42 { // the failure has released the lock
		t.Fatal(id)
	}
}

func TestWithoutADirectoryNothingIsKept(t *testing.T) {
	if id, incarnation, lock := identity(t, "", 7); id != 7 || incarnation == 0 || lock != nil {
		t.Fatal(id, incarnation, lock)
	}
	one, _, _ := identity(t, "", 0)
	other, _, _ := identity(t, "", 0)
	if one == 0 || one == other {
		t.Fatal(one, other)
	}
}

func TestADamagedIDIsNamedAndLeftAlone(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "cut off": "12", "zero": "0\n", "no number": "seven\n", "signed": "+7\n", "padded": "007\n",
		"too large": "99999999999999999999\n", "followed": "7\n8\n", "long": strings.Repeat("7", 1<<20), "binary": "\x00\x01\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, idFile)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, _, err := Identity(dir, 7)
			expectError(t, err, ErrBadID, path)
			if len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if data, _ := os.ReadFile(path); string(data) != content {
				t.Errorf("it was changed to %q", data)
			}
		})
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, idFile), 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, _, err := Identity(dir, 0)
	expectError(t, err, nil, filepath.Join(dir, idFile))
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, _, err = Identity(file, 0)
	expectError(t, err, nil, file)
}

// A process that stopped in the midst of writing leaves a file that is not read.
func TestHalfAWrittenIDIsNone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, idFile+".new"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	id, _, _ := identity(t, dir, 77)
	if data, err := os.ReadFile(filepath.Join(dir, idFile)); id != 77 || string(data) != strconv.Itoa(77)+"\n" {
		t.Fatalf("%d, %q, %v", id, data, err)
	}
	if _, err := os.Stat(filepath.Join(dir, idFile+".new")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestOnlyOneProcessUsesADirectory(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("there is no lock on this system")
	}
	dir := t.TempDir()
	_, _, lock := identity(t, dir, 7)
	_, _, _, err := Identity(dir, 7)
	expectError(t, err, ErrDirInUse, filepath.Join(dir, lockFile))
	lock.Close()
	identity(t, dir, 7)
}
