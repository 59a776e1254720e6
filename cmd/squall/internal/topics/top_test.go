package topics

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/squall-go/squall/dds"
)

func TestRatesOfTopicsAreShown(t *testing.T) {
	p, join := program(t)
	notes, err := dds.NewTopic(t.Context(), p, "notes", dds.CBOR[note](), dds.QoS{})
	fatal(t, err)
	_, err = dds.NewTopic(t.Context(), p, "silent", dds.CBOR[note](), dds.QoS{})
	fatal(t, err)
	w, err := notes.Writer(t.Context(), dds.QoS{})
	fatal(t, err)
	_, err = notes.Reader(t.Context(), dds.QoS{})
	fatal(t, err)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := w.Write(t.Context(), note{}); err != nil {
				stopped <- err
				return
			}
		}
	}()
	out, err := run(t, "", "top", join, "--count=10", "--every=100ms", "--json")
	fatal(t, err)
	text, err := run(t, "", "top", "notes", join, "--count=3", "--every=300ms")
	fatal(t, err)
	close(stop)
	fatal(t, <-stopped)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	measured := false
	var last []Busy
	for _, line := range lines {
		last = nil
		fatal(t, json.Unmarshal([]byte(line), &last))
		if len(lines) != 10 || len(last) != 2 || last[0].Topic != "notes" || last[1].Topic != "silent" {
			t.Fatalf("%d tables, and one is %+v", len(lines), last)
		}
		n := last[0]
		measured = measured || n.Samples > 0 && n.Bytes > n.Samples && n.P50 > 0 && n.P99 >= n.P50
	}
	if n := last[0]; n.Writers != 1 || n.Readers != 1 || n.Total == 0 || !measured {
		t.Errorf("the topic that is written has %+v", n)
	}
	if n := last[1]; n.Writers != 0 || n.Readers != 0 || n.Total != 0 || n.Samples != 0 {
		t.Errorf("the silent topic has %+v", n)
	}
	if strings.Contains(text, "silent") || strings.Count(text, "│ notes") != 3 || strings.Contains(text, clearScreen) {
		t.Errorf("tables are\n%s", text)
	}
	if _, err := run(t, "", "top", join, "--every=0s"); err == nil || !strings.Contains(err.Error(), "--every 0s") {
		t.Errorf("%v", err)
	}
}
