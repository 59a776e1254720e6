package protocol

import (
	"slices"

	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// History is what a reader that matches later gets of the samples of one or several durable
// writers: the last ones of each instance, whichever of the writers wrote them, and of all
// instances no more than a limit. The end of an instance at one writer takes no place of a sample,
// and goes with the samples before it.
type History struct {
	depth, limit int // of samples; 0: no bound
	samples      int
	instances    map[string]*instance
	all          []*remembered // in the order of writing; removed samples are deleted from the front at once, and elsewhere when they are more than half
	gone         int
}

// instance is a part of a history. It begins with a sample.
type instance struct {
	all     []*remembered
	samples int
	changed bool // without has dropped some of all
}

// remembered is a change in a history.
type remembered struct {
	w    *Writer
	key  string
	seq  int64
	end  bool
	gone bool
}

// NewHistory returns an empty history with the bounds of a topic.
func NewHistory(s *qos.DurabilityService) *History {
	h := &History{limit: s.Limits.Samples, depth: s.Limits.SamplesPerInstance, instances: map[string]*instance{}}
	if last := max(s.History.Depth, 1); !s.History.All && (h.depth == 0 || last < h.depth) {
		h.depth = last
	}
	return h
}

// add adds a change, and has its writer forget it if it does not belong to the history. Changes
// that leave the history are forgotten by their writers.
func (h *History) add(w *Writer, c *change) {
	r := &remembered{w: w, key: c.Key, seq: c.seq, end: c.Status != 0 && c.Status&wire.Disposed == 0}
	in := h.instances[r.key]
	switch {
	case in == nil && r.end:
		c.durable = false
		return
	case in == nil:
		in = &instance{}
		h.instances[r.key] = in
	}
	in.all, h.all = append(in.all, r), append(h.all, r)
	w.lasting++
	if r.end {
		return
	}
	in.samples++
	h.samples++
	if h.depth > 0 && in.samples > h.depth {
		h.shorten(in)
	}
	for h.limit > 0 && h.samples > h.limit {
		h.shorten(h.instances[h.oldest().key])
	}
	h.tidy()
}

// oldest is the first change of all, which is the first one of its instance.
func (h *History) oldest() *remembered {
	return h.all[slices.IndexFunc(h.all, func(r *remembered) bool { return !r.gone })]
}

// shorten drops the first sample of an instance, and the ends that are first then.
func (h *History) shorten(in *instance) {
	h.drop(in, in.all[0])
	h.settle(in)
}

// settle removes what was dropped at the beginning of an instance, drops the ends that are first
// then, and removes an instance that is empty.
func (h *History) settle(in *instance) {
	for len(in.all) > 0 && (in.all[0].gone || in.all[0].end) {
		first := in.all[0]
		if !first.gone {
			h.drop(in, first)
		}
		if in.all = in.all[1:]; len(in.all) == 0 {
			delete(h.instances, first.key)
		}
	}
}

// drop drops a change. Its caller removes it from its instance.
func (h *History) drop(in *instance, r *remembered) {
	if r.gone = true; !r.end {
		in.samples--
		h.samples--
	}
	h.gone++
	r.w.lasting--
	r.w.expire(r.seq)
}

// without drops all changes of a writer. Each instance is searched once: one instance may have all
// samples.
func (h *History) without(w *Writer) {
	var changed []*instance
	for _, r := range h.all {
		if r.gone || r.w != w {
			continue
		}
		in := h.instances[r.key]
		if !in.changed {
			in.changed, changed = true, append(changed, in)
		}
		h.drop(in, r)
	}
	for _, in := range changed {
		in.changed = false
		key := in.all[0].key
		if in.all = slices.DeleteFunc(in.all, func(r *remembered) bool { return r.gone }); len(in.all) == 0 {
			delete(h.instances, key)
		}
		h.settle(in)
	}
	h.tidy()
}

// tidy removes changes that are gone.
func (h *History) tidy() {
	for len(h.all) > 0 && h.all[0].gone {
		h.all = h.all[1:]
		h.gone--
	}
	if 2*h.gone > len(h.all) {
		h.all = slices.DeleteFunc(h.all, func(r *remembered) bool { return r.gone })
		h.gone = 0
	}
}
