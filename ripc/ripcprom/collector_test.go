package ripcprom

import (
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/squall-go/squall/ripc"
)

// Every field of the statistics is a metric, once.
func TestEveryCounterIsExported(t *testing.T) {
	var s ripc.Stats
	v := reflect.ValueOf(&s).Elem()
	for k := range v.NumField() {
		if f := v.Field(k); f.CanUint() {
			f.SetUint(uint64(k + 1))
		} else {
			f.SetInt(int64(k + 1))
		}
	}
	seen := map[float64]bool{}
	for _, m := range metrics {
		seen[m.value(&s)] = true
	}
	for k := range v.NumField() {
		if !seen[float64(k+1)] {
			t.Errorf("%s is not exported", v.Type().Field(k).Name)
		}
	}
	if len(metrics) != v.NumField() {
		t.Errorf("%d metrics of %d fields", len(metrics), v.NumField())
	}
}

func TestTwoEndpointsFitIntoOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"a", "b"} {
		e, err := ripc.Open(t.Context(), ripc.Config{Listen: "127.0.0.1:0", Resolver: ripc.Static{}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		registry.MustRegister(NewCollector(e, name))
	}
	families, err := registry.Gather()
	if err != nil || len(families) != len(metrics) {
		t.Fatal(len(families), err)
	}
	for _, f := range families {
		if len(f.Metric) != 2 {
			t.Errorf("%s has %d values", f.GetName(), len(f.Metric))
		}
	}
}
