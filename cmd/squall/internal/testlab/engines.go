package testlab

import (
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

// Engines are the engines of logs, by the names that a Load has.
var Engines = map[string]squall.LogEngine{"bolt": bolt.Engine, "wal": wal.Engine}
