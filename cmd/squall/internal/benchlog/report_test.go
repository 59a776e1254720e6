package benchlog

import (
	"bytes"
	"errors"
	"testing"
)

// judgedReport has every kind of row, of runs that are made up.
func judgedReport() Report {
	failed := rates("failed", 3, 4)
	failed.Err = errors.Join(errNoRival, errors.New("and more"))
	series := []Series{rates("ours", 1_234_567, 3_000_000, 2_000_000), rates("other", 123.4, 98.76, 0), failed, {Name: "absent", Err: errNotAround}}
	var s set
	s.against("ours", "msgs/s", rateOf, 9, "other")
	s.against("ours", "msgs/s", rateOf, 1, "other", "failed")
	s.against("ours", "msgs/s", rateOf, 1, "absent")
	s.against("absent", "msgs/s", rateOf, 1, "ours")
	s.against("other", "msgs/s", rateOf, 0, "ours")
	s.alone("alone", "msgs/s", "ours", rateOf)
	s.bars = append(s.bars,
		bar{what: "at most", unit: "µs", figure: "ours", of: rateOf, limits: []string{"other"}, limitOf: rateOf, atMost: 3},
		bar{what: "under", unit: "s", figure: "other", of: rateOf, atMost: 100})
	return Report{Dir: "/data", FileSystem: "ext4", Runs: 3, Series: series, Rows: s.rows(series)}
}

func TestAReportIsTheSameInEachForm(t *testing.T) {
	r := judgedReport()
	for name, o := range map[string]options{
		"report.txt": {spec: defaultSpec()}, "report.md": {spec: defaultSpec(), bars: true}, "report.json": {json: true},
	} {
		var out bytes.Buffer
		if err := o.print(r, &out); err != nil {
			t.Error(err)
		}
		golden(t, name, out.Bytes())
	}
}
