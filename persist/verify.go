package persist

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Report is what Verify found in a directory.
type Report struct {
	Dir     string       `json:"dir"`
	Cluster string       `json:"cluster"`
	Node    order.NodeID `json:"node"`
	Faults  []Fault      `json:"faults,omitempty"` // of what belongs to no log
	Logs    []LogReport  `json:"logs"`
	Foreign []string     `json:"foreign,omitempty"` // what is in logs/ and is no log: it was not looked at
}

// LogReport is what Verify found of one log.
type LogReport struct {
	Log      string  `json:"log"` // the text of its LogID
	Name     string  `json:"name"`
	Shard    int     `json:"shard"`
	Engine   string  `json:"engine"`
	Blocks   uint64  `json:"blocks"`
	Records  uint64  `json:"records"` // that are good
	Bytes    uint64  `json:"bytes"`   // of the blocks
	First    *Place  `json:"first,omitempty"`
	Last     *Place  `json:"last,omitempty"`
	Snapshot *Place  `json:"snapshot,omitempty"` // the last record that it stands for
	Hashed   uint64  `json:"hashed"`             // records in the chain of hashes of a signed log
	Vouched  uint64  `json:"vouched"`            // records that a good signature by the key that was given covers
	Torn     *Place  `json:"torn,omitempty"`     // the first record, without its time, of the last write, which did not end or is damaged: it is dropped
	Faults   []Fault `json:"faults,omitempty"`
}

// Place is where a record stands. A version is its text.
type Place struct {
	Version string     `json:"version"`
	Time    string     `json:"time,omitempty"`
	TimeNs  order.Time `json:"time_ns,omitempty"`
	Number  uint64     `json:"number"`
}

// PlaceOf is where a record stands.
func PlaceOf(r *Record) *Place { return placeAt(r.Version, r.Time, r.Number) }

func placeAt(v order.Version, t order.Time, number uint64) *Place {
	return &Place{Version: v.String(), Time: t.String(), TimeNs: t, Number: number}
}

// Fault is one thing that is not as it was written.
type Fault struct {
	File    string `json:"file"`
	Block   uint64 `json:"block,omitempty"`
	Record  uint64 `json:"record,omitempty"`
	Version string `json:"version,omitempty"` // near it, as far as it is known
	What    string `json:"what"`
}

func (f Fault) String() string {
	if f.Block == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.What)
	}
	near := ""
	if f.Version != "" {
		near = ", near version " + f.Version
	}
	return fmt.Sprintf("%s: block %d, record %d%s: %s", f.File, f.Block, f.Record, near, f.What)
}

// OK reports whether nothing is wrong. Records without a signature are not: Vouched tells how many
// have one.
func (r *Report) OK() bool {
	for _, l := range r.Logs {
		if len(l.Faults) > 0 {
			return false
		}
	}
	return len(r.Faults) == 0
}

// Progress says how far Verify has come in a log: to Block, of the blocks First to Last.
type Progress struct {
	Log                LogID
	Block, First, Last uint64
}

// Verify reads everything in a directory that no process has open, and compares: each checksum,
// that numbers are dense and versions and times grow, that large records are whole, that the pages
// of the engines' files lead to each other, and the chain of hashes and the signatures of signed
// logs if the node's public key is given. What is damaged is in the report; an error says that the
// directory could not be read. progress may be nil. A check that ctx ends has the context's error.
func Verify(ctx context.Context, dir string, keys map[order.NodeID]ed25519.PublicKey, progress func(Progress)) (Report, error) {
	v := &verifier{Report: Report{Dir: dir, Logs: []LogReport{}}, ctx: ctx, keys: keys, progress: progress}
	s := &Store{config: Config{Dir: dir, ReadOnly: true}}
	if err := s.reach(); err != nil {
		return v.Report, err
	}
	held, err := takeLock(ctx, dir, true, lockPatience)
	if err != nil {
		return v.Report, err
	}
	return v.Report, errors.Join(v.everything(), held.release())
}

// VerifyLog checks one log of an open store, as Verify checks all logs. The log must not be open.
// If the log's directory has the name of another log, the error is an ErrOtherLog.
func (s *Store) VerifyLog(ctx context.Context, id LogID) (LogReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[id] != nil {
		return LogReport{}, fmt.Errorf("%s: log %v: %w", s.config.Dir, id, ErrLogOpen)
	}
	dir := filepath.Join(s.path(logsDir), id.escape())
	if err := s.reachLog(dir, LogConfig{ID: id}, true); err != nil {
		return LogReport{}, err
	}
	if l, err := readLogLabel(dir); err == nil {
		if err := l.check(dir, id); err != nil {
			return LogReport{}, err
		}
	}
	v := &verifier{Report: Report{Dir: s.config.Dir, Cluster: s.Cluster(), Node: s.Node()}, ctx: ctx}
	err := v.log(dir, id)
	return v.Logs[0], err
}

type verifier struct {
	Report
	ctx      context.Context
	keys     map[order.NodeID]ed25519.PublicKey
	progress func(Progress)
}

func (v *verifier) everything() error {
	id, err := readIdentity(v.Dir)
	v.Cluster, v.Node = id.Cluster, id.Node
	if err := found(&v.Faults, filepath.Join(v.Dir, engine.IdentityFile), err); err != nil {
		return err
	}
	keys, err := keysIn(v.Dir)
	if engine.Missing(err) {
		err = engine.Damaged(filepath.Join(v.Dir, engine.MetaFile), "it is missing, or cannot be listed (%d values)", len(keys))
	}
	if err := found(&v.Faults, filepath.Join(v.Dir, engine.MetaFile), err); err != nil {
		return err
	}
	logs := filepath.Join(v.Dir, logsDir)
	ids, foreign, err := logsIn(logs)
	if err != nil {
		return err
	}
	v.Foreign = foreign
	for _, id := range ids {
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == logKey(id.escape()) })
		if err := v.log(filepath.Join(logs, id.escape()), id); err != nil {
			return err
		}
	}
	for _, name := range made(keys) {
		v.Faults = append(v.Faults, Fault{File: filepath.Join(logs, name), What: "the log is missing"})
	}
	return nil
}

// found turns what is damage into a fault, and gives back what is not.
func found(faults *[]Fault, file string, err error) error {
	var d *journal.Damage
	switch {
	case err == nil:
		return nil
	case errors.As(err, &d):
		f := Fault{File: file, Block: d.Block, Record: d.Record, What: d.What}
		if d.Version != (order.Version{}) {
			f.Version = d.Version.String()
		}
		*faults = append(*faults, f)
		return nil
	case errors.Is(err, ErrDamaged):
		*faults = append(*faults, faultOf(file, err))
		return nil
	}
	return err
}

// faultOf returns the damage of a file, or of one in a directory. The caller decides what to do
// about it.
func faultOf(file string, err error) Fault {
	what := strings.TrimSuffix(strings.TrimSuffix(err.Error(), "; "+engine.LogAdvice), "; "+engine.StoreAdvice)
	if inside, is := strings.CutPrefix(what, file+"/"); is {
		if name, rest, ok := strings.Cut(inside, ": "); ok {
			return Fault{File: filepath.Join(file, name), What: rest}
		}
	}
	return Fault{File: file, What: strings.TrimPrefix(what, file+": ")}
}

// log adds the report of one log. Without its label it is read as what its files are.
func (v *verifier) log(dir string, id LogID) error {
	r := LogReport{Log: id.String(), Name: id.Name, Shard: id.Shard}
	l, err := readLogLabel(dir)
	if e, ok := engineIn(dir); errors.Is(err, ErrDamaged) && ok {
		l = label{Format, id.Name, id.Shard, e}
	} else if err == nil {
		err = otherLog(&r, dir, l.check(dir, id))
	}
	if err = found(&r.Faults, filepath.Join(dir, labelFile), err); err == nil && l.Engine != "" {
		r.Engine = l.Engine
		err = v.files(&r, dir, &l)
	}
	v.Logs = append(v.Logs, r)
	return err
}

// otherLog turns it into a fault that a directory has the name of another log.
func otherLog(r *LogReport, dir string, err error) error {
	if errors.Is(err, ErrOtherLog) {
		r.Faults = append(r.Faults, Fault{File: dir, What: strings.TrimPrefix(err.Error(), dir+": ")})
		return nil
	}
	return err
}

// files reads all of a log, under the name that its label gives it.
func (v *verifier) files(r *LogReport, dir string, l *label) error {
	e, err := driverAt(l.Engine, dir)
	if err == nil {
		err = found(&r.Faults, dir, v.blocks(r, e, dir, LogID{l.Name, l.Shard}))
	}
	if err != nil {
		return err
	}
	h, err := readWhole(v.ctx, dir)
	if h != nil {
		r.Snapshot = placeAt(h.at.Version, h.at.Time, h.at.Number)
	}
	return found(&r.Faults, filepath.Join(dir, engine.SnapshotFile), err)
}

// blocks reads the engine's files.
func (v *verifier) blocks(r *LogReport, e engine.Driver, dir string, id LogID) error {
	store, err := engine.Open(engine.Opening{Context: v.ctx, ReadOnly: true}, e, dir)
	if err != nil {
		return err
	}
	store.Until = v.ctx
	return errors.Join(v.scan(r, store, e, dir, id), store.Close())
}

func (v *verifier) scan(r *LogReport, store journal.Store, e engine.Driver, dir string, id LogID) error {
	first, err := store.FirstIndex()
	if err != nil {
		return err
	}
	got, err := journal.Scan{
		Name:   dir,
		Origin: journal.Origin{Cluster: v.Cluster, Node: v.Node, Log: id.Name, Shard: id.Shard},
		Key:    v.keys[v.Node],
		Fault:  func(d *journal.Damage) { _ = found(&r.Faults, dir, d) },
		Block: func(index, last uint64) {
			if v.progress != nil {
				v.progress(Progress{Log: LogID{r.Name, r.Shard}, Block: index, First: first, Last: last})
			}
		},
	}.Read(store)
	r.Blocks, r.Records, r.Bytes, r.Hashed, r.Vouched = got.Blocks, got.Records, got.Bytes, got.Sealed, got.Vouched
	if err == nil {
		var last uint64
		if last, err = store.LastIndex(); err == nil {
			var torn journal.Repaired
			torn, err = lostEnd(store, e, dir, last)
			err = found(&r.Faults, dir, err)
			if torn.Blocks > 0 {
				r.Torn = &Place{Number: torn.Record, Version: torn.Version.String()}
			}
		}
	}
	if got.Records > 0 {
		r.First = placeAt(got.First.Version, got.First.Time, got.First.Number)
		r.Last = placeAt(got.Last.Version, got.Last.Time, got.Last.Number)
	}
	return err
}
