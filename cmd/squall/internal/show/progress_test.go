package show

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestALineTellsHowMuchIsLeft(t *testing.T) {
	for want, p := range map[string]*Progress{
		"playing: 3 of 12 seeds, about 6s left":       {ProgressConfig: ProgressConfig{What: "playing", Total: 12, Unit: "seeds"}, done: 3},
		"run 2: 1 of 2, about 2s left":                {ProgressConfig: ProgressConfig{What: "run 2", Total: 2}, done: 1},
		"receiving: 1.0 MB of 3.0 MB, about 4s left":  {ProgressConfig: ProgressConfig{What: "receiving", Total: 3_000_000, Bytes: true}, done: 1_000_000},
		"beginning: 0 of 5 blocks, about 10s left":    {ProgressConfig: ProgressConfig{What: "beginning", Total: 5, Unit: "blocks"}},
		"at its end: 5 of 5 blocks, about 0s left":    {ProgressConfig: ProgressConfig{What: "at its end", Total: 5, Unit: "blocks"}, done: 5},
		"nothing to do: 0 of 0 blocks, about 0s left": {ProgressConfig: ProgressConfig{What: "nothing to do", Unit: "blocks"}},
	} {
		if got := p.line(2 * time.Second); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestABarFitsIntoTheTerminal(t *testing.T) {
	p := &Progress{ProgressConfig: ProgressConfig{What: "receiving a file", Total: 3_000_000, Bytes: true}, done: 1_500_000}
	const want = "receiving a file  50% |███████████████               | (1.5 MB/3.0 MB, 750 kB/s) [2s:2s]"
	if got := p.bar(2*time.Second, 100); got != want {
		t.Errorf("%q, not %q", got, want)
	}
	for _, columns := range []int{0, 1, 20, 60, 80} {
		if n := utf8.RuneCountInString(p.bar(2*time.Second, columns)); n > columns {
			t.Errorf("%d columns of %d", n, columns)
		}
	}
	p = &Progress{ProgressConfig: ProgressConfig{What: "playing", Total: 4, Unit: "seeds"}, done: 4}
	if got := p.bar(2*time.Second, 100); !strings.HasSuffix(got, "(4/4, 2 seeds/s) [2s:0s]") {
		t.Error(got)
	}
}

func TestWhereNobodyWatchesALineComesNowAndThen(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(ProgressConfig{To: &out, What: "reading", Total: 10})
	p.Set(1)
	if out.Len() > 0 {
		t.Errorf("at once: %s", &out)
	}
	p.told = p.told.Add(-2 * tellEvery)
	p.Set(5)
	p.Set(3) // which comes late
	p.Add()
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "reading: 5 of 10, ") || p.done != 6 {
		t.Errorf("%d: %s", p.done, got)
	}
	p.Begin("comparing", 3)
	p.told = p.told.Add(-2 * tellEvery)
	p.Describe("comparing more")
	p.told = p.told.Add(-2 * tellEvery)
	p.End()
	p.Set(2)
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.HasSuffix(got, "comparing more: 0 of 3, about 0s left\n") {
		t.Errorf("%s", got)
	}
}

func TestWhatIsSoonOverIsNotShown(t *testing.T) {
	var out bytes.Buffer
	for _, c := range []ProgressConfig{{After: time.Hour}, {Quiet: true}} {
		c.To, c.Total = &out, 10
		p := NewProgress(c)
		p.told = p.told.Add(-2 * tellEvery)
		p.Set(5)
	}
	var none *Progress
	none.Begin("", 1)
	none.Describe("")
	none.Set(1)
	none.Add()
	none.End()
	if out.Len() > 0 {
		t.Errorf("%s", &out)
	}
}
