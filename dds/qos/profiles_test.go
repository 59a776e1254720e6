package qos_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds/qos"
)

const profiles = `{
  "base": {
    "RELIABILITY": {"kind": "RELIABLE", "max_blocking_time": "100ms"},
    "PARTITION": ["a", "b"]
  },
  "sensor": {
    "extends": "base",
    "RELIABILITY": "BEST_EFFORT",
    "DEADLINE": {"period": "1s"},
    "reader": {"TIME_BASED_FILTER": "20ms", "HISTORY": {"depth": 8}, "RESOURCE_LIMITS": {"max_samples": 100}},
    "writer": {"LIFESPAN": "infinite", "USER_DATA": "north"}
  },
  "alarm": {
    "extends": ["sensor", "base"],
    "DURABILITY": "TRANSIENT",
    "DEADLINE": "infinite",
    "topic": {"DURABILITY_SERVICE": {"history_kind": "KEEP_ALL", "service_cleanup_delay": "1m"}},
    "reader": {"HISTORY": "KEEP_ALL", "READER_DATA_LIFECYCLE": {"autopurge_disposed_samples_delay": "5s"}},
    "writer": {"OWNERSHIP_STRENGTH": -3, "WRITER_DATA_LIFECYCLE": false, "PRESENTATION": {"access_scope": "GROUP", "coherent_access": true}}
  }
}`

func TestProfilesInheritPolicies(t *testing.T) {
	all, err := qos.ParseProfiles("p.json", []byte(profiles))
	if err != nil {
		t.Fatal(err)
	}
	ab := []string{"a", "b"}
	blocking := qos.Reliability{MaxBlocking: 100 * time.Millisecond}
	for _, c := range []struct {
		name string
		of   qos.Entity
		want qos.Set
	}{
		{"base", qos.Topic, qos.Set{Reliability: blocking}}, // a topic has no partitions
		{"base", qos.Reader, qos.Set{Reliability: blocking, Partitions: ab}},
		{"sensor", qos.Reader, qos.Set{
			Reliability: qos.Reliability{Kind: qos.BestEffort}, Partitions: ab, Deadline: time.Second, Separation: 20 * time.Millisecond, History: qos.KeepLast(8), Limits: qos.Limits{Samples: 100},
		}},
		{"sensor", qos.Writer, qos.Set{Reliability: qos.Reliability{Kind: qos.BestEffort}, Partitions: ab, Deadline: time.Second, UserData: []byte("north")}},
		{"alarm", qos.Topic, qos.Set{Reliability: blocking, Durability: qos.Transient, Service: qos.DurabilityService{History: qos.KeepAll(), CleanupDelay: time.Minute}}},
		{"alarm", qos.Reader, qos.Set{
			Reliability: blocking, Partitions: ab, Durability: qos.Transient, Separation: 20 * time.Millisecond, History: qos.KeepAll(), Limits: qos.Limits{Samples: 100},
			Purge: qos.ReaderLifetime{Disposed: 5 * time.Second},
		}},
		{"alarm", qos.Writer, qos.Set{
			Reliability: blocking, Partitions: ab, Durability: qos.Transient, UserData: []byte("north"), Strength: -3, KeepUnregistered: true,
			Presentation: qos.Presentation{Access: qos.GroupScope, Coherent: true},
		}},
	} {
		if got, err := all.Set(c.name, c.of); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s as a %v: %v\n%+v\n%+v", c.name, c.of, err, got, c.want)
		}
	}
	if _, err := all.Set("none", qos.Topic); !errors.Is(err, qos.ErrProfile) || !strings.Contains(err.Error(), `"base", "sensor", "alarm"`) {
		t.Errorf("a profile that is not there: %v", err)
	}
}

// Whatever is wrong in a file is told with its line, and with what is allowed.
func TestFaultsOfProfilesAreToldWithTheirLines(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a": {` + "\n" + `"DURABILTY": "TRANSIENT"}}`, `p.json:2: there is no policy "DURABILTY"; there are USER_DATA, `},
		{`{"a": {` + "\n" + `"DURABILITY": "FOREVER"}}`, `p.json:2: DURABILITY: kind is "FOREVER", and must be one of "VOLATILE", "TRANSIENT_LOCAL", "TRANSIENT", "PERSISTENT"`},
		{`{"a": {"HISTORY": {` + "\n\n" + `"deep": 3}}}`, `p.json:3: HISTORY has no field "deep"; it has "kind", "depth"`},
		{`{"a": {"HISTORY": {"depth": 0}}}`, `p.json:1: HISTORY: depth is 0, and must be a whole number between 1 and 2147483647`},
		{`{"a": {"DEADLINE": 100}}`, `DEADLINE: period is 100, and must be a duration such as "100ms", or "infinite"`},
		{`{"a": {"DEADLINE": "0s"}}`, `or "infinite"`},
		{`{"a": {"TIME_BASED_FILTER": "infinite"}}`, `TIME_BASED_FILTER: minimum_separation is "infinite", and must be a duration`},
		{`{"a": {"PARTITION": "x"}}`, `PARTITION: name is "x", and must be a list of texts`},
		{`{"a": {"PRESENTATION": {"coherent_access": "yes"}}}`, `coherent_access is "yes", and must be true or false`},
		{`{"a": {` + "\n" + `"TRANSPORT_PRIORITY": 3}}`, `p.json:2: profile "a": qos: refused: TRANSPORT_PRIORITY of a topic: a topic has one order`},
		{`{"a": {"writer": {` + "\n" + `"TIME_BASED_FILTER": "1s"}}}`, `p.json:2: profile "a": qos: refused: TIME_BASED_FILTER of a writer: it has no effect there`},
		{`{"a": {"reader": {"TIME_BASED_FILTER": "2s",` + "\n" + `"DEADLINE": "1s"}}}`, `p.json:2: profile "a": qos: inconsistent: DEADLINE of a reader: 1s is less than`},
		{`{"a": {},` + "\n" + `"a": {}}`, `p.json:2: "a" is there twice`},
		{`{"a": {` + "\n" + `"extends": "b"}}`, `p.json:2: profile "a" extends b, which is not there; there are "a"`},
		{`{"a": {"extends": "b"},` + "\n" + `"b": {"extends": ["a"]}}`, `extends itself`},
		{`{"a": {"extends": {}}}`, `"extends" is an object`},
		{`{"a": 1}`, `profile "a": it must be an object with policies`},
		{`[]`, `there must be an object with a profile under each name`},
		{`{"a": {` + "\n" + `,}}`, `p.json:2: `},
		{`{"a": {}} {}`, `nothing after it`},
		{``, `p.json:1: `},
	} {
		_, err := qos.ParseProfiles("p.json", []byte(c.in))
		if !errors.Is(err, qos.ErrProfile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n is told as %v\n and not as   %s", c.in, err, c.want)
		}
	}
	if _, err := qos.ParseProfiles("p", []byte(`{"a": {"X": 1, "Y": 1}}`)); strings.Count(err.Error(), "there is no policy") != 2 {
		t.Errorf("not all faults are told: %v", err)
	}
}

// Every policy has fields, and a policy of an extending profile replaces the inherited one as a
// whole.
func TestEveryPolicyCanBeGivenInAProfile(t *testing.T) {
	for _, p := range qos.Policies() {
		_, err := qos.ParseProfiles("p.json", []byte(`{"a": {"`+p.String()+`": {}}}`))
		if err != nil {
			t.Errorf("%v without fields: %v", p, err)
		}
		_, err = qos.ParseProfiles("p.json", []byte(`{"a": {"`+p.String()+`": null}}`))
		if err == nil || !strings.Contains(err.Error(), " must be ") {
			t.Errorf("%v without a value: %v", p, err)
		}
	}
}

func FuzzProfiles(f *testing.F) {
	f.Add([]byte(profiles))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := qos.ParseProfiles("p.json", b)
		if err != nil {
			return
		}
		for _, n := range all.Names() {
			for of := qos.Topic; of <= qos.Reader; of++ {
				if s, err := all.Set(n, of); err != nil || s.Validate(of) != nil {
					t.Errorf("profile %q as a %v: %v", n, of, err)
				}
			}
		}
	})
}

// What is shown of a set is a profile that gives the same set.
func TestASetIsShownAsAProfile(t *testing.T) {
	all, err := qos.ParseProfiles("p.json", []byte(profiles))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"base", "sensor", "alarm"} {
		for _, of := range []qos.Entity{qos.Topic, qos.Writer, qos.Reader} {
			set, err := all.Set(name, of)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := json.Marshal(map[string]any{"shown": map[string]any{of.String(): set.Profile(of)}})
			if err != nil {
				t.Fatal(err)
			}
			back, err := qos.ParseProfiles("shown.json", shown)
			if err != nil {
				t.Fatalf("%v: %s", err, shown)
			}
			if again, err := back.Set("shown", of); err != nil || !reflect.DeepEqual(again, set) {
				t.Errorf("%s of a %v: %v\n%+v\n%+v\n%s", name, of, err, again, set, shown)
			}
		}
	}
	var none qos.Set
	if shown := none.Profile(qos.Topic); shown["DURABILITY"]["kind"] != "VOLATILE" || shown["RELIABILITY"]["kind"] != "RELIABLE" || shown["PARTITION"] != nil || shown["DEADLINE"] != nil {
		t.Errorf("the defaults of a topic: %v", shown)
	}
}
