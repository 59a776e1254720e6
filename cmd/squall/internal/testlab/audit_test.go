package testlab

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist"
)

var engines = []string{"bolt", "wal"}

// recordsOf are n records of process 7, as a group would keep them.
func recordsOf(n int) (all []persist.Record) {
	for i := range n {
		data := make([]byte, 2*HeaderBytes)
		pattern.fill(data, 7, uint64(i))
		all = append(all, persist.Record{
			Version: squall.Version{View: squall.ViewID(1 + i/4), Seq: squall.Seq(3 * i)}, Time: squall.Time(1000 + 10*i), Sender: 2, Number: uint64(i), Data: data,
		})
	}
	return all
}

func acknowledgedOf(records []persist.Record, on ...squall.NodeID) (all []Acknowledged) {
	for i, r := range records {
		all = append(all, Acknowledged{r.Version, 7, uint64(i), on})
	}
	return all
}

func each(records []persist.Record, end error) iter.Seq2[persist.Record, error] {
	return func(yield func(persist.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if end != nil {
			yield(persist.Record{}, end)
		}
	}
}

func TestAnAuditFindsWhatIsWrong(t *testing.T) {
	const n = 10
	broken := errors.New("the disk is broken")
	type world struct {
		logs [3][]persist.Record
		ends [3]error
		Audit
	}
	edit := func(w *world, log, at int, change func(*persist.Record)) { change(&w.logs[log][at]) }
	for _, c := range []struct {
		name string
		harm func(*world)
		want string // empty: nothing is
	}{
		{"all is well", func(*world) {}, ""},
		{"some lack an end that was not acknowledged", func(w *world) {
			w.logs[0], w.logs[1], w.Acknowledged = w.logs[0][:8], w.logs[1][:9], w.Acknowledged[:8]
		}, ""},
		{"one has an end of its own, and the others went on without it", func(w *world) {
			w.Acknowledged = w.Acknowledged[:8]
			for i := 8; i < n; i++ {
				edit(w, 0, i, func(r *persist.Record) { r.Version.View = 2 })
			}
		}, ""},
		{"an end is missing, and all have to have it", func(w *world) { w.Same, w.logs[0], w.Acknowledged = true, w.logs[0][:9], w.Acknowledged[:8] },
			"the logs differ: 10 records, 8 of them acknowledged; others lack 1, and have 0 of their own"},
		{"one that was acknowledged is nowhere", func(w *world) {
			for i := range w.logs {
				w.logs[i] = w.logs[i][:9]
			}
		}, "lost: 3:27, message 9 of process 7, and 0 more that were acknowledged; node 1, which came furthest, ends with 3:24"},
		{"one that was acknowledged is not on a disk that should have it", func(w *world) { w.logs[1] = w.logs[1][:9] },
			"lost: 3:27, message 9 of process 7, was acknowledged by nodes [1 2 3], and node 2 does not have it"},
		{"there is a gap in all logs", func(w *world) {
			for i := range w.logs {
				w.logs[i] = slices.Delete(w.logs[i], 4, 5)
				for j := 4; j < len(w.logs[i]); j++ {
					edit(w, i, j, func(r *persist.Record) { r.Number-- })
				}
			}
		}, "lost: 2:12, message 4 of process 7, which was acknowledged: 2:15 stands there"},
		{"another message stands at its place", func(w *world) { w.Acknowledged[3].Number = 8 },
			"1:9 was acknowledged as message 8 of process 7, and is message 3 of process 7"},
		{"the content is none that was sent", func(w *world) {
			for i := range w.logs {
				edit(w, i, 5, func(r *persist.Record) { r.Data[20] ^= 1 })
			}
		}, "differs"},
		{"the content differs", func(w *world) { edit(w, 1, 5, func(r *persist.Record) { r.Data[20] ^= 1 }) }, "and node 2 does not have it"},
		{"a sender differs", func(w *world) { edit(w, 1, 5, func(r *persist.Record) { r.Sender = 3 }) }, "and node 2 does not have it"},
		{"a time differs", func(w *world) { edit(w, 2, 5, func(r *persist.Record) { r.Time++ }) }, "does not have it"},
		{"times stand still", func(w *world) { edit(w, 2, 5, func(r *persist.Record) { r.Time = 1040 }) }, "node 3: the time of 2:15 is"},
		{"versions go back", func(w *world) { edit(w, 2, 5, func(r *persist.Record) { r.Version.Seq = 12 }) }, "node 3: version 2:12 comes after 2:12"},
		{"a record is missing", func(w *world) { w.logs[0] = slices.Delete(w.logs[0], 4, 5) }, "node 1: version 2:15 is record 5 after record 3"},
		{"a log cannot be read to its end", func(w *world) { w.ends[1] = broken }, "node 2, after record 10: the disk is broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world{Audit: Audit{Acknowledged: acknowledgedOf(recordsOf(n), 1, 2, 3)}}
			for i := range w.logs {
				w.logs[i] = recordsOf(n)
			}
			c.harm(&w)
			var shelves []*shelf
			for i, records := range w.logs {
				s := newShelf(squall.NodeID(i+1), records[len(records)-1].Version, each(records, w.ends[i]))
				defer s.close()
				shelves = append(shelves, s)
			}
			f, err := w.compare(shelves)
			if c.want == "" && (err != nil || f.Records != n) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, %v; want %q", f, err, c.want)
			}
		})
	}
}

func TestAnAuditReadsDirectories(t *testing.T) {
	a := Audit{Log: persist.LogID{Name: "kept"}, Same: true, Acknowledged: acknowledgedOf(recordsOf(100), 1, 2)}
	for node := squall.NodeID(1); node <= 2; node++ {
		a.Disks = append(a.Disks, Disk{node, t.TempDir()})
		s, err := persist.Open(t.Context(), persist.Config{Dir: a.Disks[node-1].Dir, Cluster: "audit", Node: node})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Log(t.Context(), persist.LogConfig{ID: a.Log, Engine: Engines[engines[node-1]]})
		for _, r := range recordsOf(100) {
			if err == nil {
				err = l.Import(t.Context(), r)
			}
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want := Findings{Records: 100, Acknowledged: 100}
	if f, err := a.Run(); err != nil || f != want {
		t.Errorf("%v, %v", f, err)
	}
	a.Acknowledged = append(a.Acknowledged, Acknowledged{squall.Version{View: 99}, 7, 100, nil})
	if _, err := a.Run(); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("lost: %v", squall.Version{View: 99})) {
		t.Error(err)
	}
}
