package figures

// Bar is what is asked of a figure: of its ratio to a limit, or of itself where there is none. The zero value asks nothing.
type Bar struct {
	AtLeast float64 // 0: nothing
	AtMost  float64 // 0: nothing. A figure without a limit has to stay under it
	None    bool    // the figure has to be 0, but for what the measurement itself does
	Alone   bool    // there is no limit
}

// negligible is what counts as none: taking the samples allocates a few objects in each run.
const negligible = 0.0005

func (b Bar) String() string {
	switch {
	case b.None:
		return "0"
	case b.AtLeast > 0:
		return "at least " + Number(b.AtLeast)
	case b.AtMost > 0 && b.Alone:
		return "under " + Number(b.AtMost)
	case b.AtMost > 0:
		return "at most " + Number(b.AtMost)
	}
	return "–"
}

// Verdict says whether a value reaches the bar.
func (b Bar) Verdict(v float64) string {
	ok := true
	switch {
	case b.None:
		ok = v < negligible
	case b.AtLeast > 0:
		ok = v >= b.AtLeast
	case b.AtMost > 0 && b.Alone:
		ok = v < b.AtMost
	case b.AtMost > 0:
		ok = v <= b.AtMost
	default:
		return "–"
	}
	if ok {
		return "ok"
	}
	return "missed"
}
