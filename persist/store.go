package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Config says where a store is and whose it is.
type Config struct {
	Dir     string       // made if it is missing, with what is missing above it
	Cluster string       // with ReadOnly, "" is any
	Node    order.NodeID // with ReadOnly, 0 is any
	// ReadOnly opens what is there and changes nothing. No engine can be read next to a process that
	// writes, so that this is ErrInUse while the member runs; a member that runs is asked for its
	// logs instead.
	ReadOnly bool

	disk     disk          // nil: the real one
	patience time.Duration // how long the lock is tried; 0: lockPatience
}

// Store is the directory of one node: the values that it must not forget, and its logs. All methods
// may be called by any goroutine.
//
//	squall.json          whose directory it is; made last
//	meta.db              the values
//	logs/NAME.SHARD/     one log each: log.json, the engine's files, a snapshot
//	logs/…damaged.N      what was set aside; it is left alone, as everything there that is not called as a log is
type Store struct {
	config   Config
	disk     disk
	identity identity
	lock     *lock
	values   engine.Values

	mu     sync.Mutex
	open   map[LogID]*Log
	closed bool
}

// Open opens a store, and makes it if nothing is there. A directory that another process has open
// is tried again for a second, or until ctx ends.
func Open(ctx context.Context, c Config) (_ *Store, err error) {
	s := &Store{config: c, disk: c.disk, open: map[LogID]*Log{}}
	if s.disk == nil {
		s.disk = osDisk{}
	}
	if engine.OpenValues == nil {
		return nil, fmt.Errorf("%s: %w", c.Dir, engine.Import(defaultEngine))
	}
	if err := s.reach(); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(ctx, c.Dir, c.ReadOnly, cmp.Or(c.patience, lockPatience)); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, errors.Join(err, s.lock.release())
	}
	return s, nil
}

// reach makes the directory, unless it is only read.
func (s *Store) reach() error {
	if !s.config.ReadOnly {
		return makeDirs(s.disk, s.config.Dir)
	}
	if _, err := os.Stat(s.path(engine.IdentityFile)); engine.Missing(err) {
		if err := s.checkUnused(); err != nil {
			return err
		}
		return fmt.Errorf("%s: %w: name the directory that the member was started with", s.config.Dir, ErrNoStore)
	} else if err != nil {
		return engine.Named(err, s.config.Dir)
	}
	return nil
}

// enter reads or makes what is in the directory, under its lock.
func (s *Store) enter() (err error) {
	s.identity, err = readIdentity(s.config.Dir)
	if engine.Missing(err) && !s.config.ReadOnly {
		s.identity = identity{Format, s.config.Cluster, s.config.Node}
		err = s.found()
	}
	if err != nil {
		return err
	}
	if err := s.identity.check(s.config); err != nil {
		return err
	}
	s.values, err = engine.OpenValues(s.config.Dir, s.config.ReadOnly)
	if engine.Missing(err) {
		return engine.Damaged(s.path(engine.MetaFile), "it is missing")
	}
	return err
}

// found makes a new store. The order lets a crash leave an empty one or none: squall.json, which
// says that the rest is complete, comes last.
func (s *Store) found() error {
	if err := s.checkUnused(); err != nil {
		return err
	}
	if err := makeDirs(s.disk, s.path(logsDir)); err != nil {
		return err
	}
	if err := createValues(s.disk, s.config.Dir); err != nil {
		return err
	}
	return writeLabel(s.disk, s.path(engine.IdentityFile), s.identity)
}

// checkUnused says that nothing was ever kept in a directory without squall.json: that file is not
// made a second time.
func (s *Store) checkUnused() error {
	logs, _, err := logsIn(s.path(logsDir))
	if err != nil && !engine.Missing(err) {
		return err
	}
	keys, err := keysIn(s.config.Dir)
	if err != nil && !engine.Missing(err) {
		return err
	}
	if len(logs)+len(keys) > 0 {
		return engine.Damaged(s.path(engine.IdentityFile), "it is missing, and %d logs and %d values are here", len(logs), len(keys))
	}
	return nil
}

// createValues makes the file of values under another name, so that a crash leaves all of it or
// nothing.
func createValues(d disk, dir string) error {
	path := filepath.Join(dir, engine.MetaFile)
	temp := path + ".new"
	if err := d.RemoveAll(temp); err != nil {
		return engine.Named(err, temp)
	}
	if err := engine.Guard(temp, func() error { return engine.CreateValues(temp) }); err != nil {
		return err
	}
	if err := d.Rename(temp, path); err != nil {
		return engine.Named(err, path)
	}
	return syncDir(d, dir)
}

func keysIn(dir string) (keys []string, err error) {
	m, err := engine.OpenValues(dir, true)
	if err != nil {
		return nil, err
	}
	keys, err = m.Keys()
	return keys, errors.Join(err, m.Close())
}

func (s *Store) path(name string) string { return filepath.Join(s.config.Dir, name) }

// Dir is the directory.
func (s *Store) Dir() string { return s.config.Dir }

// Cluster is the name of the cluster that the directory belongs to.
func (s *Store) Cluster() string { return s.identity.Cluster }

// Node is the node that the directory belongs to.
func (s *Store) Node() order.NodeID { return s.identity.Node }

// Get returns a value, nil if there is none.
func (s *Store) Get(key string) ([]byte, error) { return s.values.Get(key) }

// Put changes values, all or none; nil deletes one. They are durable when it returns nil. After an
// error it is not known which ones are there, and nothing is written any more: start again.
func (s *Store) Put(values map[string][]byte) error {
	if s.config.ReadOnly {
		return fmt.Errorf("%s: %w: it was opened to be read only", s.config.Dir, ErrReadOnlyDisk)
	}
	return s.values.Put(values)
}

// Logs lists the logs that are here, or should be, by name and shard. What else is in logs/ is left
// alone.
func (s *Store) Logs() ([]LogID, error) {
	ids, _, err := logsIn(s.path(logsDir))
	if err != nil {
		return nil, err
	}
	keys, err := s.values.Keys()
	if err != nil {
		return nil, err
	}
	for _, name := range made(keys) {
		id, err := unescape(name)
		if err != nil {
			return nil, engine.Damaged(s.path(engine.MetaFile), "%v", err)
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids, nil
}

// Missing reports whether there are no files of a log: it was never made, or they are gone, or on a
// disk that is not mounted.
func (s *Store) Missing(id LogID) bool {
	entries, err := os.ReadDir(filepath.Join(s.path(logsDir), id.escape()))
	return engine.Missing(err) || err == nil && len(entries) == 0
}

func compareIDs(a, b LogID) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Shard, b.Shard))
}

// Log opens a log, and makes it if it is not here. It can be open once at a time. If ctx ends, so
// does opening and repairing; what was dropped by then stays dropped.
func (s *Store) Log(ctx context.Context, c LogConfig) (*Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("%s: %w", s.config.Dir, ErrClosed)
	}
	if s.open[c.ID] != nil {
		return nil, fmt.Errorf("%s: log %v: %w", s.config.Dir, c.ID, ErrLogOpen)
	}
	dir, err := s.place(&c)
	if err != nil {
		return nil, err
	}
	if err := s.noted(dir, c); err != nil {
		return nil, err
	}
	l, err := openLog(ctx, s, dir, c)
	if err == nil && c.Repair {
		err = s.Put(map[string][]byte{damageKey(c.ID): nil})
	}
	if err != nil {
		return nil, err
	}
	s.open[c.ID] = l
	return l, nil
}

// NoteDamage says that a log is damaged where it cannot be cut now: it is not opened again but with
// Repair, by this process or a later one.
func (s *Store) NoteDamage(id LogID, damage error) error {
	text := damage.Error()
	if d := (*journal.Damage)(nil); errors.As(damage, &d) {
		text = fmt.Sprintf("block %d, record %d: %s", d.Block, d.Record, d.What)
	}
	for _, known := range []string{fmt.Sprintf("log %v: ", id), filepath.Join(s.path(logsDir), id.escape()) + ": "} {
		text = strings.TrimPrefix(text, known)
	}
	text = strings.TrimSuffix(text, "; "+engine.LogAdvice)
	return s.Put(map[string][]byte{damageKey(id): []byte(text)})
}

func damageKey(id LogID) string { return "damaged/" + id.escape() }

// noted is the damage of a log that was noted, unless it is to be repaired.
func (s *Store) noted(dir string, c LogConfig) error {
	damage, err := s.Get(damageKey(c.ID))
	if err == nil && damage != nil && !c.Repair && !s.config.ReadOnly {
		err = fmt.Errorf("%s: %w: a reader found: %s; %s", dir, ErrDamaged, damage, engine.LogAdvice)
	}
	return err
}

// Close closes the logs that are open, and the store. What was appended before is durable if it
// returns nil.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	for _, l := range s.open {
		errs = append(errs, l.close())
	}
	return errors.Join(append(errs, s.values.Close(), s.lock.release())...)
}
