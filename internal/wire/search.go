package wire

import (
	"context"
	"slices"
	"time"
)

// Backoff is a pause that doubles. It is pure.
type Backoff struct {
	Pause   time.Duration // the first one
	Longest time.Duration
	next    time.Duration
}

// Next is the next pause.
func (b *Backoff) Next() time.Duration {
	pause := max(b.next, b.Pause)
	b.next = min(2*pause, b.Longest)
	return pause
}

// Reset begins with the first pause again.
func (b *Backoff) Reset() { b.next = 0 }

// Backoff is the pause between two rounds over sources.
func (t Times) Backoff() Backoff { return Backoff{Pause: t.Pause, Longest: t.Longest} }

// Verdict is what came of an attempt at a source.
type Verdict uint8

const (
	Failed  Verdict = iota // nothing came of it
	Busy                   // the same, but it may give what is wanted in a while
	Gained                 // it brought something, and broke off
	Refused                // it will never give what is wanted
)

// Move is what a search does next.
type Move uint8

const (
	Ask    Move = iota // the source
	Rest               // for the pause, before the next round
	GiveUp             // no source is left, or too many rounds brought nothing
)

// Search decides which source is asked next, and after how long. It is pure. Sources may come and go between two calls.
type Search[S comparable] struct {
	Backoff
	// Rounds in a row that bring nothing end the search, unless a source was busy; 0: it goes on as long as a source is left.
	Rounds int

	asked        []S // in this round (CV5)
	refused      []S
	in           int // rounds in a row that brought nothing
	busy, gained bool
}

// Next is the next step, with the sources in the order in which they are preferred.
func (s *Search[S]) Next(sources []S) (m Move, source S, pause time.Duration) {
	left := 0
	for _, source := range sources {
		if slices.Contains(s.refused, source) {
			continue
		}
		left++
		if !slices.Contains(s.asked, source) {
			s.asked = append(s.asked, source)
			return Ask, source, 0
		}
	}
	if left == 0 || s.vain() {
		return GiveUp, source, 0
	}
	s.asked, s.busy, s.gained = s.asked[:0], false, false
	return Rest, source, s.Backoff.Next()
}

// vain ends a round, and reports whether it was one too many. After a round that brought something, what broke off counts as the first one in vain.
func (s *Search[S]) vain() bool {
	switch {
	case s.gained:
		s.in = 1
		s.Backoff.Reset()
		return false
	case s.busy:
		return false
	}
	s.in++
	return s.Rounds > 0 && s.in >= s.Rounds
}

// Came takes what came of asking a source.
func (s *Search[S]) Came(source S, v Verdict) {
	switch v {
	case Busy:
		s.busy = true
	case Gained:
		s.gained = true
	case Refused:
		s.refused = append(s.refused, source)
	}
}

// Wait waits for a pause, and reports whether the context goes on.
func Wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
