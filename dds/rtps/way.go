package rtps

import (
	"fmt"
	"slices"
	"strings"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// maxWayBytes bounds Origin.Side, whose length is one byte for clients of a space.
const maxWayBytes = 255

// originOf returns the origin of a DDS writer. Its side is that of the gateway, and after it, on
// lines of their own, the space and the side before, and so on: a sample in a history keeps its way
// when its writer is closed.
func (g *Gateway) originOf(w *wire.Endpoint) dds.Origin {
	side := g.cfg.Side
	if w.Way != "" {
		side += "\n" + w.Way
	}
	return dds.Origin{Side: side, GUID: w.GUID.Bytes()}
}

// wayOf returns the way of samples that this gateway writes to DDS.
func (g *Gateway) wayOf(o *dds.Origin) string {
	if o == nil {
		return g.cfg.Space
	}
	return g.cfg.Space + "\n" + o.Side
}

// passed reports whether samples of an origin were on this side (RG3).
func (g *Gateway) passed(o *dds.Origin) bool {
	return o != nil && slices.Contains(every2nd(strings.Split(o.Side, "\n")), g.cfg.Side)
}

// refuse reports a DDS writer whose samples were in this space or on this side (RG3), or on a way
// that is too long.
func (g *Gateway) refuse(w *wire.Endpoint) (why string, refused bool) {
	if w.Way == "" {
		return "", false
	}
	way := strings.Split(w.Way, "\n") // spaces and sides by turns
	if slices.Contains(every2nd(way), g.cfg.Space) || slices.Contains(every2nd(way[1:]), g.cfg.Side) {
		return "", true
	}
	if n := len(g.originOf(w).Side); n > maxWayBytes {
		return fmt.Sprintf("the names of the spaces and sides where its samples were have %d bytes: at most %d", n, maxWayBytes), true
	}
	return "", false
}

// every2nd returns the first of some names, the third, and so on.
func every2nd(names []string) (all []string) {
	for i := 0; i < len(names); i += 2 {
		all = append(all, names[i])
	}
	return all
}
