//go:build linux && verbs && cgo

package ibverbs

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -libverbs
#cgo noescape squall_post
#cgo nocallback squall_post
#cgo noescape squall_poll
#cgo nocallback squall_poll
#include <errno.h>
#include "shim.h"
static int squall_arm(struct ibv_cq *cq) { return ibv_req_notify_cq(cq, 0); }
*/
import "C"

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/squall-go/squall/fabric/verbs"
	"github.com/squall-go/squall/fabric/verbs/device"
	"golang.org/x/sys/unix"
)

// adapter is an open device, and its port.
type adapter struct {
	context  *C.struct_ibv_context
	port     C.uint8_t
	gidIndex C.uint8_t
	gid      [16]byte
	mtu      uint8
	lid      uint16
	limits   device.Limits
	events   *os.File
	watched  sync.WaitGroup
	health   health
}

var errOverflow = errors.New("a completion queue overflowed")

// Open opens a device by its name, or the first one with an active port if the name is empty.
func Open(name string) (*verbs.Transport, error) {
	var n C.int
	list, err := C.ibv_get_device_list(&n)
	if list == nil {
		return nil, fmt.Errorf("%w: %w (is the module ib_uverbs loaded?)", ErrNoDevice, err)
	}
	defer C.ibv_free_device_list(list)
	var found []string
	var errs []error
	for _, d := range unsafe.Slice(list, n) {
		is := C.GoString(C.ibv_get_device_name(d))
		found = append(found, is)
		if name != "" && name != is {
			continue
		}
		a, err := open(d)
		if err == nil {
			return verbs.New(a), nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", is, err))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoDevice, errors.Join(errs...))
	}
	if name != "" && len(found) > 0 {
		return nil, fmt.Errorf("%w %q: there are %s", ErrNoDevice, name, strings.Join(found, ", "))
	}
	return nil, fmt.Errorf("%w: load the driver of the device, and install its part of rdma-core (Debian: ibverbs-providers); to try without hardware: rdma link add rxe0 type rxe netdev eth0", ErrNoDevice)
}

func open(d *C.struct_ibv_device) (*adapter, error) {
	if d.transport_type != C.IBV_TRANSPORT_IB {
		return nil, errors.New("it is neither InfiniBand nor RoCE")
	}
	context, err := C.ibv_open_device(d)
	if context == nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	a := &adapter{context: context}
	err = a.query()
	if err == nil {
		a.limits.InlineBytes, err = a.inlineBytes()
	}
	if err == nil {
		err = a.watch()
	}
	if err != nil {
		C.ibv_close_device(context)
		return nil, err
	}
	return a, nil
}

// inlineBytes tries what the device copies into requests, with pairs that nothing is sent over.
func (a *adapter) inlineBytes() (n uint32, err error) {
	q, err := a.Queue(1)
	if err != nil {
		return 0, err
	}
	size, err := mostInline(func(size int) error {
		d, err := a.Domain()
		if err != nil {
			return err
		}
		p, err := d.Pair(q, device.Capacity{Requests: 1, Receives: 1, InlineBytes: size})
		if err == nil {
			err = p.Close()
		}
		return errors.Join(err, d.Close())
	})
	return uint32(size), errors.Join(err, q.Close())
}

// query finds the first active port, and what the device can do.
func (a *adapter) query() error {
	var attr C.struct_ibv_device_attr
	if errno := C.ibv_query_device(a.context, &attr); errno != 0 {
		return syscall.Errno(errno)
	}
	for port := C.uint8_t(1); port <= attr.phys_port_cnt; port++ {
		var active, roce C.int
		var mtu C.uint8_t
		var lid C.uint16_t
		var most C.uint32_t
		if errno := C.squall_port(a.context, port, &active, &mtu, &lid, &roce, &most); errno != 0 {
			return syscall.Errno(errno)
		}
		if active == 0 {
			continue
		}
		a.port, a.mtu, a.lid = port, uint8(mtu), uint16(lid)
		a.limits = device.Limits{MessageBytes: min(uint32(most), 1<<20), Completions: int(attr.max_cqe)}
		return a.address(roce != 0)
	}
	return errors.New("no port is active")
}

// address chooses the first GID of the highest rank.
func (a *adapter) address(roce bool) error {
	for i, best := 0, noAddress; i < 256; i++ {
		var entry C.struct_ibv_gid_entry
		if errno := C.ibv_query_gid_ex(a.context, C.uint32_t(a.port), C.uint32_t(i), &entry, 0); errno == C.ENODATA {
			continue // no address is there
		} else if errno != 0 {
			break
		}
		gid := *(*[16]byte)(unsafe.Pointer(&entry.gid))
		if rank := rankOf(gid, roce, entry.gid_type == C.IBV_GID_TYPE_ROCE_V2); rank > best {
			best, a.gid, a.gidIndex = rank, gid, C.uint8_t(i)
		}
	}
	if a.gid == [16]byte{} {
		return errors.New("the port has no address (GID), or only of RoCE version 1: give its network device an IP address")
	}
	return nil
}

// watch has a goroutine take the events that the device reports of itself.
func (a *adapter) watch() error {
	fd := int(a.context.async_fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	a.events = os.NewFile(uintptr(dup), "RDMA events")
	raw, err := a.events.SyscallConn()
	if err != nil {
		return err
	}
	a.watched.Go(func() {
		raw.Read(func(uintptr) bool {
			var e C.struct_ibv_async_event
			for C.ibv_get_async_event(a.context, &e) == 0 {
				a.happened(uint32(e.event_type), C.squall_event_port(&e))
				C.ibv_ack_async_event(&e)
			}
			return false
		})
	})
	return nil
}

// happened takes in an event. Those of one pair end in its completions, and those of a port that is
// not used mean nothing.
func (a *adapter) happened(event uint32, port C.int) {
	switch event {
	case C.IBV_EVENT_DEVICE_FATAL:
		a.health.lost.Store(&errDeviceLost)
	case C.IBV_EVENT_CQ_ERR:
		a.health.lost.Store(&errOverflow)
	case C.IBV_EVENT_PORT_ERR:
		if port == C.int(a.port) {
			a.health.down.Store(&errPortDown)
		}
	case C.IBV_EVENT_PORT_ACTIVE:
		if port == C.int(a.port) {
			a.health.down.Store(nil)
		}
	}
}

func (a *adapter) Limits() device.Limits { return a.limits }

func (a *adapter) Close() error {
	a.events.Close()
	a.watched.Wait()
	return errnoOf(C.ibv_close_device(a.context))
}

func errnoOf(errno C.int) error {
	if errno == 0 {
		return nil
	}
	return syscall.Errno(errno)
}

// domain is a protection domain.
type domain struct {
	adapter *adapter
	pd      *C.struct_ibv_pd
	regions []*C.struct_ibv_mr
}

func (a *adapter) Domain() (device.Domain, error) {
	pd, err := C.ibv_alloc_pd(a.context)
	if pd == nil {
		return nil, fmt.Errorf("protection domain: %w", err)
	}
	return &domain{adapter: a, pd: pd}, nil
}

func (d *domain) Register(mem []byte, local, remote bool) (device.Region, error) {
	access := 0
	if local {
		access |= C.IBV_ACCESS_LOCAL_WRITE
	}
	if remote {
		access |= C.IBV_ACCESS_REMOTE_WRITE
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	mr, err := C.ibv_reg_mr_iova2(d.pd, unsafe.Pointer(unsafe.SliceData(mem)), C.size_t(len(mem)), C.uint64_t(address), C.uint(access))
	if mr == nil {
		return device.Region{}, fmt.Errorf("register %d bytes: %w (raise the limit of locked memory: ulimit -l)", len(mem), err)
	}
	d.regions = append(d.regions, mr)
	key := uint32(mr.lkey)
	if remote {
		key = uint32(mr.rkey)
	}
	return device.Region{Address: uint64(address), Key: key}, nil
}

func (d *domain) Close() error {
	var errs []error
	for _, mr := range d.regions {
		errs = append(errs, errnoOf(C.ibv_dereg_mr(mr)))
	}
	d.regions = nil
	return errors.Join(append(errs, errnoOf(C.ibv_dealloc_pd(d.pd)))...)
}

// queue is a completion queue with its channel.
type queue struct {
	adapter *adapter
	channel *C.struct_ibv_comp_channel
	cq      *C.struct_ibv_cq
}

func (a *adapter) Queue(capacity int) (device.Queue, error) {
	channel, err := C.ibv_create_comp_channel(a.context)
	if channel == nil {
		return nil, fmt.Errorf("completion channel: %w", err)
	}
	if err := unix.SetNonblock(int(channel.fd), true); err != nil {
		C.ibv_destroy_comp_channel(channel)
		return nil, err
	}
	cq, err := C.ibv_create_cq(a.context, C.int(capacity), nil, channel, 0)
	if cq == nil {
		C.ibv_destroy_comp_channel(channel)
		return nil, fmt.Errorf("completion queue for %d: %w", capacity, err)
	}
	return &queue{a, channel, cq}, nil
}

func (q *queue) Poll(into []device.Completion) (int, error) {
	n := C.squall_poll(q.cq, (*C.struct_completion)(unsafe.Pointer(unsafe.SliceData(into))), C.int(len(into)))
	if n < 0 {
		return 0, errors.New("polling a completion queue failed")
	}
	return int(n), q.adapter.health.failed()
}

func (q *queue) Arm() error { return errnoOf(C.squall_arm(q.cq)) }

func (q *queue) Drain() bool { return C.squall_drain(q.channel) > 0 }

func (q *queue) Descriptor() int { return int(q.channel.fd) }

func (q *queue) Close() error {
	q.Drain()
	return errors.Join(errnoOf(C.ibv_destroy_cq(q.cq)), errnoOf(C.ibv_destroy_comp_channel(q.channel)))
}

// pair is a queue pair.
type pair struct {
	adapter *adapter
	qp      *C.struct_ibv_qp
	psn     uint32
}

func (d *domain) Pair(on device.Queue, c device.Capacity) (device.Pair, error) {
	q := on.(*queue)
	var attr C.struct_ibv_qp_init_attr
	attr.send_cq, attr.recv_cq = q.cq, q.cq
	attr.qp_type = C.IBV_QPT_RC
	attr.cap.max_send_wr, attr.cap.max_recv_wr = C.uint32_t(c.Requests), C.uint32_t(c.Receives)
	attr.cap.max_send_sge, attr.cap.max_recv_sge = 1, 1
	attr.cap.max_inline_data = C.uint32_t(c.InlineBytes)
	qp, err := C.ibv_create_qp(d.pd, &attr)
	if qp == nil {
		return nil, fmt.Errorf("queue pair: %w", err)
	}
	if errno := C.squall_init(qp, d.adapter.port); errno != 0 {
		C.ibv_destroy_qp(qp)
		return nil, fmt.Errorf("queue pair: %w", syscall.Errno(errno))
	}
	var psn [4]byte
	rand.Read(psn[:])
	return &pair{d.adapter, qp, binary.LittleEndian.Uint32(psn[:]) & 0xffffff}, nil
}

func (p *pair) Endpoint() device.Endpoint {
	return device.Endpoint{Number: uint32(p.qp.qp_num), PSN: p.psn, LID: p.adapter.lid, GID: p.adapter.gid, MTU: p.adapter.mtu}
}

func (p *pair) Connect(peer device.Endpoint) error {
	if peer.MTU < C.IBV_MTU_256 || peer.MTU > C.IBV_MTU_4096 || bytes.Equal(peer.GID[:], make([]byte, 16)) || peer.Number > 0xffffff {
		return fmt.Errorf("the peer's pair cannot be: %+v", peer)
	}
	gid := peer.GID
	err := errnoOf(C.squall_connect(p.qp, p.adapter.port, p.adapter.gidIndex, C.uint8_t(min(p.adapter.mtu, peer.MTU)), C.uint32_t(peer.Number),
		C.uint32_t(peer.PSN&0xffffff), C.uint16_t(peer.LID), (*C.uint8_t)(&gid[0]), C.uint32_t(p.psn)))
	if err != nil {
		return fmt.Errorf("connect to the peer's pair: %w", err)
	}
	return nil
}

func (p *pair) Post(receives []device.Receive, work []device.Work) error {
	errno := C.squall_post(p.qp, (*C.struct_receive)(unsafe.Pointer(unsafe.SliceData(receives))), C.int(len(receives)),
		(*C.struct_work)(unsafe.Pointer(unsafe.SliceData(work))), C.int(len(work)))
	return errnoOf(errno)
}

func (p *pair) Close() error { return errnoOf(C.ibv_destroy_qp(p.qp)) }

// The structures of both sides have the same sizes.
var (
	_ [unsafe.Sizeof(device.Work{})]byte       = [C.sizeof_struct_work]byte{}
	_ [unsafe.Sizeof(device.Receive{})]byte    = [C.sizeof_struct_receive]byte{}
	_ [unsafe.Sizeof(device.Completion{})]byte = [C.sizeof_struct_completion]byte{}
)
