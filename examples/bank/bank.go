package main

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
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

func (b *Bank) deposit(_ *replicated.Context, a Amount) (int64, error) {
	if a.Cents <= 0 {
		return 0, fmt.Errorf("%d cents cannot be deposited", a.Cents)
	}
	b.Balances[a.Account] += a.Cents
	return b.Balances[a.Account], nil
}

func (b *Bank) transfer(_ *replicated.Context, p Payment) (int64, error) {
	if p.Cents <= 0 || b.Balances[p.From] < p.Cents {
		return 0, errNotCovered
	}
	b.Balances[p.From] -= p.Cents
	b.Balances[p.To] += p.Cents
	return b.Balances[p.From], nil
}

func (b *Bank) balance(_ *replicated.Context, account string) (int64, error) {
	return b.Balances[account], nil
}

func newObject() *replicated.Object[*Bank] {
	return replicated.New(squall.SubgroupConfig{Name: "bank"}, newBank,
		replicated.Handle(Deposit, (*Bank).deposit),
		replicated.Handle(Transfer, (*Bank).transfer),
		replicated.Handle(Balance, (*Bank).balance))
}
