package show

import "testing"

func TestControlCharactersAreNotPrinted(t *testing.T) {
	for text, want := range map[string]string{
		"two words, größer": "two words, größer",
		"two\nlines":        `"two\nlines"`,
		"\x1b[2J":           `"\x1b[2J"`,
		"no text \xff":      `"no text \xff"`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is printed as %s, not %s", text, got, want)
		}
	}
}

func TestALineOfAnErrorHasNoControlCharacters(t *testing.T) {
	if got := Line("squall\x00bank\x1b[2J:\tgrößer \"x\""); got != `squall\x00bank\x1b[2J:`+"\tgrößer \"x\"" {
		t.Errorf("%q", got)
	}
}

func TestAnAddressNeedsAPort(t *testing.T) {
	if err := Addresses("--connect", []string{"127.0.0.1:1", "[::1]:2"}); err != nil {
		t.Error(err)
	}
	if err := Addresses("--connect", []string{"127.0.0.1:1", "foo"}); err == nil {
		t.Error("an address without a port is taken")
	}
}
