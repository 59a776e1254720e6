// Package wal has the log engine wal, for high rates: a log is segments that are only appended to,
// of raft-wal.
//
// A package that raft-wal imports redirects the standard logger of package log when it is
// initialised. This package undoes that.
package wal

import (
	"log"
	"os"
	"reflect"
	"strings"

	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/internal/wallog"
)

// Engine keeps a log in segments.
var Engine persist.Engine = wallog.Driver{}

// Package capnslog, which raft-wal imports through etcd's fileutil, redirects the standard logger
// to itself when it is initialised: each line of an application would be in its format, whatever
// flags the application sets. It is initialised before this package.
func init() {
	if strings.HasSuffix(reflect.TypeOf(log.Writer()).PkgPath(), "github.com/coreos/pkg/capnslog") {
		log.SetOutput(os.Stderr)
		log.SetFlags(log.LstdFlags)
	}
}
