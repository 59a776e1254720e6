//go:build linux

package ibverbs

import (
	"errors"
	"net/netip"
	"testing"
)

func TestHostsChooseAddressesOfOneKind(t *testing.T) {
	gid := func(text string) [16]byte { return netip.MustParseAddr(text).As16() }
	for name, c := range map[string]struct {
		gid            [16]byte
		roce, version2 bool
		want           int
	}{
		"an empty place": {[16]byte{}, true, true, noAddress},
		"RoCE version 1": {gid("::ffff:10.0.0.1"), true, false, noAddress},
		"link-local":     {gid("fe80::1"), true, true, linkLocal},
		"IPv6":           {gid("2001:db8::1"), true, true, global},
		"IPv4":           {gid("::ffff:10.0.0.1"), true, true, globalIPv4},
		"InfiniBand":     {gid("fe80::1"), false, false, global},
	} {
		if got := rankOf(c.gid, c.roce, c.version2); got != c.want {
			t.Errorf("%s: rank %d, not %d", name, got, c.want)
		}
	}
}

func TestADeviceThatCopiesLittleIsUsed(t *testing.T) {
	for most, want := range map[int]int{220: 160, 160: 160, 96: 80, 48: 0, 0: 0} {
		size, err := mostInline(func(size int) error {
			if size > most {
				return errors.ErrUnsupported
			}
			return nil
		})
		if size != want || err != nil {
			t.Errorf("a device that copies %d: %d, %v", most, size, err)
		}
	}
	if _, err := mostInline(func(int) error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a device that makes no pair: %v", err)
	}
}

func TestAPortThatIsUpAgainBringsNoLostDeviceBack(t *testing.T) {
	var h health
	h.down.Store(&errPortDown)
	if h.failed() != errPortDown {
		t.Error(h.failed())
	}
	h.lost.Store(&errDeviceLost)
	h.down.Store(nil)
	if h.failed() != errDeviceLost {
		t.Error(h.failed())
	}
}
