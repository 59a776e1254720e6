package main

import (
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
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

func (s *Store) put(_ *member.Context, p Pair) (uint64, error) {
	v := Value{p.Value, s.Values[p.Key].Revision + 1}
	s.Values[p.Key] = v
	return v.Revision, nil
}

func (s *Store) get(_ *member.Context, key string) (Value, error) { return s.Values[key], nil }

func (s *Store) len(*member.Context, struct{}) (int, error) { return len(s.Values), nil }

func newObject(shards int) *member.Object[*Store] {
	return member.New(squall.SubgroupConfig{Name: "kv", Shards: shards}, func() *Store { return &Store{map[string]Value{}} },
		member.Handle(Put, (*Store).put),
		member.Handle(Get, (*Store).get),
		member.Handle(Len, (*Store).len))
}
