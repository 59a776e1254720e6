package rdmc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/background"
	"github.com/squall-go/squall/internal/testutil"
)

// niceThreads counts the threads of this process that move blocks in the background.
func niceThreads(t *testing.T) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("needs /proc: ", err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the thread ended
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if fields[16] == fmt.Sprint(background.Nice) { // field 19 of the file, counted from 1
			n++
		}
	}
	return n
}

func TestThreadsThatMoveBlocksInTheBackgroundAreNiceAndEndWithTheNode(t *testing.T) {
	w := newWorld(t, 3, 0)
	for _, n := range w.nodes {
		n.cfg.Background = true
	}
	all := w.open("background", GroupConfig{})
	if err := all[0].Send(testutil.Within(t), make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	for _, x := range all[1:] {
		<-x.messages
	}
	if niceThreads(t) < 3 { // the root's, and a reader at each receiver
		t.Errorf("%d threads are nice", niceThreads(t))
	}
	for _, n := range w.nodes {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	for ctx := testutil.Within(t); niceThreads(t) > 1; time.Sleep(time.Millisecond) { // the main one cannot end: it is put aside
		if ctx.Err() != nil {
			t.Fatalf("%d threads are still nice", niceThreads(t))
		}
	}
}
