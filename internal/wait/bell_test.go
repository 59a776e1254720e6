package wait

import "testing"

func TestABellThatIsRungTwiceIsHeardOnce(t *testing.T) {
	var nobody Bell
	nobody.Ring()
	b := NewBell()
	b.Ring()
	b.Ring()
	<-b
	select {
	case <-b:
		t.Error("it is heard twice")
	default:
	}
}
