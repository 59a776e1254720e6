package sim

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var updateFlag = flag.Bool("update", false, "write the traces of testdata/scenarios anew")

// Each file of testdata/scenarios is a case that breaks other implementations. See Script for what
// is in one.
func TestEveryNamedScenario(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no scenarios")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { follow(t, file) })
	}
}

func follow(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseScript(file, text)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := s.Play()
	if err != nil {
		t.Fatalf("%v\n\n%s", err, trace)
	}
	if *updateFlag {
		if err := os.WriteFile(file, []byte(s.With(trace)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if trace != s.Golden() {
		t.Errorf("%s: the trace is another one (-args -update writes it): %s", file, firstDifference(s.Golden(), trace))
	}
	if again, _ := s.Play(); again != trace {
		t.Errorf("%s: two runs differ: %s", file, firstDifference(trace, again))
	}
}

func firstDifference(want, got string) string {
	wants, gots := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wants), len(gots)) {
		if wants[i] != gots[i] {
			return "\n- " + wants[i] + "\n+ " + gots[i]
		}
	}
	return "one of them is longer"
}

// The error of a wrong script names the line, and what is expected there.
func TestAMistakeInAScriptHasItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"members 1 2\n":                                   "s.txt:1: begin with a paragraph",
		"# Why.\n":                                        "s.txt: no members",
		"# Why.\nmembers 1 2\nsned 1 2\n":                 `s.txt:3: "sned" is no command`,
		"# Why.\nmembers 1 99\n":                          `s.txt:2: "99" is no node id`,
		"# Why.\nmembers 1 1\n":                           "s.txt:2: node 1 is there already",
		"# Why.\nmembers 1\nrun 1ms\njoiners 2\n":         "s.txt:4: joiners comes before the first thing that happens",
		"# Why.\nmembers 1\nsubgroup a size=3\n":          `s.txt:3: a subgroup has no "size"`,
		"# Why.\nmembers 1\none look\n":                   `s.txt:3: "look" is nothing that a step does`,
		"# Why.\nmembers 1\ndelay 1 2 soon\n":             "s.txt:3: time: invalid duration",
		"# Why.\nmembers 1\ndelay 1 2 1ms\n":              "s.txt: delay: there is no node 2",
		"# Why.\nmembers 1 2\n\nsend 3 1\n":               "s.txt:4: there is no node 3",
		"# Why.\nmembers 1 2\nsend 1 1 b\n":               `s.txt:3: there is no subgroup "b"`,
		"# Why.\nmembers 1 2\njoiners 3\nsend 3 1\n":      "s.txt:4: node 3 has no process",
		"# Why.\nmembers 1 2\ncommit 1\n":                 "s.txt:3: node 1 has no open claim",
		"# Why.\nmembers 1 2\ncut 1 1\n":                  "s.txt:3: usage: cut FROM TO",
		"# Why.\nmembers 1 2\nrun until 1 dances\n":       `s.txt:3: "dances" is no move: use suspects, proposes`,
		"# Why.\nmembers 1 2\nrun until 1 proposes\n":     "s.txt:3: node 1 never proposes",
		"# Why.\nmembers 1 2\ncrash 2 as it decides\n":    "s.txt:3: node 2 never decides",
		"# Why.\nmembers 1 2 3\nexpect view 2 of 1 2\n":   "s.txt:3: node 1 is in view 1 of 1 2 3",
		"# Why.\nmembers 1 2\nexpect delivered 1 at 2\n":  "s.txt:3: node 2 was given 0 messages",
		"# Why.\nmembers 1 2\nexpect halted 2 evicted\n":  "s.txt:3: node 2 halted because of: <nil>",
		"# Why.\nmembers 1 2\nexpect unable 2\n":          "s.txt:3: whether node 2 may send: <nil>",
		"# Why.\nmembers 1 2\nexpect probe ring fool\n":   `s.txt:3: "ring fool" is no probe`,
		"# Why.\nmembers 1 2\nexpect probe ring full\n":   "s.txt:3: the run did not come to this: ring full",
		"# Why.\nmembers 1 2\nclaim 1\nrun until quiet\n": "s.txt:4: still in flight: something that an application does",
	} {
		s, err := ParseScript("s.txt", []byte(text))
		if err == nil {
			_, err = s.Play()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, not %q", text, err, want)
		}
	}
}

// The checkers look at scenarios too.
func TestACheckerEndsAScript(t *testing.T) {
	s, err := ParseScript("s.txt", []byte("# Why.\nmembers 1 2\nsend 1 3\nrun until quiet\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.play(Options{Lie: TakesAgain}); err == nil || !strings.Contains(err.Error(), "is violated") || !strings.HasPrefix(err.Error(), "s.txt:4: ") {
		t.Errorf("a message is offered again and again, and the end is: %v", err)
	}
}

// What only one disk has left is lost in one way or another if a program is at fault there: that is
// found out.
func TestALogThatIsGoneEndsAScript(t *testing.T) {
	for _, test := range []struct {
		what, file, says string
		fault            DiskBug
	}{
		{"a restart passes over a shard", "shard_waits_for_its_only_whole_log", "said to be on every disk", DeafToLacks},
		{"the one that has it takes over the log of whoever answers", "who_comes_back_asks_one_in_no_shard", "said to be on every disk", AheadOfAnybody},
	} {
		text, err := os.ReadFile("testdata/scenarios/" + test.file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseScript("s.txt", text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.play(Options{Disk: test.fault}); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s, and the end is: %v", test.what, err)
		}
	}
}
