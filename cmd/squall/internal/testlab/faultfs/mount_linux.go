package faultfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// ErrUnavailable is what Mount fails with where there can be no such disk, wrapped with what is
// missing. Tests skip with it.
var ErrUnavailable = errors.New("no disk of a process's own here")

// Mount is a disk that processes use. It is mounted nowhere: every user that may look at this
// process's descriptors finds it at Dir. So nothing of it stays when this process ends, however
// that happens.
//
// This process itself must not map files of it into memory: a thread that waits for a page stops
// the garbage collector, and with it the server that has the page. Other processes may.
type Mount struct {
	Dir   string
	root  int // descriptor
	ended chan struct{}
}

// maxWrite is the longest write that is one.
const maxWrite = 1 << 20

// Mount lets processes use the disk, as long as power is there.
func (d *Disk) Mount(power *Power) (*Mount, error) {
	d.On(power)
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: only root may mount one", ErrUnavailable)
	}
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: /dev/fuse: %w", ErrUnavailable, err)
	}
	root, err := attach(device)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: mount: %w", ErrUnavailable, err), unix.Close(device))
	}
	s, err := fuse.NewServer(&server{fuse.NewDefaultRawFileSystem(), d}, fmt.Sprintf("/dev/fd/%d", device), &fuse.MountOptions{
		MaxWrite: maxWrite, DisableXAttrs: true, DisableReadDirPlus: true, ExplicitDataCacheControl: true,
	})
	if err != nil {
		return nil, errors.Join(err, unix.Close(root), unix.Close(device))
	}
	m := &Mount{Dir: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), root), root: root, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		s.Serve()
	}()
	return m, m.refusePolls()
}

// attach makes a mount that has no place, and returns the descriptor of its root.
func attach(device int) (root int, err error) {
	context, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(context)
	for _, option := range [][2]string{
		{"source", "squall-faultfs"}, {"fd", strconv.Itoa(device)}, {"rootmode", "40000"}, {"user_id", "0"}, {"group_id", "0"},
		{"max_read", strconv.Itoa(maxWrite)},
	} {
		if err := unix.FsconfigSetString(context, option[0], option[1]); err != nil {
			return 0, fmt.Errorf("%s: %w", option[0], err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return 0, err
	}
	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// refusePolls has the kernel ask once whether a file can be polled, and never again. Go asks for
// each file that it opens, in a way that must not wait.
func (m *Mount) refusePolls() error {
	const hack = ".go-fuse-epoll-hack" // the server knows this name
	f, err := unix.Openat(m.root, hack, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(f), Events: unix.POLLIN}}, 0)
	return errors.Join(err, unix.Close(f))
}

// Close ends the mount. Processes that used it must have ended.
func (m *Mount) Close() error {
	err := unix.Close(m.root)
	<-m.ended
	return err
}
