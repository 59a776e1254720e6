package demo

import (
	"strings"
	"testing"
)

func TestMarksAtTheSameMessageMustBeEqual(t *testing.T) {
	for _, c := range []struct {
		first, second mark
		want          string // empty: they agree
	}{
		{mark{What: atCount, Messages: 7, Digest: "aa"}, mark{What: atEnd, Messages: 7, Digest: "aa"}, ""},
		{mark{What: atCount, Messages: 7, Digest: "aa"}, mark{What: atRestore, Messages: 8, Digest: "bb"}, ""},
		{mark{What: atCount, Messages: 7, Digest: "aa"}, mark{What: atRestore, Messages: 7, Digest: "bb"},
			"after 7 messages node 1 has the digest aa, and node 2 has bb"},
		{mark{What: atViewEnd, View: 3, Messages: 7, Digest: "aa"}, mark{What: atViewEnd, View: 4, Messages: 7, Digest: "aa"}, ""},
		{mark{What: atViewEnd, View: 3, Messages: 7, Digest: "aa"}, mark{What: atViewEnd, View: 3, Messages: 8, Digest: "bb"},
			"view 3 ended with message 7 at node 1, and with message 8 at node 2"},
	} {
		l := newLedger()
		if err := l.note("node 1", c.first); err != nil {
			t.Fatal(err)
		}
		switch err := l.note("node 2", c.second); {
		case (err == nil) != (c.want == ""):
			t.Errorf("%+v: %v", c, err)
		case err != nil && err.Error() != c.want:
			t.Errorf("%v\nnot\n%s", err, c.want)
		}
	}
}

func TestADigestIsShownInPartAndComparedWhole(t *testing.T) {
	const shown = "0123456789ab"
	l := newLedger()
	l.note("node 1", mark{Digest: shown + "c"})
	if err := l.note("node 2", mark{Digest: shown + "d"}); err == nil || !strings.HasSuffix(err.Error(), shown) {
		t.Error(err)
	}
}
