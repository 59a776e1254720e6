package trust

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// three processes of a view.
func three() (ids [3]*Identity, parties [3]Party) {
	for i := range ids {
		ids[i] = NewIdentity()
		parties[i] = Party{Node: uint64(9 - i), Incarnation: uint64(i), PublicKey: ids[i].PublicKey()}
	}
	return ids, parties
}

func TestT1OnlyThePairHasItsKey(t *testing.T) {
	ids, p := three()
	s := Scope{Group: "g", Cluster: "c", View: 7, Key: "k"}
	key := func(i int, purpose Purpose, s Scope, self, peer Party) Key {
		t.Helper()
		k, err := ids[i].Key(purpose, s, self, peer)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	common := key(0, Rows, s, p[0], p[1])
	if common != key(1, Rows, s, p[1], p[0]) {
		t.Error("the two ends of a pair have different keys")
	}
	seen := map[Key]string{common: "the pair's"}
	other := func(name string, k Key) {
		if before, is := seen[k]; is {
			t.Errorf("%s is %s", name, before)
		}
		seen[k] = name
	}
	other("that of another pair", key(0, Rows, s, p[0], p[2]))
	other("that of the others", key(1, Rows, s, p[1], p[2]))
	other("for another purpose", key(0, State, s, p[0], p[1]))
	again, moved := p[1], p[1]
	again.Incarnation++
	moved.Node++
	other("with another incarnation", key(0, Rows, s, p[0], again))
	other("with another node", key(0, Rows, s, p[0], moved))
	for name, change := range map[string]func(*Scope){
		"in another group":              func(s *Scope) { s.Group = "h" },
		"in another cluster":            func(s *Scope) { s.Cluster = "d" },
		"in another view":               func(s *Scope) { s.View++ },
		"in a view with another key":    func(s *Scope) { s.Key = "l" },
		"with text moved between names": func(s *Scope) { s.Group, s.Cluster = "gc", "" },
	} {
		elsewhere := s
		change(&elsewhere)
		other(name, key(0, Rows, elsewhere, p[0], p[1]))
	}
	// Member 2 knows all of this, and puts its own record, or a copy of another one, in the place
	// of member 1's.
	if _, err := ids[2].Key(Rows, s, p[1], p[0]); !errors.Is(err, ErrUnproven) {
		t.Errorf("a process computes a key of others: %v", err)
	}
	posing := p[1]
	posing.PublicKey = ids[2].PublicKey()
	other("that of another process with the same id", key(2, Rows, s, posing, p[0]))
}

func TestAPublicKeyThatGivesEverybodyTheSameSecretIsRefused(t *testing.T) {
	ids, p := three()
	for _, weak := range []PublicKey{{}, {1}} {
		p[1].PublicKey = weak
		if _, err := ids[0].Key(Rows, Scope{}, p[0], p[1]); !errors.Is(err, ErrUnproven) {
			t.Errorf("%v: %v", weak, err)
		}
	}
}

func TestT2T3AMACCoversEveryValueAndWhoSaysIt(t *testing.T) {
	ids, p := three()
	k, err := ids[0].Key(Greet, Scope{}, p[0], p[1])
	if err != nil {
		t.Fatal(err)
	}
	challenge, later := NewNonce(), NewNonce()
	m := k.MAC(Dialer, challenge, "said")
	if err := k.Check(m, Dialer, challenge, "said"); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"T2: of another challenge": k.Check(m, Dialer, later, "said"),
		"T3: by the other side":    k.Check(m, Listener, challenge, "said"),
		"with another value":       k.Check(m, Dialer, challenge, "sa"),
		"with a value more":        k.Check(m, Dialer, challenge, "said", ""),
		"without a value":          k.Check(m, Dialer, challenge),
		"none":                     k.Check(MAC{}, Dialer, challenge, "said"),
		"of another key":           Key{}.Check(m, Dialer, challenge, "said"),
	} {
		if !errors.Is(err, ErrUnproven) {
			t.Errorf("a MAC %s passes", name)
		}
	}
}

func TestADigestIsReadAsItWasWrittenAndNotOtherwise(t *testing.T) {
	d := NewNonce()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var got Digest
	if err := json.Unmarshal(text, &got); err != nil || got != d || len(text) != 45 {
		t.Errorf("%s: %v, %v", text, got, err)
	}
	for _, bad := range []string{`""`, `"x"`, `7`, `"` + strings.Repeat("A", 42) + `"`, `"` + strings.Repeat("A", 44) + `"`, `"` + strings.Repeat("A", 42) + `B"`,
		`"` + strings.Repeat("A", 43) + `="`, `"` + strings.Repeat("A", 1000) + `"`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is read as %v", bad, got)
		}
	}
}

func TestATagNamesAViewAndDoesNotTellItsKey(t *testing.T) {
	s := Scope{Group: "g", Cluster: "c", View: 1, Key: "secret"}
	seen := map[string]bool{s.Tag(): true}
	for _, o := range []Scope{{"g", "c", 2, "secret"}, {"g", "c", 1, "other"}, {"g", "d", 1, "secret"}, {"h", "c", 1, "secret"}} {
		if seen[o.Tag()] {
			t.Errorf("%+v has the tag of another view", o)
		}
		seen[o.Tag()] = true
	}
	if strings.Contains(s.Tag(), "secret") {
		t.Error("it tells the key")
	}
}

func TestSecretsThatAreRememberedAreBounded(t *testing.T) {
	i := NewIdentity()
	self := Party{Node: 1, PublicKey: i.PublicKey()}
	for range maxSecrets + 10 {
		if _, err := i.Key(Rows, Scope{}, self, Party{Node: 2, PublicKey: NewIdentity().PublicKey()}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(i.secrets); n > maxSecrets {
		t.Errorf("%d secrets are remembered", n)
	}
}

func BenchmarkGreeting(b *testing.B) {
	ids, p := three()
	for b.Loop() {
		clear(ids[0].secrets) // a peer that is met for the first time
		k, err := ids[0].Key(Rows, Scope{Cluster: "c", View: 1, Key: "k"}, p[0], p[1])
		if err != nil {
			b.Fatal(err)
		}
		if m := k.MAC(Dialer, p[0].PublicKey, "hello"); k.Check(m, Dialer, p[0].PublicKey, "hello") != nil {
			b.Fatal("it does not prove anything")
		}
	}
}
