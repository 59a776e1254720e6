package restart

import "slices"

// Lacks says that a log of this process lost something that it had. It comes before the log is used: from then on it is no log of which others could
// take the end for the end of all, until Complete.
func (m *Memory) Lacks(id LogID) error {
	return m.change(func(s *State) error {
		if !slices.Contains(s.Incomplete, id) {
			s.Incomplete = append(slices.Clone(s.Incomplete), id)
		}
		return nil
	})
}
