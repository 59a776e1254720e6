//go:build !linux

package testlab

import (
	"errors"
	"os/exec"
)

func dieWithParent(*exec.Cmd) {}

// Host is a network namespace, which only Linux has.
type Host struct{ Addr string }

func (h *Host) enter() error { return errNoNamespaces }

var errNoNamespaces = errors.New("network namespaces need Linux")

// Network is hosts that reach each other.
type Network struct{ Hosts []*Host }

// NewNetwork fails.
func NewNetwork(int) (*Network, error) { return nil, errNoNamespaces }

// Cut fails.
func (w *Network) Cut(_, _ *Host) error { return errNoNamespaces }

// Heal fails.
func (w *Network) Heal(_, _ *Host) error { return errNoNamespaces }

// Partition fails.
func (w *Network) Partition(...*Host) error { return errNoNamespaces }

// HealPartition fails.
func (w *Network) HealPartition(...*Host) error { return errNoNamespaces }

// Close does nothing.
func (w *Network) Close() error { return nil }
