package persist

import (
	"github.com/squall-go/squall/persist/internal/boltlog"
	"github.com/squall-go/squall/persist/internal/wallog"
)

// segmentBytes is how long a segment of a log gets in these tests, which look through whole files.
const segmentBytes = 4 << 20

// The engines of packages bolt and wal, which import this one.
var (
	EngineBolt Engine = boltlog.Driver{}
	EngineWAL  Engine = wallog.Driver{SegmentBytes: segmentBytes}
)
