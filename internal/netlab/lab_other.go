//go:build !linux

package netlab

import (
	"context"
	"fmt"
	"os/exec"
)

var errNotLinux = fmt.Errorf("%w: network namespaces need Linux", ErrUnavailable)

// Host is a network namespace, which only Linux has.
type Host struct{ Addr string }

// Lab is hosts that reach each other.
type Lab struct{ Hosts []*Host }

// New fails.
func New(Config) (*Lab, error) { return nil, errNotLinux }

// Close does nothing.
func (l *Lab) Close() error { return nil }

// LimitHost fails.
func (l *Lab) LimitHost(*Host, Rate) error { return errNotLinux }

// LimitLink fails.
func (l *Lab) LimitLink(_, _ *Host, _ Rate) error { return errNotLinux }

// Cut fails.
func (l *Lab) Cut(_, _ *Host) error { return errNotLinux }

// Heal fails.
func (l *Lab) Heal(_, _ *Host) error { return errNotLinux }

// Partition fails.
func (l *Lab) Partition(...*Host) error { return errNotLinux }

// HealPartition fails.
func (l *Lab) HealPartition(...*Host) error { return errNotLinux }

// Path is where a namespace would be.
func (h *Host) Path() string { return "" }

// Enter fails.
func (h *Host) Enter() error { return errNotLinux }

// Do fails.
func (h *Host) Do(func() error) error { return errNotLinux }

// Run fails.
func (h *Host) Run(context.Context, string, ...string) ([]byte, error) { return nil, errNotLinux }

// Start fails.
func (h *Host) Start(*exec.Cmd) error { return errNotLinux }

// Processes fails.
func (h *Host) Processes() ([]int, error) { return nil, errNotLinux }
