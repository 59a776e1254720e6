package faultfs

import (
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// server answers the kernel. Locks of files are the kernel's own.
type server struct {
	fuse.RawFileSystem
	disk *Disk
}

// forever is how long the kernel may keep what it was told: nothing changes a disk but what the
// kernel itself asks for.
const forever = uint64(time.Hour / time.Second)

func (s *server) String() string { return "squall-faultfs" }

// status ends a call: it takes what the caller wants to return, and lets go of the disk.
func (s *server) unlock(errno syscall.Errno) fuse.Status {
	s.disk.mu.Unlock()
	return fuse.Status(errno)
}

// lock holds the disk, and finds a node.
func (s *server) lock(number uint64) (*node, syscall.Errno) {
	s.disk.mu.Lock()
	return s.disk.find(number)
}

// child finds an entry of a directory, too; nil: there is none.
func (s *server) child(dir uint64, name string) (parent, child *node, errno syscall.Errno) {
	if parent, errno = s.lock(dir); errno == 0 {
		child = parent.names[name]
	}
	return parent, child, errno
}

func describe(n *node, a *fuse.Attr) {
	*a = fuse.Attr{Ino: n.number, Size: uint64(n.seen.size), Mode: n.mode | syscall.S_IFREG, Nlink: 1, Blksize: pageBytes}
	if n.dir {
		a.Mode, a.Nlink = n.mode|syscall.S_IFDIR, 2
	}
	a.Blocks = uint64(len(n.seen.pages)) * pageBytes / 512
	a.SetTimes(&n.time, &n.time, &n.time)
}

func enter(n *node, out *fuse.EntryOut) {
	out.NodeId, out.Generation, out.EntryValid, out.AttrValid = n.number, 1, forever, forever
	describe(n, &out.Attr)
}

func (s *server) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	_, n, errno := s.child(in.NodeId, name)
	if errno == 0 && n == nil {
		errno = syscall.ENOENT
	}
	if errno == 0 {
		enter(n, out)
	}
	return s.unlock(errno)
}

func (s *server) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, errno := s.lock(in.NodeId)
	if errno == 0 {
		out.AttrValid = forever
		describe(n, &out.Attr)
	}
	return s.unlock(errno)
}

func (s *server) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, errno := s.lock(in.NodeId)
	if size, is := in.GetSize(); errno == 0 && is {
		errno = s.disk.change(n, change{resize: true, size: int64(size)})
	}
	if errno == 0 {
		if mode, is := in.GetMode(); is {
			n.mode = mode & 0o7777
		}
		if at, is := in.GetMTime(); is {
			n.time = at
		}
		out.AttrValid = forever
		describe(n, &out.Attr)
	}
	return s.unlock(errno)
}

// make makes a file or directory that must not be there.
func (s *server) make(in *fuse.InHeader, name string, dir bool, mode uint32, out *fuse.EntryOut) syscall.Errno {
	parent, n, errno := s.child(in.NodeId, name)
	if errno == 0 && n != nil {
		errno = syscall.EEXIST
	}
	if errno != 0 {
		return errno
	}
	n = s.disk.node(dir, mode)
	if errno = s.disk.rename(nil, slot{parent, name, n}); errno != 0 {
		delete(s.disk.nodes, n.number)
		return errno
	}
	enter(n, out)
	return 0
}

func (s *server) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return s.unlock(s.make(&in.InHeader, name, true, in.Mode&^in.Umask, out))
}

func (s *server) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return s.unlock(s.make(&in.InHeader, name, false, in.Mode&^in.Umask, out))
}

func (s *server) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	errno := s.make(&in.InHeader, name, false, in.Mode&^in.Umask, &out.EntryOut)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return s.unlock(errno)
}

// remove takes a name from a file, or from an empty directory.
func (s *server) remove(in *fuse.InHeader, name string, dir bool) syscall.Errno {
	parent, n, errno := s.child(in.NodeId, name)
	switch {
	case errno != 0:
		return errno
	case n == nil:
		return syscall.ENOENT
	case n.dir && !dir:
		return syscall.EISDIR
	case !n.dir && dir:
		return syscall.ENOTDIR
	case len(n.names) > 0:
		return syscall.ENOTEMPTY
	case n.dir:
		return s.disk.rename(n, slot{parent, name, nil})
	}
	return s.disk.rename(nil, slot{parent, name, nil})
}

func (s *server) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.unlock(s.remove(in, name, false))
}

func (s *server) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return s.unlock(s.remove(in, name, true))
}

func (s *server) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	parent, n, errno := s.child(in.NodeId, from)
	if errno == 0 {
		errno = s.move(parent, n, from, in.Newdir, to, in.Flags)
	}
	return s.unlock(errno)
}

func (s *server) move(parent, n *node, from string, newdir uint64, to string, flags uint32) syscall.Errno {
	target, errno := s.disk.find(newdir)
	if errno != 0 {
		return errno
	}
	old := target.names[to]
	switch {
	case n == nil:
		return syscall.ENOENT
	case flags&^unix.RENAME_NOREPLACE != 0:
		return syscall.EINVAL
	case old != nil && flags != 0:
		return syscall.EEXIST
	case old != nil && len(old.names) > 0:
		return syscall.ENOTEMPTY
	}
	gone := old
	if old != nil && !old.dir {
		gone = nil
	}
	return s.disk.rename(gone, slot{parent, from, nil}, slot{target, to, n})
}

func (s *server) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, errno := s.lock(in.NodeId)
	if errno == 0 && in.Flags&syscall.O_TRUNC != 0 {
		errno = s.disk.change(n, change{resize: true})
	}
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return s.unlock(errno)
}

func (s *server) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n, errno := s.lock(in.NodeId)
	if errno == 0 {
		buf = buf[:n.seen.read(buf[:min(len(buf), int(in.Size))], int64(in.Offset))]
	}
	return fuse.ReadResultData(buf), s.unlock(errno)
}

func (s *server) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	n, errno := s.lock(in.NodeId)
	if errno == 0 {
		errno = s.disk.write(n, data, int64(in.Offset), in.Flags&unix.O_DSYNC != 0)
	}
	if errno != 0 {
		data = nil
	}
	return uint32(len(data)), s.unlock(errno)
}

// Fallocate lengthens a file, or makes zeros of a part of it. Room by itself is no part of the
// model.
func (s *server) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	n, errno := s.lock(in.NodeId)
	if errno != 0 {
		return s.unlock(errno)
	}
	end := int64(in.Offset + in.Length)
	switch in.Mode {
	case 0:
		if end > n.seen.size {
			errno = s.disk.change(n, change{resize: true, size: end})
		} else if errno = s.disk.step(); errno == 0 && s.disk.strikes(&s.disk.faults.Write, n) {
			errno = s.disk.faults.Write.Err
		}
	case unix.FALLOC_FL_KEEP_SIZE:
	case unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE:
		if end = min(end, n.seen.size); end > int64(in.Offset) {
			errno = s.disk.write(n, make([]byte, end-int64(in.Offset)), int64(in.Offset), false)
		}
	default:
		errno = syscall.EOPNOTSUPP
	}
	return s.unlock(errno)
}

// fdatasync is the flag of a sync of data alone.
const fdatasync = 1

func (s *server) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	kind := File
	if in.FsyncFlags&fdatasync != 0 {
		kind = Data
	}
	return fuse.Status(s.disk.sync(in.NodeId, kind))
}

func (s *server) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return fuse.Status(s.disk.sync(in.NodeId, Names))
}

func (s *server) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	_, errno := s.lock(in.NodeId)
	return s.unlock(errno)
}

func (s *server) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	n, errno := s.lock(in.NodeId)
	if errno != 0 {
		return s.unlock(errno)
	}
	names := slices.Sorted(maps.Keys(n.names))
	for i, name := range names[min(int(in.Offset), len(names)):] {
		child := n.names[name]
		e := fuse.DirEntry{Name: name, Ino: child.number, Mode: syscall.S_IFREG, Off: in.Offset + uint64(i) + 1}
		if child.dir {
			e.Mode = syscall.S_IFDIR
		}
		if !out.AddDirEntry(e) {
			break
		}
	}
	return s.unlock(0)
}

func (s *server) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	_, errno := s.lock(in.NodeId)
	return s.unlock(errno)
}

// room is what a disk says that it has.
const room = 1 << 40

func (s *server) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Blocks: room / pageBytes, Bfree: room / pageBytes, Bavail: room / pageBytes, Bsize: pageBytes, Frsize: pageBytes, NameLen: 255}
	return fuse.OK
}

func (s *server) Forget(uint64, uint64)                            {}
func (s *server) Release(<-chan struct{}, *fuse.ReleaseIn)         {}
func (s *server) ReleaseDir(*fuse.ReleaseIn)                       {}
func (s *server) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }
