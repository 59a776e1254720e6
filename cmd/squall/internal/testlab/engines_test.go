package testlab

import (
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

func init() {
	Engines["bolt"], Engines["wal"] = bolt.Engine, wal.Engine
}
