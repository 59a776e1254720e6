package main

import (
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
)

// The service: a map that is split into shards by its keys. Members and clients share the
// operations.

var (
	Put = replicated.NewCommand[Pair, uint64]("put").Keyed(func(p Pair) string { return p.Key })
	Get = replicated.NewQuery[string, Value]("get").Keyed(func(key string) string { return key })
	Len = replicated.NewQuery[struct{}, int]("len") // of a shard
)

// Pair is what Put puts. It returns how often the key has been put.
type Pair struct{ Key, Value string }

// Value is what Get returns. A key that was never put has the revision 0.
type Value struct {
	Value    string
	Revision uint64 // counts the puts of the key
}

// Store is the state of a shard.
type Store struct{ Values map[string]Value }

func (s *Store) put(_ *replicated.Context, p Pair) (uint64, error) {
	v := Value{p.Value, s.Values[p.Key].Revision + 1}
	s.Values[p.Key] = v
	return v.Revision, nil
}

func (s *Store) get(_ *replicated.Context, key string) (Value, error) { return s.Values[key], nil }

func (s *Store) len(*replicated.Context, struct{}) (int, error) { return len(s.Values), nil }

func newObject(shards int) *replicated.Object[*Store] {
	return replicated.New(squall.SubgroupConfig{Name: "kv", Shards: shards}, func() *Store { return &Store{map[string]Value{}} },
		replicated.Handle(Put, (*Store).put),
		replicated.Handle(Get, (*Store).get),
		replicated.Handle(Len, (*Store).len))
}
