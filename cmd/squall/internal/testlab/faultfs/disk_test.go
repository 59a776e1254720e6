package faultfs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

// program uses a disk without a mount.
type program struct {
	t *testing.T
	*Disk
}

func (p program) root() *node { return p.nodes[rootNode] }

func (p program) must(errno syscall.Errno) {
	p.t.Helper()
	if errno != 0 {
		p.t.Fatal(errno)
	}
}

func (p program) create(dir *node, name string, isDir bool) *node {
	p.t.Helper()
	n := p.node(isDir, 0o700)
	p.must(p.rename(nil, slot{dir, name, n}))
	return n
}

func (p program) put(n *node, data string, off int64) {
	p.t.Helper()
	p.must(p.write(n, []byte(data), off, false))
}

func (p program) syncs(nodes ...*node) {
	p.t.Helper()
	for _, n := range nodes {
		kind := Data
		if n.dir {
			kind = Names
		}
		p.must(p.sync(n.number, kind))
	}
}

// tree is all that programs see below a directory.
func tree(dir *node, prefix string) (all []string) {
	for name, n := range dir.names {
		if n.dir {
			all = append(all, prefix+name+"/")
			all = append(all, tree(n, prefix+name+"/")...)
			continue
		}
		have := make([]byte, n.seen.size)
		n.seen.read(have, 0)
		all = append(all, fmt.Sprintf("%s%s=%s", prefix, name, have))
	}
	slices.Sort(all)
	return all
}

func (p program) sees(what string, want ...string) {
	p.t.Helper()
	if have := tree(p.root(), ""); !slices.Equal(have, want) {
		p.t.Errorf("%s: there is %q, want %q", what, have, want)
	}
}

// A file needs its own sync and that of its directory, and a directory that of the one above it.
func TestWhatIsNotSyncedGoesWithThePower(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(p program)
		want  []string // if nothing that was not synced has arrived
		whole []string // if all has
	}{
		{"a file without any sync", func(p program) {
			p.put(p.create(p.root(), "f", false), "abc", 0)
		}, nil, []string{"f=abc"}},
		{"a file without its name", func(p program) {
			f := p.create(p.root(), "f", false)
			p.put(f, "abc", 0)
			p.syncs(f)
		}, nil, []string{"f=abc"}},
		{"a name without its file", func(p program) {
			f := p.create(p.root(), "f", false)
			p.put(f, "abc", 0)
			p.syncs(p.root())
		}, []string{"f="}, []string{"f=abc"}},
		{"both, and then more", func(p program) {
			f := p.create(p.root(), "f", false)
			p.put(f, "abc", 0)
			p.syncs(f, p.root())
			p.put(f, "XYZ", 1)
		}, []string{"f=abc"}, []string{"f=aXYZ"}},
		{"a directory without its name", func(p program) {
			d := p.create(p.root(), "d", true)
			p.create(d, "f", false)
			p.syncs(d)
		}, nil, []string{"d/", "d/f="}},
		{"a file that was cut", func(p program) {
			f := p.create(p.root(), "f", false)
			p.put(f, "abc", 0)
			p.syncs(f, p.root())
			p.must(p.change(f, change{resize: true, size: 1}))
		}, []string{"f=abc"}, []string{"f=a"}},
		{"a file that was removed", func(p program) {
			f := p.create(p.root(), "f", false)
			p.syncs(f, p.root())
			p.must(p.rename(nil, slot{p.root(), "f", nil}))
		}, []string{"f="}, nil},
		{"a file that was replaced", func(p program) {
			f, g := p.create(p.root(), "f", false), p.create(p.root(), "g", false)
			p.put(f, "old", 0)
			p.put(g, "new", 0)
			p.syncs(f, g, p.root())
			p.must(p.rename(nil, slot{p.root(), "g", nil}, slot{p.root(), "f", g}))
		}, []string{"f=old", "g=new"}, []string{"f=new"}},
		{"a file that went to another directory, of which one was synced", func(p program) {
			d := p.create(p.root(), "d", true)
			f := p.create(p.root(), "f", false)
			p.syncs(p.root())
			p.must(p.rename(nil, slot{p.root(), "f", nil}, slot{d, "f", f}))
			p.syncs(d)
		}, []string{"d/", "d/f="}, []string{"d/", "d/f="}},
	} {
		for fate, want := range map[Fate][]string{Nothing: c.want, Everything: c.whole} {
			p := program{t, New(1)}
			c.do(p)
			p.Settle(fate)
			p.sees(fmt.Sprintf("%s, fate %d", c.name, fate), want...)
			p.Settle(Nothing)
			p.sees("nothing more goes", want...)
		}
	}
}

// Any version of a sector may be there, sectors are whole, and what was written in one piece may be
// in several.
func TestWritesArriveBySectors(t *testing.T) {
	const sectors = 3
	found := map[Fate]map[string]bool{Prefix: {}, Scattered: {}}
	for seed := range uint64(400) {
		for fate, outcomes := range found {
			p := program{t, New(seed)}
			f := p.create(p.root(), "f", false)
			fill := func(c byte) {
				b := make([]byte, sectors*512)
				for i := range b {
					b[i] = c
				}
				p.put(f, string(b), 0)
			}
			fill('a')
			p.syncs(f, p.root())
			fill('b')
			fill('c')
			p.Settle(fate)
			have := tree(p.root(), "")[0][len("f="):]
			short := ""
			for i := 0; i < len(have); i += 512 {
				for j := range 512 {
					if have[i+j] != have[i] {
						t.Fatalf("seed %d: byte %d of a sector is %q, its first one %q", seed, j, have[i+j], have[i])
					}
				}
				short += have[i : i+1]
			}
			outcomes[short] = true
		}
	}
	for _, o := range []string{"aaa", "baa", "bbb", "cbb", "ccb", "ccc"} {
		if !found[Prefix][o] {
			t.Errorf("a prefix never was %s: %v", o, found[Prefix])
		}
	}
	if n := len(found[Prefix]); n != 7 {
		t.Errorf("prefixes were %v", found[Prefix])
	}
	if n := len(found[Scattered]); n != 27 {
		t.Errorf("%d of the 27 ways to scatter were found: %v", n, found[Scattered])
	}
}

// Operations on names come with the operations that they need, and otherwise in any combination.
func TestNamesArriveWithWhatTheyFollow(t *testing.T) {
	found := map[string]bool{}
	for seed := range uint64(300) {
		p := program{t, New(seed)}
		d := p.create(p.root(), "d", true)
		f := p.create(d, "f", false)
		p.syncs(d, p.root())
		p.must(p.rename(nil, slot{d, "f", nil}, slot{p.root(), "g", f})) // 1
		p.must(p.rename(d, slot{p.root(), "d", nil}))                    // 2, after 1
		p.create(p.root(), "h", false)                                   // 3
		p.must(p.rename(nil, slot{p.root(), "g", nil}))                  // 4, after 1
		p.Settle(Scattered)
		found[fmt.Sprint(tree(p.root(), ""))] = true
	}
	want := map[string]bool{}
	for _, s := range []string{"d/ d/f=", "d/ g=", "g=", "d/", ""} {
		want["["+s+"]"] = true
		with := "h="
		if s != "" {
			with = s + " h="
		}
		want["["+with+"]"] = true
	}
	for o := range found {
		if !want[o] {
			t.Errorf("there was %s", o)
		}
	}
	if len(found) != len(want) {
		t.Errorf("there were %v, want %v", found, want)
	}
}

// Whatever is done to a disk: a file that was synced after its last change, under a name that was,
// is there as it was.
func TestWhatIsSyncedStays(t *testing.T) {
	seed := testutil.Seed(t)
	t.Log("seed", seed)
	for round := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, round))
		p := program{t, New(seed + round)}
		names := []string{"a", "b", "c"}
		stays := map[string]string{} // what must be there
		for range 40 {
			name := names[dice.IntN(len(names))]
			f := p.root().names[name]
			switch what := dice.IntN(10); {
			case f == nil:
				p.create(p.root(), name, false)
				delete(stays, name)
			case what < 5:
				p.put(f, string(make([]byte, dice.IntN(3000))), dice.Int64N(3000))
				p.put(f, fmt.Sprint(dice.Uint64()), dice.Int64N(3000))
				delete(stays, name)
			case what < 6:
				p.must(p.change(f, change{resize: true, size: dice.Int64N(4000)}))
				delete(stays, name)
			case what < 7:
				to := names[dice.IntN(len(names))]
				if to == name {
					continue
				}
				p.must(p.rename(nil, slot{p.root(), name, nil}, slot{p.root(), to, f}))
				delete(stays, name)
				delete(stays, to)
			default:
				p.syncs(f, p.root())
				have := make([]byte, f.seen.size)
				f.seen.read(have, 0)
				stays[name] = string(have)
			}
		}
		p.Settle(Drawn)
		have := tree(p.root(), "")
		for name, content := range stays {
			if !slices.Contains(have, name+"="+content) {
				t.Fatalf("seed %d, round %d: %s is not as it was synced", seed, round, name)
			}
		}
	}
}

func TestASyncThatFailsIsNotMadeUpForByTheNext(t *testing.T) {
	p := program{t, New(1)}
	f := p.create(p.root(), "f", false)
	p.syncs(f, p.root())
	p.Fail(Faults{Sync: Fault{Err: syscall.EIO, At: 1}, Fate: Nothing})
	p.put(f, "abc", 0)
	if errno := p.sync(f.number, File); errno != syscall.EIO {
		t.Fatal(errno)
	}
	p.sees("before the power goes", "f=abc")
	p.syncs(f)
	p.Settle(Everything)
	p.sees("after it went", "f=")
}

func TestFaultsHappenWhereAndWhenTheyShould(t *testing.T) {
	p := program{t, New(1)}
	f, g := p.create(p.root(), "f", false), p.create(p.root(), "g", false)
	p.Fail(Faults{Write: Fault{Err: syscall.ENOSPC, At: 2}, Where: func(path string) bool { return path == "f" }})
	for i, want := range []syscall.Errno{0, syscall.ENOSPC, 0} {
		p.put(g, "1", 0)
		if errno := p.write(f, []byte("1"), 0, false); errno != want {
			t.Errorf("write %d: %v, want %v", i+1, errno, want)
		}
	}
	p.Fail(Faults{Sync: Fault{Err: syscall.EIO, Chance: 0.5}})
	failed := 0
	for range 1000 {
		if p.sync(f.number, Data) != 0 {
			failed++
		}
	}
	if failed < 400 || failed > 600 {
		t.Errorf("%d of 1000 syncs failed", failed)
	}
}

func TestADiskThatLiesLosesWhatItSaysIsSynced(t *testing.T) {
	p := program{t, New(1)}
	p.Fail(Faults{Lies: func(s Synced) bool { return s == Synced{"f", Data} }})
	for _, name := range []string{"f", "g"} {
		n := p.create(p.root(), name, false)
		p.put(n, "abc", 0)
		p.syncs(n, p.root())
	}
	p.Settle(Nothing)
	p.sees("after the power went", "f=", "g=abc")
}

func TestSyncsAreCountedByPathAndKind(t *testing.T) {
	p := program{t, New(1)}
	d := p.create(p.root(), "d", true)
	f := p.create(d, "f", false)
	p.syncs(f, f, d, p.root())
	p.must(p.sync(f.number, File))
	p.must(p.write(f, []byte("abc"), 0, true))
	want := map[Synced]int{{"d/f", Data}: 2, {"d/f", File}: 1, {"d", Names}: 1, {"", Names}: 1, {"d/f", Through}: 1}
	if have := p.Syncs(); fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("there were %v, want %v", have, want)
	}
}

// A sync that takes its time covers what was there when it began, and ends when the power does.
func TestASlowSyncCoversWhatCameBeforeIt(t *testing.T) {
	p := program{t, New(1)}
	f := p.create(p.root(), "f", false)
	p.put(f, "a", 0)
	p.syncs(p.root())
	p.Fail(Faults{Delay: time.Hour})
	ended := make(chan syscall.Errno)
	go func() { ended <- p.sync(f.number, Data) }()
	for p.Syncs()[Synced{"f", Data}] == 0 {
		time.Sleep(time.Millisecond)
	}
	p.power.Cut()
	if errno := <-ended; errno != syscall.EIO {
		t.Fatal(errno)
	}
	p.Settle(Nothing)
	p.sees("after a sync that did not end", "f=")
	p.Fail(Faults{Delay: time.Microsecond})
	f = p.root().names["f"]
	p.put(f, "b", 0)
	p.syncs(f)
	p.put(f, "c", 0)
	p.Settle(Nothing)
	p.sees("after a sync that ended", "f=b")
}

func TestContentsAreReadAsTheyWereWritten(t *testing.T) {
	seed := testutil.Seed(t)
	t.Log("seed", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	var c content
	var model []byte
	for range 3000 {
		switch dice.IntN(4) {
		case 0:
			size := dice.Int64N(20000)
			c.resize(size)
			model = append(model, make([]byte, 20000)...)[:size]
		default:
			data, off := make([]byte, dice.IntN(9000)), dice.IntN(12000)
			for i := range data {
				data[i] = byte(dice.Uint32())
			}
			c.write(data, int64(off))
			if short := off + len(data) - len(model); len(data) > 0 && short > 0 {
				model = append(model, make([]byte, short)...)
			}
			copy(model[min(off, len(model)):], data)
		}
		from := dice.IntN(20000)
		have := make([]byte, dice.IntN(9000))
		have = have[:c.read(have, int64(from))]
		if want := model[min(from, len(model)):min(from+len(have), len(model))]; c.size != int64(len(model)) || string(have) != string(want) {
			t.Fatalf("%d bytes at %d of %d differ, or are %d", len(have), from, len(model), c.size)
		}
	}
}
