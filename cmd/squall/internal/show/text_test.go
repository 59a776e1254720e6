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
