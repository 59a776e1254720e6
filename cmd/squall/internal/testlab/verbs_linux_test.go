//go:build system && verbs

package testlab

import "github.com/squall-go/squall"

func init() {
	fabrics = append(fabrics, struct {
		name string
		of   func(squall.NodeID) squall.Fabric
	}{"verbs", all(squall.FabricTransport)})
}
