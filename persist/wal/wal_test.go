package wal

import (
	"log"
	"os"
	"testing"
)

// stderr is what os.Stderr was before package testing replaced it, as it does with -json.
var stderr = os.Stderr

func TestTheStandardLoggerStaysAsItWas(t *testing.T) {
	if log.Writer() != stderr || log.Flags() != log.LstdFlags || log.Prefix() != "" {
		t.Errorf("the standard logger writes to %T with flags %d and prefix %q: importing this package changed it", log.Writer(), log.Flags(), log.Prefix())
	}
}
