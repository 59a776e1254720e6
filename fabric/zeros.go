package fabric

import "sync"

// zeros is what the rows of peers look like that are not linked yet: one slab for all of them,
// which is never written. A slab that was too small stays where it is, because tables may still
// show it; each is at least twice as large as the one before.
var zeros struct {
	mu   sync.Mutex
	slab []byte
}

// zeroRow is a row of zeros that costs no memory of its own. Writing to it is a fault where the
// system can tell.
func zeroRow(n int) ([]byte, error) {
	zeros.mu.Lock()
	defer zeros.mu.Unlock()
	if n > len(zeros.slab) {
		slab, err := zeroSlab(max(n, 2*len(zeros.slab)))
		if err != nil {
			return nil, err
		}
		zeros.slab = slab
	}
	return zeros.slab[:n:n], nil
}
