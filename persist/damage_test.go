package persist

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

// filled makes a store whose values take several pages, and returns what meta.db holds.
func filled(t *testing.T, c Config) (values map[string][]byte, file []byte) {
	t.Helper()
	s := mustOpen(t, c)
	values = map[string][]byte{}
	for i := range 300 {
		values[fmt.Sprintf("key %03d", i)] = bytes.Repeat([]byte{byte(i)}, 10+i%200)
	}
	values["large"] = bytes.Repeat([]byte("large"), 5000)
	if err := s.Put(values); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	file, err := os.ReadFile(filepath.Join(c.Dir, engine.MetaFile))
	if err != nil {
		t.Fatal(err)
	}
	return values, file
}

// Every byte of the file that matters is either checked or gives what was put. A page that is not
// in use may hold anything.
func TestADamagedMetaIsNamedOrChangesNothing(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	values, file := filled(t, c)
	rounds := 400
	if testing.Short() {
		rounds = 80
	}
	rnd := rand.New(rand.NewPCG(5, 1))
	found := 0
	for range rounds {
		broken := bytes.Clone(file)
		at := rnd.IntN(len(broken))
		what := "cut"
		switch rnd.IntN(4) {
		case 0:
			broken = broken[:at]
		case 1:
			what = "zeros"
			clear(broken[at:min(at+512, len(broken))])
		default:
			what = "a flipped bit"
			broken[at] ^= 1 << rnd.IntN(8)
		}
		if harm(t, c, values, broken, fmt.Sprintf("%s at %d", what, at)) {
			found++
		}
	}
	if found == 0 {
		t.Error("nothing was found")
	}
}

// harm opens a store whose meta.db was changed and reports whether that was said.
func harm(t *testing.T, c Config, values map[string][]byte, file []byte, what string) bool {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.Dir, engine.MetaFile), file, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), c)
	if err != nil {
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), engine.MetaFile) {
			t.Fatalf("%s: %v", what, err)
		}
		return true
	}
	defer mustClose(t, s)
	for key, want := range values {
		if have, err := s.Get(key); err != nil || !bytes.Equal(have, want) {
			t.Fatalf("%s: %s reads %d bytes, %v", what, key, len(have), err)
		}
	}
	return false
}

func TestADamagedHeadOfMetaDoesNotBringBackWhatWasBefore(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	_, file := filled(t, c)
	for page := range 2 {
		broken := bytes.Clone(file)
		broken[page*os.Getpagesize()+40]++
		if err := os.WriteFile(filepath.Join(c.Dir, engine.MetaFile), broken, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), c)
		refused(t, err, ErrDamaged, engine.MetaFile, "1 of its 2 head pages")
	}
}

func TestADamagedLabelIsNamed(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	mustClose(t, mustOpen(t, c))
	path := filepath.Join(c.Dir, engine.IdentityFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole[:len(whole)-1] {
		broken := bytes.Clone(whole)
		broken[at] ^= 1
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), c); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d (%q to %q): %v", at, whole[at], broken[at], err)
		}
	}
}

func TestAPanicOfAnEngineIsAnError(t *testing.T) {
	t.Parallel()
	err := engine.Guard("here/meta.db", func() error { panic("page 7 already freed") })
	refused(t, err, ErrDamaged, "here", "page 7 already freed", "move the directory away")
}
