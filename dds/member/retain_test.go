package member

import (
	"strings"
	"testing"

	"github.com/squall-go/squall"
)

// What a log drops before there is a snapshot would be missing after a restart.
func TestASpaceRefusesLogRetain(t *testing.T) {
	sg := squall.SubgroupConfig{Name: "s", Mode: squall.Persistent, Log: squall.LogConfig{Retain: squall.Retention{Records: 2}}}
	if _, err := newBackend(Config{Subgroup: sg}); err == nil || !strings.Contains(err.Error(), "Log.Retain") {
		t.Errorf("%v", err)
	}
}
