package join

import "testing"

func TestJ13OnlyAMemberThatWasReachedKeepsItsPlaceAtOnce(t *testing.T) {
	for name, script := range map[string]string{
		"a process with the id of a member that is alive is refused at once": `
			apply 1 3.2            => 1?3 1:wait Applied
			alive 1 3              => 1:refuse 1! Forgotten Refused
			after 10s              =>`,
		"the process after a member that has ended waits for its place": `
			apply 1 3.2            => 1?3 1:wait Applied
			dead 1 3               =>
			failed 3               =>
			view 2 1 2             => 1:meet(2)`,
		"a member is tried once for each joiner, and none that failed": `
			apply 1 3.2            => 1?3 1:wait Applied
			after 2s               => 1:still
			failed 2               =>
			apply 2 2.2            => 2:wait Applied
			gone 1                 => Forgotten`,
		"a member that was reached before it was removed keeps no place": `
			apply 1 3.2            => 1?3 1:wait Applied
			view 2 1 2             => 1:meet(2)
			alive 1 3              =>
			hear 1 ready 2         => Reached changed`,
		"a joiner that asked before holds its place as a member does": `
			apply 1 7              => 1:meet(2,3) Applied
			apply 2 7.2            => 2:wait Applied
			gone 1                 => 2:meet(2,3) Forgotten`,
	} {
		t.Run(name, func(t *testing.T) { play(t, newGateScript(t).step, script) })
	}
}

// An address may come back under another id, when a node lost its directory.
func TestAnAddressIsHeldLikeAnID(t *testing.T) {
	s := newGateScript(t)
	q := s.request(Apply, "9")
	q.Member.Addr = member(3).Addr
	if got := effectsLine(s.gate.Ask(0, 1, q)); got != "1?3 1:wait Applied" {
		t.Fatal(got)
	}
	play(t, s.step, "view 2 1 2 => 1:meet(2)")
}
