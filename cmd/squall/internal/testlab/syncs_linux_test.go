//go:build system

package testlab

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/testlab/faultfs"
)

// costs is how often what was synced, of the store's files, between two counts.
func costs(before, after map[faultfs.Synced]int) map[faultfs.Synced]int {
	by := map[faultfs.Synced]int{}
	for what, n := range after {
		if n -= before[what]; n > 0 {
			what.Path = strings.TrimPrefix(what.Path, "store/logs/")
			if ext := path.Ext(what.Path); ext == ".wal" {
				what.Path = path.Dir(what.Path) + "/segment"
			}
			by[what] += n
		}
	}
	return by
}

// What docs/formats.md says of syncs: what is kept costs just as many.
func TestWhatIsKeptCostsAsManySyncsAsIsSaid(t *testing.T) {
	const dir = "kept.0"
	tree, segment := faultfs.Synced{Path: dir + "/log.db", Kind: faultfs.Data}, faultfs.Synced{Path: dir + "/segment", Kind: faultfs.Data}
	lengthened := faultfs.Synced{Path: dir + "/log.db", Kind: faultfs.File}
	names := faultfs.Synced{Path: dir, Kind: faultfs.Names}
	list := faultfs.Synced{Path: dir + "/wal-meta.db", Kind: faultfs.Data}
	snapshot := faultfs.Synced{Path: dir + "/snapshot.new", Kind: faultfs.File}
	type counts map[faultfs.Synced]int
	for _, c := range []struct {
		name  string
		tasks func(next uint64) []keeperTask
		want  map[string]counts
	}{
		{"ten groups of one record", func(uint64) (tasks []keeperTask) {
			for range 10 {
				tasks = append(tasks, keeperTask{Do: keepAppend, Sizes: []int{100}})
			}
			return tasks
		}, map[string]counts{"bolt": {tree: 20}, "wal": {segment: 10}}},
		{"a group that the file of a tree has no space for", func(uint64) []keeperTask {
			return []keeperTask{{Do: keepAppend, Sizes: []int{4 << 20}}}
		}, map[string]counts{"bolt": {tree: 2, lengthened: 1}, "wal": {segment: 1}}},
		{"a cut, and a group after it", func(next uint64) []keeperTask {
			return []keeperTask{{Do: keepCut, At: next - 1}, {Do: keepAppend, Sizes: []int{100}}}
		}, map[string]counts{"bolt": {tree: 4}, "wal": {segment: 2, names: 1, list: 2}}},
		{"a snapshot in place of the log", func(next uint64) []keeperTask {
			return []keeperTask{{Do: keepHasten, At: next + 1}}
		}, map[string]counts{"bolt": {tree: 8, snapshot: 1, names: 1}, "wal": {segment: 1, list: 6, snapshot: 1, names: 2}}},
	} {
		for _, engine := range engines {
			t.Run(fmt.Sprintf("engine=%s/%s", engine, c.name), func(t *testing.T) {
				r := newTrial(t, engine, 1, faultfs.New(1))
				var have counts
				_, err := r.while(faultfs.Faults{}, func(k *keeperProcess) error {
					for _, size := range []int{1 << 20, 100, 100} {
						first := keeperTask{Do: keepAppend, Sizes: []int{size}}
						if err := r.task(k, first, r.appended(first)); err != nil {
							return err
						}
					}
					before := r.disk.Syncs()
					for _, task := range c.tasks(r.is.next) {
						if err := r.task(k, task, r.is); err != nil {
							return err
						}
					}
					have = costs(before, r.disk.Syncs())
					return nil
				})
				if errors.Is(err, faultfs.ErrUnavailable) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err, r.failure)
				}
				if want := c.want[engine]; !maps.Equal(have, want) {
					t.Errorf("it costs %v, want %v", have, want)
				}
			})
		}
	}
}

// The process before may have ended between a write and its sync: what it wrote is read, and would
// be gone after a loss of power.
func TestWhatIsOpenedIsSyncedBeforeItIsReliedOn(t *testing.T) {
	for _, engine := range engines {
		t.Run(fmt.Sprint("engine=", engine), func(t *testing.T) {
			r := newTrial(t, engine, 1, faultfs.New(1))
			_, err := r.while(faultfs.Faults{}, func(k *keeperProcess) error {
				first := keeperTask{Do: keepAppend, Sizes: []int{100}}
				return r.task(k, first, r.appended(first))
			})
			if errors.Is(err, faultfs.ErrUnavailable) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			before := r.disk.Syncs()
			if _, err := r.while(faultfs.Faults{}, func(*keeperProcess) error { return nil }); err != nil {
				t.Fatal(err)
			}
			synced := map[string]bool{}
			for s := range costs(before, r.disk.Syncs()) {
				synced[s.Path] = true
			}
			log := map[string]string{"bolt": "/log.db", "wal": "/segment"}[engine]
			for _, file := range []string{"meta.db", log} {
				if !slices.ContainsFunc(slices.Collect(maps.Keys(synced)), func(path string) bool { return strings.HasSuffix(path, file) }) {
					t.Errorf("%s is not synced: %v", file, synced)
				}
			}
		})
	}
}
