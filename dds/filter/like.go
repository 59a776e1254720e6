package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// pattern is a compiled pattern of LIKE: % is any text, _ any character. A text is compared in a
// time that grows with its length, whatever the pattern is: its parts between two % are searched
// for one after the other, each where it comes first.
type pattern struct {
	first, last string // what the text begins and ends with; without %, first is all of it
	open        bool   // the pattern has a %
	parts       []part // between two %
}

// part is text between two %.
type part struct {
	text   string
	length int             // characters
	masks  map[rune]uint64 // of a part with _: at which places a character may be
	any    uint64          // … and any character
	falls  []int32         // of a long one without _: for each prefix, the length of the longest shorter one with which it ends
}

// maxWild bounds the characters of a part with _, of which a word has one bit each.
const maxWild = 64

// maxShort bounds the bytes of a part that is searched for without falls.
const maxShort = 64

func newPattern(text string) (p pattern, err error) {
	all := strings.Split(text, "%")
	p.first = all[0]
	if len(all) == 1 {
		return p, nil
	}
	p.open, p.last = true, all[len(all)-1]
	for _, s := range all[1 : len(all)-1] {
		switch wild := strings.Contains(s, "_"); {
		case s == "":
		case wild && utf8.RuneCountInString(s) > maxWild:
			return p, fmt.Errorf("%w: a pattern with %d characters between two %%, of which some are _: of at most %d", ErrType, utf8.RuneCountInString(s), maxWild)
		default:
			p.parts = append(p.parts, newPart(s, wild))
		}
	}
	return p, nil
}

func newPart(s string, wild bool) part {
	p := part{text: s, length: utf8.RuneCountInString(s)}
	switch {
	case wild:
		p.masks = map[rune]uint64{}
		for i, at := 0, 0; at < len(s); i++ {
			c, size := character(s[at:])
			if at += size; c == '_' {
				p.any |= 1 << i
			} else {
				p.masks[c] |= 1 << i
			}
		}
	case len(s) > maxShort:
		p.falls = make([]int32, len(s)+1)
		n := int32(0)
		for i := 1; i < len(s); i++ {
			for n > 0 && s[i] != s[n] {
				n = p.falls[n]
			}
			if s[i] == s[n] {
				n++
			}
			p.falls[i+1] = n
		}
	}
	return p
}

// character is the first character of a text. A byte that is none is one of its own.
func character(s string) (c rune, size int) {
	c, size = utf8.DecodeRuneInString(s)
	if c == utf8.RuneError && size == 1 {
		c = -1 - rune(s[0])
	}
	return c, size
}

// matches reports whether a text is like the pattern.
func (p *pattern) matches(s string) bool {
	s, ok := cutFirst(s, p.first)
	if !ok || !p.open {
		return ok && s == ""
	}
	s, ok = cutLast(s, p.last)
	for i := 0; ok && i < len(p.parts); i++ {
		s, ok = p.parts[i].after(s)
	}
	return ok
}

// cutFirst returns what follows a beginning.
func cutFirst(s, first string) (rest string, ok bool) {
	for first != "" {
		_, size := utf8.DecodeRuneInString(s)
		w, width := utf8.DecodeRuneInString(first)
		if size == 0 || w != '_' && s[:size] != first[:width] {
			return s, false
		}
		s, first = s[size:], first[width:]
	}
	return s, true
}

// cutLast returns what precedes an end.
func cutLast(s, last string) (rest string, ok bool) {
	for last != "" {
		_, size := utf8.DecodeLastRuneInString(s)
		w, width := utf8.DecodeLastRuneInString(last)
		if size == 0 || w != '_' && s[len(s)-size:] != last[len(last)-width:] {
			return s, false
		}
		s, last = s[:len(s)-size], last[:len(last)-width]
	}
	return s, true
}

// after returns what follows the part where it comes first.
func (p *part) after(s string) (rest string, ok bool) {
	switch {
	case p.masks != nil:
		return p.afterWild(s)
	case p.falls != nil:
		return p.afterLong(s)
	}
	i := strings.Index(s, p.text)
	if i < 0 {
		return s, false
	}
	return s[i+len(p.text):], true
}

// afterWild keeps a bit for each prefix of the part with which the text ends so far.
func (p *part) afterWild(s string) (rest string, ok bool) {
	ends, all := uint64(0), uint64(1)<<(p.length-1)
	for s != "" {
		c, size := character(s)
		ends = (ends<<1 | 1) & (p.masks[c] | p.any)
		if s = s[size:]; ends&all != 0 {
			return s, true
		}
	}
	return s, false
}

// afterLong keeps the length of the longest prefix of the part with which the text ends so far.
func (p *part) afterLong(s string) (rest string, ok bool) {
	n := int32(0)
	for i := range len(s) {
		for n > 0 && s[i] != p.text[n] {
			n = p.falls[n]
		}
		if s[i] == p.text[n] {
			n++
		}
		if int(n) == len(p.text) {
			return s[i+1:], true
		}
	}
	return s, false
}
