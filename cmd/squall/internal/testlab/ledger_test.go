package testlab

import (
	"strings"
	"testing"
)

func TestMarksAtTheSameMessageMustBeEqual(t *testing.T) {
	for _, c := range []struct {
		first, second Mark
		want          string // empty: they agree
	}{
		{Mark{At: AtCount, Messages: 7, Digest: "aa"}, Mark{At: AtEnd, Messages: 7, Digest: "aa"}, ""},
		{Mark{At: AtCount, Messages: 7, Digest: "aa"}, Mark{At: AtRestore, Messages: 8, Digest: "bb"}, ""},
		{Mark{At: AtCount, Messages: 7, Digest: "aa"}, Mark{At: AtRestore, Messages: 7, Digest: "bb"},
			"after 7 messages node 1 has the digest aa, and node 2 has bb"},
		{Mark{At: AtViewEnd, View: 3, Messages: 7, Digest: "aa"}, Mark{At: AtViewEnd, View: 4, Messages: 7, Digest: "aa"}, ""},
		{Mark{At: AtViewEnd, View: 3, Messages: 7, Digest: "aa"}, Mark{At: AtViewEnd, View: 3, Messages: 8, Digest: "bb"},
			"view 3 ended with message 7 at node 1, and with message 8 at node 2"},
	} {
		var l Ledger
		if err := l.Note("node 1", c.first); err != nil {
			t.Fatal(err)
		}
		switch err := l.Note("node 2", c.second); {
		case (err == nil) != (c.want == ""):
			t.Errorf("%+v: %v", c, err)
		case err != nil && err.Error() != c.want:
			t.Errorf("%v\nnot\n%s", err, c.want)
		}
	}
}

func TestADigestIsShownInPartAndComparedWhole(t *testing.T) {
	const shown = "0123456789ab"
	var l Ledger
	l.Note("node 1", Mark{Digest: shown + "c"})
	if err := l.Note("node 2", Mark{Digest: shown + "d"}); err == nil || !strings.HasSuffix(err.Error(), shown) {
		t.Error(err)
	}
}

func TestStatesOfMembersThatDiffer(t *testing.T) {
	account := func(who string, s State, lives ...uint64) Account {
		return Account{who, &Answer{States: []State{{}, s}, Lives: []Lives{nil, lives}}}
	}
	whole := State{Messages: 40, Digest: "aa", Versions: 7}
	shorter, others, moved := whole, whole, whole
	shorter.Messages, others.Digest, moved.Versions = 39, "bb", 8
	for want, second := range map[string]Account{
		"": account("node 2", whole, 0, 20, 20),
		"node 1 has 40 messages with digest aa, and node 2 has 39 with aa": account("node 2", shorter, 0, 20, 20),
		"node 1 has 40 messages with digest aa, and node 2 has 40 with bb": account("node 2", others, 0, 20, 20),
		"of [0 20 20], and node 2 has":                                     account("node 2", moved, 0, 20, 20),
		"of [0 21 19]":                                                     account("node 2", whole, 0, 21, 19),
	} {
		faults := Differ([]Account{account("node 1", whole, 0, 20, 20), second})
		if len(faults) != min(len(want), 1) || !strings.Contains(strings.Join(faults, "; "), want) {
			t.Errorf("%q, not %q", faults, want)
		}
	}
	if faults := Differ(nil); faults != nil {
		t.Error(faults)
	}
}
