package join

import (
	"fmt"
	"testing"
	"time"
)

func TestJ12AHostIsHeldBackForAllItsAddresses(t *testing.T) {
	p := probation{unit: time.Second}
	for port := range freeOfHost {
		p.note(0, fmt.Sprintf("10.0.0.7:%d", port))
	}
	if left, _ := p.held(0, "10.0.0.7:99"); left != 0 {
		t.Errorf("after %d absences a new address of the host is held back for %v", freeOfHost, left)
	}
	for n := range 3 {
		p.note(0, fmt.Sprintf("10.0.0.7:%d", 100+n))
		if left, why := p.held(0, "10.0.0.7:99"); left != time.Second<<n {
			t.Errorf("after %d more: %v, %s", n+1, left, why)
		}
	}
	if left, why := p.held(0, "10.0.0.8:99"); left != 0 {
		t.Errorf("another host is held back for %v: %s", left, why)
	}
	for port := range 2 * freeOfHost {
		p.note(0, fmt.Sprintf("127.0.0.1:%d", port))
	}
	if left, why := p.held(0, "127.0.0.1:99"); left != 0 {
		t.Errorf("on loopback, where a whole group may be, another process is held back for %v: %s", left, why)
	}
	if left, _ := p.held(0, "127.0.0.1:1"); left != time.Second {
		t.Errorf("an address on loopback is held back for %v", left)
	}
}

// J12: what is remembered, and for how long anything is held back, is bounded; and what stays quiet
// is forgotten.
func TestJ12HoldingBackIsBounded(t *testing.T) {
	p, now := probation{unit: time.Second}, time.Duration(0)
	for n := range 10_000 {
		now += time.Millisecond
		p.note(now, fmt.Sprintf("host-%d:1", n%1000))
		if left, _ := p.held(now, fmt.Sprintf("host-%d:1", n%1000)); left > 64*time.Second || left <= 0 || len(p.records) > maxRecords {
			t.Fatalf("held back for %v; %d records", left, len(p.records))
		}
	}
	now += p.memory() + 1
	p.note(now, "last:1")
	if len(p.records) != 1 {
		t.Errorf("%d records after %v", len(p.records), p.memory())
	}
}
