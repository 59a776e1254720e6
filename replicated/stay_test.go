package replicated

import "testing"

// A stay that is over takes no more commands, and rests when the last one that is being sent was.
func TestAStayRestsWhenNothingIsBeingSent(t *testing.T) {
	rests := func(s *stay) bool {
		select {
		case <-s.idle:
			return true
		default:
			return false
		}
	}
	s := &stay{shard: 1, idle: make(chan struct{}, 1)}
	for range 2 {
		if !s.begin() {
			t.Fatal("a stay that goes on takes no command")
		}
	}
	s.end()
	if s.close(); rests(s) {
		t.Fatal("a stay rests while a command is being sent")
	}
	if s.begin() || rests(s) {
		t.Fatal("a stay that is over takes a command, or rests before one that it took")
	}
	if s.end(); !rests(s) {
		t.Fatal("a stay does not rest after its last command")
	}
	if s.begin() {
		t.Fatal("a stay that rests takes a command")
	}
	if s = (&stay{idle: make(chan struct{}, 1)}); !s.begin() {
		t.Fatal("another stay takes no command")
	}
	if s.end(); rests(s) {
		t.Fatal("a stay rests before it is over")
	}
	if s.close(); !rests(s) {
		t.Fatal("a stay in which nothing is being sent does not rest as it ends")
	}
	if s = nil; !s.begin() {
		t.Fatal("an object without shards takes no command")
	}
	s.end()
}
