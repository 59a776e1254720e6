package testlab

import (
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/squall-go/squall"
)

// State is what an application made of a durable load: of the log when it started, or caught up, and of what was delivered since. It must be that
// of the log, at every member.
type State struct {
	Messages uint64
	Hash     uint64 // of all of them, in order
	Last     squall.Version
	Fault    string // something came twice, or not in order; empty: nothing did
}

// take adds a message.
func (s *State) take(v squall.Version, sender squall.NodeID, data []byte) {
	if s.Messages > 0 && !s.Last.Before(v) && s.Fault == "" {
		s.Fault = fmt.Sprintf("version %v came behind %v", v, s.Last)
	}
	s.Messages++
	s.Last = v
	s.Hash = mix(s.Hash ^ mix(uint64(crc32.Checksum(data, castagnoli))^mix(uint64(v.View)<<40^uint64(v.Seq)<<8^uint64(sender))))
}

// replica is the application of a durable load.
type replica struct {
	mu sync.Mutex
	s  State
}

func (r *replica) deliver(batch []squall.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range batch {
		r.s.take(m.Version(), m.Sender, m.Data)
	}
}

// recover replaces the state by that of the log.
func (r *replica) recover(l *squall.Log) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fault := r.s.Fault
	r.s = State{Fault: fault}
	for rec, err := range l.Range(squall.Version{}, squall.Version{}) {
		if err != nil {
			return err
		}
		r.s.take(rec.Version, rec.Sender, rec.Data)
	}
	return nil
}

func (r *replica) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s
}
