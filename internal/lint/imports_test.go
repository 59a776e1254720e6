package lint

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// layers is the order in which packages may import each other: any from the lines above its own,
// none from its own line, so that there are no cycles. It is the drawing in docs/packages.md upside
// down. "x/..." is everything below x.
var layers = [][]string{
	{"dds/cdr", "dds/qos", "fabric/verbs/device", "internal/background", "internal/callers", "internal/crc", "internal/decode", "internal/descriptors", "internal/errs", "internal/extension", "internal/invariants", "internal/lint", "internal/mapped", "internal/mutant",
		"internal/netlab", "internal/progress", "internal/testutil", "internal/wait", "replicated/internal/simulate", "trust"},
	{"dds/filter", "dds/internal/space", "dds/rtps/internal/wire", "fabric/verbs/internal/fake", "internal/proc", "internal/wire", "order"},
	{"dds/internal/remote", "dds/rtps/internal/protocol", "fabric", "internal/samehost", "nullsend", "rdmc/schedule", "replicated/internal/invoke"},
	{"dds/internal/core", "fabric/port", "internal/handshake", "internal/journal", "internal/relay", "predicates"},
	{"fabric/verbs", "internal/attach", "internal/fabrictest", "internal/shm", "internal/simnet", "internal/tcp", "persist/internal/engine"},
	{"fabric/auto", "fabric/verbs/ibverbs", "persist/internal/values"},
	{"persist", "persist/internal/boltlog", "persist/internal/wallog", "rdmc", "sst"},
	{"persist/bolt", "persist/wal"},
	{"replicated/internal/machine", "ripc/directory/internal/registry", "ripc/internal/pair", "ripc/internal/stream", "smc", "views"},
	{"internal/catchup", "internal/viewchange", "replicated/internal/batch", "replicated/internal/client", "ripc/internal/table"},
	{"internal/logwire", "internal/multicast", "internal/restart", "internal/shard", "replicated/internal/relay"},
	{"internal/backlog", "internal/join", "internal/life", "internal/transfer"},
	{"internal/member"},
	{"internal/courier"},
	{"."},
	{"ripc", "squallprom"},
	{"fabric/verbs/internal/verbstest", "ripc/directory", "ripc/ripchttp", "ripc/ripcprom"},
	{"dds", "replicated"},
	{"dds/member", "replicated/member", "replicated/protobuf"},
	{"dds/internal/ddstest", "dds/rtps"},
	{"internal/sim"},
	{"replicated/squalltest"},
	{"cmd/squall/internal/rdma"},
	{"cmd/squall/internal/linkmodel", "cmd/squall/internal/mcap", "cmd/squall/internal/show", "cmd/squall/internal/testlab/...", "cmd/squall/internal/version"},
	{"cmd/squall/internal/bench"},
	{"cmd/squall/internal/..."},
	{"bench/...", "cmd/...", "examples/..."},
}

// transports are the implementations of the fabric. Everything else knows the contract only, which
// is what lets the simulator replace them; the packages listed with each choose or supply one.
var transports = map[string][]string{
	"fabric/auto":     {".", "fabric/verbs/internal/verbstest"},
	"fabric/verbs":    {"fabric/verbs/ibverbs"},
	"internal/shm":    {".", "fabric/auto", "ripc"},
	"internal/tcp":    {".", "fabric/auto", "ripc"},
	"internal/simnet": {".", "internal/sim"},
}

// clients are the packages by which processes outside of a group call it, and what they must not
// import, also not by way of others: the root and what members do.
var clients = map[string][]string{
	"dds":        {".", "dds/member", "internal/member", "internal/multicast", "persist", "sst", "views"},
	"replicated": {".", "replicated/member", "replicated/internal/machine", "internal/member", "internal/multicast", "persist", "predicates", "sst", "views"},
}

// layer returns the line of a package in the table, or -1.
func layer(pkg string) int {
	return slices.IndexFunc(layers, func(line []string) bool {
		return slices.ContainsFunc(line, func(entry string) bool {
			below, wild := strings.CutSuffix(entry, "/...")
			return pkg == entry || wild && (pkg == below || strings.HasPrefix(pkg, below+"/"))
		})
	})
}

// local returns the package of the repository that an import path names, as a directory.
func local(importPath string) (pkg string, ok bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// importsGoOneWay leaves tests alone: they may reach for any package, and the compiler refuses
// their cycles.
func importsGoOneWay(m *module) {
	for _, pkg := range m.packages() {
		if layer(pkg) < 0 {
			m.faults = append(m.faults, pkg+": the package has no place in the table of layers")
		}
	}
	for _, f := range m.files {
		if f.isTest() || layer(f.pkg()) < 0 {
			continue
		}
		f.imports(func(spec *ast.ImportSpec, p string) {
			if q, ok := local(p); ok && layer(q) >= layer(f.pkg()) {
				m.fault(spec.Pos(), "%s imports %s, which is not below it", f.pkg(), q)
			}
		})
	}
}

func clientsDoWithoutMembers(m *module) {
	imports := map[string]map[string]bool{}
	for _, f := range m.files {
		if f.isTest() {
			continue
		}
		f.imports(func(_ *ast.ImportSpec, p string) {
			if q, ok := local(p); ok {
				if imports[f.pkg()] == nil {
					imports[f.pkg()] = map[string]bool{}
				}
				imports[f.pkg()][q] = true
			}
		})
	}
	for client, never := range clients {
		reached := map[string]bool{}
		var reach func(pkg string)
		reach = func(pkg string) {
			for q := range imports[pkg] {
				if !reached[q] {
					reached[q] = true
					reach(q)
				}
			}
		}
		reach(client)
		for _, q := range never {
			if reached[q] {
				m.faults = append(m.faults, client+" is for clients, and is built with "+q)
			}
		}
	}
}

func transportsAreChosenAtTheTop(m *module) {
	for _, f := range m.files {
		if f.isTest() {
			continue
		}
		f.imports(func(spec *ast.ImportSpec, p string) {
			q, _ := local(p)
			if may, is := transports[q]; is && !slices.Contains(may, f.pkg()) {
				m.fault(spec.Pos(), "%s imports the transport %s; only %v may", f.pkg(), q, may)
			}
		})
	}
}

// testOnly are what tests use and programs must not be built with: modules, and packages of this
// one. The packages listed with each may import it outside of tests.
var testOnly = map[string][]string{
	"github.com/hanwen/go-fuse/v2":                      {"cmd/squall/internal/testlab/faultfs"},
	"github.com/anishathalye/porcupine":                 {"replicated/squalltest"},
	modulePath + "/cmd/squall/internal/testlab/faultfs": {},
	modulePath + "/fabric/verbs/internal/fake":          {},
	modulePath + "/fabric/verbs/internal/verbstest":     {},
	modulePath + "/internal/netlab":                     {"cmd/squall/internal/bench", "cmd/squall/internal/bench/messages", "cmd/squall/internal/bench/rdmc"},
	modulePath + "/dds/internal/ddstest":                {},
	modulePath + "/internal/testutil":                   {"dds/internal/ddstest"},
	modulePath + "/replicated/squalltest":               {},
	"go.uber.org/goleak":                                {},
	"golang.org/x/net":                                  {},
}

func whatTestsNeedStaysInTests(m *module) {
	for _, f := range m.files {
		if f.isTest() {
			continue
		}
		f.imports(func(spec *ast.ImportSpec, p string) {
			for of, may := range testOnly {
				if (p == of || strings.HasPrefix(p, of+"/")) && !slices.Contains(may, f.pkg()) {
					m.fault(spec.Pos(), "%s imports %s, which is for tests", f.pkg(), p)
				}
			}
		})
	}
}

func TestWhatTestsNeedStaysInTests(t *testing.T) { hold(t, whatTestsNeedStaysInTests) }

func TestWhatIsForTestsIsFoundInAProgram(t *testing.T) {
	catches(t, whatTestsNeedStaysInTests, []violation{
		{"a module", `
-- persist/disk.go --
package persist
import _ "github.com/hanwen/go-fuse/v2/fuse"
`, "persist imports github.com/hanwen/go-fuse/v2/fuse, which is for tests"},
		{"a package", `
-- cmd/squall/internal/testlab/main.go --
package testlab
import _ "github.com/squall-go/squall/cmd/squall/internal/testlab/faultfs"
`, "cmd/squall/internal/testlab imports github.com/squall-go/squall/cmd/squall/internal/testlab/faultfs"},
		{"where they belong", `
-- cmd/squall/internal/testlab/faultfs/server_linux.go --
package faultfs
import _ "github.com/hanwen/go-fuse/v2/fuse"
-- cmd/squall/internal/testlab/power_linux_test.go --
package testlab
import _ "github.com/squall-go/squall/cmd/squall/internal/testlab/faultfs"
`, ""},
	})
}

func TestClientsDoWithoutMembers(t *testing.T) { hold(t, clientsDoWithoutMembers) }

func TestAClientWithAMemberIsFound(t *testing.T) {
	catches(t, clientsDoWithoutMembers, []violation{
		{"by itself", `
-- replicated/client.go --
package replicated
import _ "github.com/squall-go/squall"
`, "replicated is for clients, and is built with ."},
		{"by way of another package", `
-- replicated/client.go --
package replicated
import _ "github.com/squall-go/squall/replicated/internal/relay"
-- replicated/internal/relay/relay.go --
package relay
import _ "github.com/squall-go/squall/views"
`, "replicated is for clients, and is built with views"},
		{"a test, and what is below a member", `
-- replicated/client_test.go --
package replicated_test
import _ "github.com/squall-go/squall/replicated/member"
-- replicated/client.go --
package replicated
import _ "github.com/squall-go/squall/order"
`, ""},
	})
}

func TestImportsGoOneWay(t *testing.T) { hold(t, importsGoOneWay) }

func TestTransportsAreChosenAtTheTop(t *testing.T) {
	hold(t, transportsAreChosenAtTheTop)
}

func TestAnImportThatGoesTheOtherWayIsFound(t *testing.T) {
	catches(t, importsGoOneWay, []violation{
		{"up", `
-- order/order.go --
package order
import _ "github.com/squall-go/squall/sst"
`, "order imports sst, which is not below it"},
		{"sideways", `
-- smc/ring.go --
package smc
import _ "github.com/squall-go/squall/views"
`, "smc imports views"},
		{"the root from below", `
-- internal/member/member.go --
package member
import _ "github.com/squall-go/squall"
`, "internal/member imports ."},
		{"a command from the root", `
-- squall.go --
package squall
import _ "github.com/squall-go/squall/cmd/squall"
`, ". imports cmd/squall"},
		{"a package without a place", `
-- novelty/novelty.go --
package novelty
`, "novelty: the package has no place"},
		{"down is fine, and so is anything in a test", `
-- internal/multicast/deliver.go --
package multicast
import (
	_ "github.com/squall-go/squall/order"
	_ "github.com/squall-go/squall/smc"
)
-- order/order_test.go --
package order_test
import _ "github.com/squall-go/squall/internal/sim"
`, ""},
	})
}

func TestATransportBelowTheRootIsFound(t *testing.T) {
	catches(t, transportsAreChosenAtTheTop, []violation{
		{"in a member", `
-- internal/member/member.go --
package member
import _ "github.com/squall-go/squall/internal/tcp"
`, "internal/member imports the transport internal/tcp"},
		{"tcp in the simulator", `
-- internal/sim/sim.go --
package sim
import (
	_ "github.com/squall-go/squall/internal/simnet"
	_ "github.com/squall-go/squall/internal/tcp"
)
`, "internal/sim imports the transport internal/tcp"},
		{"where they belong", `
-- group.go --
package squall
import _ "github.com/squall-go/squall/fabric/auto"
-- fabric/auto/auto.go --
package auto
import _ "github.com/squall-go/squall/internal/shm"
-- sst/sst_test.go --
package sst
import _ "github.com/squall-go/squall/internal/simnet"
`, ""},
	})
}
