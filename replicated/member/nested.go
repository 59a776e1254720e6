package member

import (
	"sync"
	"sync/atomic"
)

// nested is a second lock of an object, for queries that the handler of a query calls. Such a query
// must not wait for a writer that waits for object.mu: that writer may wait, directly or through
// another object, for the query that calls. Therefore a writer locks object.mu first and nested
// afterwards, and a nested query locks nested only. A writer that waits for nested waits for
// handlers of queries that wait for nobody: a query at a depth of 2 is refused where it would wait
// (lockToRead). A writer that has nested executes commands, which wait for no query. Or it restores
// a state, which comes from another member and may last: queries are refused meanwhile. A writer
// without nested queries uses one atomic operation.
type nested struct {
	word atomic.Int64 // 1 while a writer has the lock or waits for it, plus 2 for each reader that has it or waits for it

	mu       sync.Mutex
	refuses  bool          // what a writer does may last: readers do not wait for it
	reading  int           // readers that have the lock
	admitted chan struct{} // closed when a writer admits the waiting readers; nil: none waits
	waiting  int           // for admitted
	left     chan struct{} // closed by the last reader; nil: no writer waits
}

// lock locks for writing. The caller holds object.mu, so there is one writer at a time.
func (n *nested) lock() {
	if n.word.Add(1) != 1 {
		n.awaitReaders()
	}
}

// refuse says that what the next writer does may last, or that its turn has ended. The caller holds
// object.mu.
func (n *nested) refuse(lasts bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuses = lasts
}

func (n *nested) awaitReaders() {
	n.mu.Lock()
	if n.reading == 0 {
		n.mu.Unlock()
		return
	}
	left := make(chan struct{})
	n.left = left
	n.mu.Unlock()
	<-left
}

// unlock ends a writer's turn. It admits the readers that wait, before the next writer.
func (n *nested) unlock() {
	if n.word.Add(-1) != 0 {
		n.admit()
	}
}

func (n *nested) admit() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting > 0 {
		close(n.admitted)
		n.reading, n.waiting, n.admitted = n.reading+n.waiting, 0, nil
	}
}

// rlock locks for invoke.Reading, unless what a writer does may last. It waits for commands that
// are executed, and for no reader.
func (n *nested) rlock() bool {
	n.mu.Lock()
	if n.word.Add(2)&1 == 0 {
		n.reading++
		n.mu.Unlock()
		return true
	}
	if n.refuses {
		n.word.Add(-2)
		n.mu.Unlock()
		return false
	}
	if n.waiting++; n.admitted == nil {
		n.admitted = make(chan struct{})
	}
	admitted := n.admitted
	n.mu.Unlock()
	<-admitted
	return true
}

// tryRLock is rlock where it does not have to wait.
func (n *nested) tryRLock() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.word.Add(2)&1 != 0 {
		n.word.Add(-2)
		return false
	}
	n.reading++
	return true
}

// runlock ends a reader's turn.
func (n *nested) runlock() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.word.Add(-2)
	if n.reading--; n.reading == 0 && n.left != nil {
		close(n.left)
		n.left = nil
	}
}
