package logs

import (
	"os"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// Every command of docs/logs.md works, and prints what stands there. Sizes of files depend on the
// machine.
func TestTheDocumentIsTrue(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	addr, _ := running(t, records(25)...)
	keys := keyFile(t, 1, 2, 3)
	t.Chdir(t.TempDir())
	if err := os.Rename(keys, "members.keys"); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"node1", "node2", "node3"} {
		node := order.NodeID(i + 1)
		dir := stopped(t, name, node, persist.LogConfig{ID: orders, Sign: keyOf(node)}, records(25-2*(i%2))...)
		inGroup(t, dir, node)
		if err := os.Rename(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	checked := 0
	for _, block := range strings.Split(string(text), "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for _, entry := range strings.Split(block, "$ squall log ")[1:] {
			line, want, _ := strings.Cut(entry, "\n")
			t.Run(line, func(t *testing.T) { documented(t, line, want, addr) })
			checked++
		}
	}
	if checked < 12 {
		t.Errorf("only %d commands were found", checked)
	}
}

// documented runs a command of the document, unless it follows a log for ever. Without output
// there, any will do.
func documented(t *testing.T, line, want, addr string) {
	line, _, _ = strings.Cut(line, " |")
	args := split(strings.ReplaceAll(line, "localhost:7400", addr))
	if strings.Contains(line, " -f") {
		understood(t, args)
		return
	}
	got := must(t, args...)
	masked := func(s string) string {
		if !strings.HasPrefix(line, "ls") {
			return s
		}
		return sizes.ReplaceAllStringFunc(s, func(s string) string { return strings.Repeat("#", len(s)) })
	}
	if want != "" && masked(got) != masked(want) {
		t.Errorf("it prints\n%s", got)
	}
}

// understood checks that a line has a command, flags and arguments that there are.
func understood(t *testing.T, args []string) {
	t.Helper()
	sub, rest, err := NewCommand().Find(args)
	if err != nil || !sub.Runnable() || sub.ParseFlags(rest) != nil || sub.ValidateArgs(sub.Flags().Args()) != nil {
		t.Errorf("%q: %v", args, err)
	}
}
