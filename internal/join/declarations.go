package join

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// difference names the first subgroup and field in which a joiner's declarations differ from the founder's, with both
// values; it is empty if they are the same. Members and senders are sets: their order in a declaration means nothing.
func difference(founder, joiner []views.Declaration) string {
	for i := range max(len(founder), len(joiner)) {
		switch {
		case i >= len(joiner):
			return fmt.Sprintf("subgroup %q is declared by the founder only", founder[i].Name)
		case i >= len(founder):
			return fmt.Sprintf("subgroup %q is declared by the joiner only", joiner[i].Name)
		}
		if d := fieldDifference(i, founder[i], joiner[i]); d != "" {
			return d
		}
	}
	return ""
}

func fieldDifference(i int, founder, joiner views.Declaration) string {
	if founder.Name != joiner.Name {
		return fmt.Sprintf("subgroup %d: name: the founder declares %q, the joiner %q", i, founder.Name, joiner.Name)
	}
	for _, field := range []struct {
		name            string
		founder, joiner any
		same            bool
	}{
		{"members", founder.Members, joiner.Members, sameSet(founder.Members, joiner.Members)},
		{"senders", founder.Senders, joiner.Senders, sameSet(founder.Senders, joiner.Senders)},
		{"mode", founder.Mode, joiner.Mode, founder.Mode == joiner.Mode},
		{"ring_bytes", founder.RingBytes, joiner.RingBytes, founder.RingBytes == joiner.RingBytes},
		{"window", founder.Window, joiner.Window, founder.Window == joiner.Window},
	} {
		if !field.same {
			return fmt.Sprintf("subgroup %q: %s: the founder declares %v, the joiner %v", founder.Name, field.name, field.founder, field.joiner)
		}
	}
	return ""
}

func sameSet(a, b []order.NodeID) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
