package sim

import (
	"reflect"
	"strings"

	"github.com/squall-go/squall/views"
)

// features are what a plan may do without, or do with less of. Each changes a plan, and reports
// whether there was something to change.
var features = []func(*Plan) bool{
	less("Apps.*.Messages", func(n int64) int64 { return n / 4 }), less("Apps.*.Messages", half),
	(*Plan).withoutLogs,
	drop("Apps.*.LargeIn", "BulkTime", "Bodies", "Decls.*.MaxMessageBytes", "Decls.*.LargeMemoryBytes"),
	drop("Decls.*.Shards", "Decls.*.MinMembers", "Decls.*.MaxMembers", "Decls.*.LayoutName"),
	drop("States"), less("Reads.Count", func(n int64) int64 { return n / 4 }),
	drop("Keep.After"), drop("Keep.LostIn", "Keep.LateIn"), drop("Keep.TornIn"), drop("Keep.Memory", "Keep.Block"), drop("Keep.Disks.*.SlowIn", "Keep.Disks.*.Slow"),
	drop("Outages", "Outage"), drop("Tuning.OneSend", "Tuning.OneReceive", "Tuning.OneDeliver"),
	drop("Apps.*.Mute", "Apps.*.Unmute"), drop("Apps.*.HoldIn", "Apps.*.Hold"), drop("Apps.*.AbortIn"), drop("Apps.*.SkipIn"), drop("Apps.*.FutureIn"),
	less("Apps.*.Burst", atMostOne), drop("Apps.*.MaxBytes"), less("Apps.*.Start", halfDown),
	drop("Decls.*.Senders"), drop("Decls.*.Members"),
	less("Net.Kinds.*.*", func(int64) int64 { return 0 }), // all pairs are connected by sockets
	drop("Net.Delays.*.*.Tail", "Net.Delays.*.*.TailEvery"), drop("Net.Delays.*.*.Jitter"),
	drop("Net.SocketBytes"), drop("Net.PieceBytes", "Net.FrameRanges"),
	drop("Nodes.*.Pace.Pause", "Nodes.*.Pace.PauseEvery"), drop("Nodes.*.Pace.Spins"),
	at("Nodes.*.Pace.Even", func(v reflect.Value) { v.SetBool(true) }),
	drop("Nodes.*.Skew"), less("Nodes.*.Joins", halfDown),
	less("Faults.*.InStep", atMostOne), less("Faults.*.At", halfDown), less("Faults.*.For", half),
}

func half(n int64) int64      { return (n + 1) / 2 }
func halfDown(n int64) int64  { return n / 2 }
func atMostOne(n int64) int64 { return min(n, 1) }

// drop takes what is at some places in a plan away.
func drop(places ...string) func(*Plan) bool {
	return func(p *Plan) (changed bool) {
		for _, place := range places {
			changed = at(place, reflect.Value.SetZero)(p) || changed
		}
		return changed
	}
}

// less makes the numbers at a place smaller.
func less(place string, to func(int64) int64) func(*Plan) bool {
	return at(place, func(v reflect.Value) {
		if v.CanInt() {
			v.SetInt(to(v.Int()))
		} else {
			v.SetUint(uint64(to(int64(v.Uint()))))
		}
	})
}

// at changes what is at a place in a plan: a path of fields, and of "*" for all elements of a list.
func at(place string, change func(reflect.Value)) func(*Plan) bool {
	return func(p *Plan) bool { return changed(reflect.ValueOf(p).Elem(), strings.Split(place, "."), change) }
}

func changed(v reflect.Value, path []string, change func(reflect.Value)) (changes bool) {
	if len(path) > 0 && path[0] == "*" {
		for i := range v.Len() {
			changes = changed(v.Index(i), path[1:], change) || changes
		}
		return changes
	}
	if len(path) > 0 {
		return changed(v.FieldByName(path[0]), path[1:], change)
	}
	before := v.Interface()
	change(v)
	return !reflect.DeepEqual(before, v.Interface())
}

func (p *Plan) withoutLogs() (changed bool) {
	for i := range p.Decls {
		if p.Decls[i].Mode == views.Persistent {
			p.Decls[i].Mode, changed = views.Ordered, true
		}
	}
	return changed && p.forgetDisks()
}
