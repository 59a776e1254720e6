package figures

import (
	"bytes"
	"strings"
	"testing"
)

func TestARowShowsAFigureBesideItsLimitAndWhatIsAskedOfIt(t *testing.T) {
	of := func(v ...float64) *Summary { s := Values(v).Summary(); return &s }
	begin := Beside{What: "ours", Unit: "MB/s", Figure: *of(20, 10, 30), LimitName: "raw", Limit: of(10, 5)}
	ratios := func(r Row) Row { r.Ratio, r.Pairs = 2, of(1, 3); return r }
	for want, row := range map[string]Row{
		"| ours | 20.0 MB/s (10.0 – 30.0) | raw: 7.50 (5.00 – 10.0) | 2.00 (1.00 – 3.00) | at least 1.00 | ok |": ratios(Row{Beside: begin, Judged: Judged{"at least 1.00", "ok"}}),
		"| ours | 1.00 s (1.00 – 1.00) | – | – | – | a; b |":                                                     {Beside: Beside{What: "ours", Unit: "s", Figure: *of(1)}, Judged: Judged{"–", "a\nb"}},
	} {
		var out bytes.Buffer
		JudgedTable(&out, "ratio", []Row{row}).RenderMarkdown()
		if lines := strings.Split(out.String(), "\n"); lines[0] != "| what | figure | limit | ratio | bar | ok/missed |" || lines[2] != want {
			t.Errorf("not %s\n%s", want, &out)
		}
	}
}
