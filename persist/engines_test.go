package persist

import (
	"github.com/squall-go/squall/persist/internal/boltlog"
	"github.com/squall-go/squall/persist/internal/wallog"
)

// The engines of packages bolt and wal, which import this one.
var (
	EngineBolt Engine = boltlog.Driver{}
	EngineWAL  Engine = wallog.Driver{}
)
