package objects

import (
	"errors"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// Names of the object and of the subgroup next to it, which carries plain messages.
const (
	storeName = "store"
	plainName = "plain"
)

// Operations of the object. Raw carries their bytes unchanged, except for countCBOR.
var (
	put       = replicated.NewCommand[[]byte, []byte]("put")   // the key's length, the key, the value
	count     = replicated.NewCommand[[]byte, []byte]("count") // anything
	countCBOR = replicated.NewCommand[amount, int64]("amount") // returns the sum of the account
	get       = replicated.NewQuery[[]byte, []byte]("get")     // the key
)

// amount is what a command carries in CBOR: as much as a deposit in a bank.
type amount struct {
	Account string
	Cents   int64
}

// store is the state: keys with values, sums of accounts, and how often something was counted.
type store struct {
	Values map[string][]byte
	Count  int64
	Sums   map[string]int64
}

func (s *store) put(_ *member.Context, b []byte) ([]byte, error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return nil, errors.New("a put without a key")
	}
	key, value := b[1:1+int(b[0])], b[1+int(b[0]):]
	if old, ok := s.Values[string(key)]; ok && len(old) == len(value) {
		copy(old, value)
	} else {
		s.Values[string(key)] = append([]byte(nil), value...)
	}
	return nil, nil
}

func (s *store) count(*member.Context, []byte) ([]byte, error) {
	s.Count++
	return nil, nil
}

func (s *store) amount(_ *member.Context, a amount) (int64, error) {
	s.Sums[a.Account] += a.Cents
	return s.Sums[a.Account], nil
}

func (s *store) get(_ *member.Context, key []byte) ([]byte, error) {
	return s.Values[string(key)], nil
}

// newStore returns the object of a member.
func newStore(sg squall.SubgroupConfig) *member.Object[*store] {
	sg.Name = storeName
	return member.New(sg, func() *store { return &store{Values: map[string][]byte{}, Sums: map[string]int64{}} },
		member.Handle(put, (*store).put), member.Handle(count, (*store).count),
		member.Handle(countCBOR, (*store).amount), member.Handle(get, (*store).get))
}
