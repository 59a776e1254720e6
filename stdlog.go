package squall

import (
	"log"
	"os"
	"reflect"
	"strings"
)

// Package capnslog, which raft-wal imports through etcd's fileutil, redirects the standard logger to
// itself when it is initialised: each line of an application would be in its format, whatever flags
// the application sets. It is initialised before this package.
func init() { restoreStandardLogger() }

// restoreStandardLogger gives the standard logger its initial output and flags if capnslog has
// redirected it, and leaves it alone if not.
func restoreStandardLogger() {
	if !strings.HasSuffix(reflect.TypeOf(log.Writer()).PkgPath(), "github.com/coreos/pkg/capnslog") {
		return
	}
	log.SetOutput(os.Stderr)
	log.SetFlags(log.LstdFlags)
}
