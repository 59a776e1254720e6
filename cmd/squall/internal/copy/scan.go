package copy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// source is what a pusher has: entries, and where each of them is on this machine.
type source struct {
	entries []entry
	paths   []string // by entry
	total   int64    // bytes of all files
}

// maxFaults is how many faults of one kind are reported; a tree with one usually has many.
const maxFaults = 10

// scanner walks what is to be pushed.
type scanner struct {
	source
	follow bool     // symbolic links are followed, not kept
	within []string // the directories above, links resolved: a link to one of them would go round for ever
	faults []error
}

// scan lists the entries of all arguments, in an order that depends on the names alone. A FILE is
// called by its last name, a DIR too with everything below it; the contents of "DIR/." have no
// directory around them.
func scan(args []string, follow bool) (*source, error) {
	s := scanner{follow: follow}
	for _, arg := range args {
		s.argument(arg)
	}
	if len(s.faults) == 0 {
		total, err := checkTree(s.entries)
		s.total = total
		if err != nil {
			s.fault(err)
		}
	}
	if len(s.entries) > maxEntries {
		s.fault(fmt.Errorf("%d files and directories, of at most %d in one push", len(s.entries), maxEntries))
	}
	if n := len(s.faults) - maxFaults; n > 0 {
		s.faults = append(s.faults[:maxFaults], fmt.Errorf("and %d more like these", n))
	}
	return &s.source, errors.Join(s.faults...)
}

func (s *scanner) fault(err error) { s.faults = append(s.faults, err) }

func (s *scanner) argument(arg string) {
	info, err := os.Stat(arg) // what is named is followed
	if err != nil {
		s.fault(err)
		return
	}
	if info.IsDir() && filepath.Base(filepath.ToSlash(arg)) == "." || contents(arg) {
		s.children(arg, "")
		return
	}
	name := filepath.Base(arg)
	if name == ".." || name == string(filepath.Separator) {
		s.fault(fmt.Errorf("%s: has no name of its own; for its contents, name %s", arg, filepath.Join(arg, ".")+string(filepath.Separator)+"."))
		return
	}
	s.add(arg, name, info)
}

// contents reports whether an argument ends in "/.", which filepath.Base hides.
func contents(arg string) bool {
	slashed := filepath.ToSlash(arg)
	return len(slashed) > 1 && slashed[len(slashed)-2:] == "/."
}

// add takes one thing, and everything below it.
func (s *scanner) add(at, as string, info fs.FileInfo) {
	e := entry{Path: as, Mode: uint32(info.Mode().Perm()), Time: info.ModTime().UnixNano()}
	switch {
	case info.Mode().IsRegular():
		e.Size = info.Size()
		s.take(at, e)
	case info.IsDir():
		e.Kind = directory
		s.take(at, e)
		s.children(at, as)
	case info.Mode()&fs.ModeSymlink != 0:
		s.link(at, e)
	default:
		s.fault(fmt.Errorf("%s: is no file, directory or symbolic link: %v", at, info.Mode()))
	}
}

func (s *scanner) take(at string, e entry) {
	if !goodPath(e.Path) {
		s.fault(fmt.Errorf("%s: %q is no name that every machine has: %w", at, e.Path, errPath))
		return
	}
	s.entries, s.paths = append(s.entries, e), append(s.paths, at)
}

func (s *scanner) link(at string, e entry) {
	if s.follow {
		info, err := os.Stat(at)
		if err != nil {
			s.fault(fmt.Errorf("%s: a symbolic link to nothing: %w", at, err))
			return
		}
		s.add(at, e.Path, info)
		return
	}
	to, err := os.Readlink(at)
	if err != nil {
		s.fault(err)
		return
	}
	e.Kind, e.To, e.Mode = link, filepath.ToSlash(to), 0
	if !goodLink(e.Path, e.To) {
		s.fault(fmt.Errorf("%s: the symbolic link to %s leads out of what is pushed; with --follow, what it points to is pushed", at, to))
		return
	}
	s.take(at, e)
}

// children takes what is in a directory.
func (s *scanner) children(at, as string) {
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		s.fault(err)
		return
	}
	if slices.Contains(s.within, real) {
		s.fault(fmt.Errorf("%s: a symbolic link to a directory that it is in", at))
		return
	}
	s.within = append(s.within, real)
	defer func() { s.within = s.within[:len(s.within)-1] }()
	list, err := os.ReadDir(at)
	if err != nil {
		s.fault(err)
		return
	}
	for _, d := range list {
		info, err := d.Info()
		if err != nil {
			s.fault(err)
			continue
		}
		s.add(filepath.Join(at, d.Name()), path.Join(as, d.Name()), info)
	}
}
