package member

import (
	"testing"
	"time"
)

// A member that is heard of is silent for little more than a heartbeat at a time. It must not be
// taken for one that fell silent with another one.
func TestAMemberWhoseHeartbeatIsDueIsNotTakenForSilent(t *testing.T) {
	for beats := time.Duration(3); beats <= 50; beats++ {
		failAfter := beats * time.Second
		if silence := failAfter - apart(time.Second, failAfter); silence < 2*time.Second {
			t.Errorf("with %d heartbeats in FailAfter, %v without one are taken for silence", beats, silence)
		}
		if d := apart(time.Second, failAfter); d < time.Second {
			t.Errorf("with %d heartbeats in FailAfter, members that fell silent together may differ by %v", beats, d)
		}
	}
}
