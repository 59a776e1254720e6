package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheVersionNamesTheCommitOnce(t *testing.T) {
	platform := " go1.26 " + runtime.GOOS + "/" + runtime.GOARCH
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "squall v1.2.3"},
		{"v1.2.3", []debug.BuildSetting{commit}, "squall v1.2.3 commit 0123456789ab"},
		{"(devel)", []debug.BuildSetting{commit, {Key: "vcs.modified", Value: "true"}}, "squall development commit 0123456789ab (modified)"},
		{"v0.0.0-20260101000000-0123456789ab+dirty", []debug.BuildSetting{commit}, "squall v0.0.0-20260101000000-0123456789ab+dirty"},
		{"", nil, "squall development"},
	} {
		info := &debug.BuildInfo{GoVersion: "go1.26", Main: debug.Module{Version: c.version}, Settings: c.settings}
		if got := describe(info); got != c.want+platform {
			t.Errorf("%q, not %q", got, c.want+platform)
		}
	}
}

func TestTheCommitIsThatOfTheBuild(t *testing.T) {
	for want, settings := range map[string][]debug.BuildSetting{
		" false":     nil,
		"0123 false": {{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "false"}},
		"0123 true":  {{Key: "vcs.revision", Value: "0123"}, {Key: "vcs.modified", Value: "true"}},
	} {
		commit, modified := commitOf(&debug.BuildInfo{Settings: settings})
		if got := fmt.Sprint(commit, " ", modified); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
