// Package rdma gives groups of the command their RDMA device.
package rdma

import (
	"errors"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric/verbs/ibverbs"
)

// Use gives a configuration the first device of this host, if its fabric needs one.
func Use(c *squall.Config) error {
	if c.Fabric != squall.FabricTransport || c.Transport != nil {
		return nil
	}
	t, err := ibverbs.Open("")
	if err != nil {
		return err
	}
	c.Transport = t // as long as this process
	return nil
}

// Offer gives a configuration the first device of this host, if there is one.
func Offer(c *squall.Config) error {
	t, err := ibverbs.Open("")
	if errors.Is(err, ibverbs.ErrNotBuilt) || errors.Is(err, ibverbs.ErrNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	c.Transport = t // as long as this process
	return nil
}
