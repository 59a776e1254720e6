// Package bolt has the log engine bolt: a log is one file, with a B+ tree, of bbolt. It is
// the engine of a log whose configuration names none; a program that needs no other imports this
// package for that alone:
//
//	import _ "github.com/squall-go/squall/persist/bolt"
package bolt

import (
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/internal/boltlog"
)

// Engine keeps a log in one file.
var Engine persist.Engine = boltlog.Driver{}
