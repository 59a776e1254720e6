package main

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
)

// The service: everything that the bank is. Members and clients share the operations.

var (
	Deposit  = replicated.NewCommand[Amount, int64]("deposit")
	Transfer = replicated.NewCommand[Payment, int64]("transfer")
	Balance  = replicated.NewQuery[string, int64]("balance")
)

type Amount struct {
	Account string
	Cents   int64
}

type Payment struct {
	From, To string
	Cents    int64
}

var errNotCovered = errors.New("the account has not enough")

type Bank struct{ Balances map[string]int64 }

func newBank() *Bank { return &Bank{map[string]int64{}} }

func (b *Bank) deposit(_ *member.Context, a Amount) (int64, error) {
	if a.Cents <= 0 {
		return 0, fmt.Errorf("%d cents cannot be deposited", a.Cents)
	}
	b.Balances[a.Account] += a.Cents
	return b.Balances[a.Account], nil
}

func (b *Bank) transfer(_ *member.Context, p Payment) (int64, error) {
	if p.Cents <= 0 || b.Balances[p.From] < p.Cents {
		return 0, errNotCovered
	}
	b.Balances[p.From] -= p.Cents
	b.Balances[p.To] += p.Cents
	return b.Balances[p.From], nil
}

func (b *Bank) balance(_ *member.Context, account string) (int64, error) {
	return b.Balances[account], nil
}

func newObject() *member.Object[*Bank] {
	return member.New(squall.SubgroupConfig{Name: "bank"}, newBank,
		member.Handle(Deposit, (*Bank).deposit),
		member.Handle(Transfer, (*Bank).transfer),
		member.Handle(Balance, (*Bank).balance))
}
