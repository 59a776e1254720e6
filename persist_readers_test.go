package squall_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/logwire"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist"
)

// readAll reads a member's log as a process that knows no group's secret does.
func readAll(g *squall.Group, config *tls.Config) (n int, err error) {
	c := logwire.Client{Dial: func(ctx context.Context) (net.Conn, error) { return port.Dial(ctx, g.Addr(), port.KindLog, config) }}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, err := range c.Range(ctx, persist.LogID{Name: "log"}, squall.Version{}, squall.Version{}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// A stranger reads nothing; a process of the group that comes back catches up from the others; and
// with TLS a certificate admits.
func TestLogsAreReadByTheGroupAndByThoseThatItAdmits(t *testing.T) {
	t.Parallel()
	a := testutil.NewAuthority(t)
	for name, c := range map[string]struct {
		secure, open bool
		admitted     bool
	}{
		"tcp":           {false, false, false},
		"tcp, open":     {false, true, true},
		"tls":           {true, false, true},
		"tls, and open": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			reader := func() *tls.Config {
				if c.secure {
					return a.TLS()
				}
				return nil
			}
			config := func(i int, config *squall.Config) { config.TLS, config.OpenLogs = reader(), c.open }
			dir, j := t.TempDir(), &keeper{}
			groups, _ := durableCluster(t, dir, 3, config)
			persistSome(t, groups, "before", 5)
			n, err := readAll(groups[0], reader())
			switch {
			case c.admitted && (err != nil || n != 15):
				t.Errorf("%d records of 15: %v", n, err)
			case !c.admitted && (n > 0 || !errors.Is(err, logwire.ErrNotAdmitted) || !strings.Contains(err.Error(), "Config.OpenLogs")):
				t.Errorf("a stranger: %d records, %v", n, err)
			}

			closeWell(t, groups[2])
			persistSome(t, groups[:2], "meanwhile", 5)
			back := squall.Config{
				Cluster: "durable", ID: 3, Listen: "127.0.0.1:0", Join: []string{groups[0].Addr()}, InitialMembers: 3, Logger: quiet,
				Dir: filepath.Join(dir, "node-3"), Subgroups: []squall.SubgroupConfig{{
					Name: "log", Mode: squall.Persistent, RingBytes: 64 << 10, Window: 256, Deliver: j.deliver, Log: squall.LogConfig{Recover: j.recover},
				}},
			}
			config(2, &back)
			ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
			defer cancel()
			again, err := squall.Open(ctx, back)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeAll(again) })
			eventually(t, "it has caught up", func() bool { return len(j.all()) == 15+10 })
		})
	}
}
