package show

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is a text of another process as it can be printed: as it is, or as a Go string if it has
// control characters, which would break lines and tables, and can tell a terminal what to do.
func Text[T ~string](s T) string {
	text := string(s)
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
