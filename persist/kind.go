package persist

import (
	"fmt"

	"github.com/squall-go/squall/persist/internal/engine"
)

// Engine is what a log is kept in. There are two, bolt.Engine and wal.Engine, of the packages bolt
// and wal below this one. A program has the engines that it imports. An existing log needs the
// import of its engine, too.
type Engine interface {
	String() string // "bolt" or "wal", as in the files of a log
}

// defaultEngine is that of a log whose configuration names none.
const defaultEngine = "bolt"

// CheckEngine reports whether this program has an engine; nil is bolt. Otherwise it returns an
// ErrNoEngine, which names the import.
func CheckEngine(e Engine) error {
	_, err := driverOf(e)
	return err
}

func driverOf(e Engine) (engine.Driver, error) {
	if e == nil {
		return driverNamed(defaultEngine)
	}
	if d, is := e.(engine.Driver); is {
		return d, nil
	}
	return nil, fmt.Errorf("%v is no log engine: use bolt.Engine or wal.Engine", e)
}

func driverNamed(name string) (engine.Driver, error) {
	if d, has := engine.Find(name); has {
		return d, nil
	}
	return nil, engine.Import(name)
}
