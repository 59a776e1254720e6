// Package tools finds and executes squall-tools, the program with all commands. The commands
// that squall itself lacks import much: tables, simulator, topics, log engines. In a working copy
// squall-tools is compiled when it is needed; installed programs lie next to each other.
package tools

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// name is that of the program, source its package.
const (
	name   = "squall-tools"
	source = "github.com/squall-go/squall/cmd/squall/" + name
)

// others are the commands that only squall-tools has, and what they do.
var others = map[string]string{
	"bench":   "Measure a group of processes on this machine, and its limits in the same run",
	"call":    "Call an operation of a replicated object, and print its reply",
	"dds":     "List and show topics, read, write, record and play samples, explain why endpoints do not match, and reach other DDS programs",
	"fabric":  "Check what connects two hosts: order, whole words, latency and bandwidth",
	"log":     "Read, follow, verify, export and repair the logs of persistent subgroups",
	"objects": "List replicated objects and their operations",
	"ripc":    "Find, call and ping services, and run a directory of them",
	"sim":     "Run whole groups in virtual time, break them in every way, and check every promise",
}

// Commands stand for these commands in the help.
func Commands() (all []*cobra.Command) {
	for use, short := range others {
		all = append(all, &cobra.Command{Use: use, Short: short, Run: func(*cobra.Command, []string) {}})
	}
	return all
}

// Need reports whether a command line is for squall-tools.
func Need(args []string) bool {
	for len(args) > 0 && slices.Contains([]string{"help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, args[0]) {
		args = args[1:]
	}
	if len(args) == 0 {
		return false
	}
	_, other := others[args[0]]
	return other || args[0] == "demo" && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--durable") })
}

// Exec replaces this process by squall-tools, and returns only with an error.
func Exec(errs io.Writer) error {
	path, err := find(errs)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ()))
}

// find looks next to this program, in a working copy, and where programs are installed.
func find(errs io.Writer) (string, error) {
	self, err := os.Executable()
	if err == nil {
		path := filepath.Join(filepath.Dir(self), executable(name))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	path, err := compile(errs)
	if errors.Is(err, errNoSource) {
		if path, err = exec.LookPath(name); err != nil {
			return "", fmt.Errorf("this command is in the program %s, which is not installed: go install %s@%s", name, source, version())
		}
	}
	return path, err
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

var errNoSource = errors.New("its source is not here")

// compile compiles squall-tools if the working directory is in a module that has its source, with
// the flags of this program.
func compile(errs io.Writer) (string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", source).Output()
	if err != nil {
		return "", errNoSource
	}
	dir, flags := strings.TrimSpace(string(out)), buildFlags()
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, dir, flags)
	path := filepath.Join(cache, "squall", fmt.Sprintf("%x", sum.Sum64()), executable(name))
	if _, err := os.Stat(path); err != nil {
		fmt.Fprintln(errs, "compiling", name, "for this command, once; it takes a minute on two cores")
	}
	build := exec.Command("go", slices.Concat([]string{"build", "-C", dir, "-o", path}, flags, []string{"."})...)
	build.Stderr = errs
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("go build %s: %w", source, err)
	}
	return path, nil
}

// buildFlags are the flags with which this program was built and that change what it does.
func buildFlags() (flags []string) {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return nil
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "-tags", s.Key == "-race", s.Key == "-trimpath":
			flags = append(flags, s.Key+"="+s.Value)
		case s.Key == "vcs":
			flags = append(flags, "-buildvcs=true")
		}
	}
	return flags
}

// version is the version of this program, for go install.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version
	}
	return "latest"
}
