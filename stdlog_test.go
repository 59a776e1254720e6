package squall

import (
	"log"
	"os"
	"testing"
)

func TestTheStandardLoggerStaysAsItWas(t *testing.T) {
	if log.Writer() != os.Stderr || log.Flags() != log.LstdFlags || log.Prefix() != "" {
		t.Errorf("the standard logger writes to %T with flags %d and prefix %q: importing squall changed it", log.Writer(), log.Flags(), log.Prefix())
	}
}
