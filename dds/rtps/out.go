package rtps

import (
	"context"
	"slices"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/cdr"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
	"github.com/squall-go/squall/dds/rtps/internal/protocol"
	"github.com/squall-go/squall/dds/rtps/internal/wire"
)

// outbound is what goes out of one topic.
type outbound struct {
	g        *Gateway
	t        *topic
	reader   *dds.Reader[dds.Encoded]
	writers  map[dds.ID]*outWriter // by the writer in the space
	rest     map[string]*outWriter // for samples of writers that are closed, by their way
	history  *protocol.History     // of all writers; nil: none was opened
	position uint64
	changes  uint64
	retiring bool // a writer is gone, and its readers do not have everything
}

// outWriter stands in DDS for a writer of the space.
type outWriter struct {
	w         *protocol.Writer // nil: it could not be announced
	instances map[string]bool  // that it has written and not unregistered
	gone      time.Time        // when its writer was found to be gone
	dropped   bool             // … and its part of the history is not kept
}

// linger is how long a writer without a successor waits for its readers.
const linger = 5 * time.Second

// exported is how many samples a DDS reader that is slow may be behind in the memory of the
// gateway, beside what its writer keeps.
const exported = 10_000

// export takes samples of the space and writes them to DDS, while this gateway is appointed.
func (g *Gateway) export(t *topic) {
	o := &outbound{g: g, t: t, writers: map[dds.ID]*outWriter{}, rest: map[string]*outWriter{}}
	defer o.stop()
	g.repeat("reading the space for "+t.Name, func() error {
		g.mu.Lock()
		appointed, changed := g.election.appointed, g.election.changed
		g.mu.Unlock()
		if !appointed {
			o.stop()
			o.position, o.changes = 0, 0
			select {
			case <-g.ending.Done():
			case <-changed:
			}
			return nil
		}
		p, err := o.wait()
		if err != nil {
			return err
		}
		o.position = p.Position
		if o.reader == nil {
			set := dds.QoS{Durability: t.QoS.Durability, Ownership: t.QoS.Ownership, Order: t.QoS.Order, History: qos.KeepAll(), Limits: qos.Limits{Samples: exported}, Partitions: []string{"*"}}
			if o.reader, err = t.space.Reader(g.ending, set); err != nil {
				o.reader, o.position = nil, 0
				return err
			}
		}
		return o.pass(p.Changes)
	})
}

// wait waits until the order has gone on. While a writer is to be closed it waits for a part of its
// linger only.
func (o *outbound) wait() (member.Progress, error) {
	nothing := func(func(dds.Origin) (last, ended uint64)) {}
	if !o.retiring {
		return o.g.p.Carried(o.g.ending, o.position, nothing)
	}
	ctx, cancel := context.WithTimeout(o.g.ending, linger/10)
	defer cancel()
	p, err := o.g.p.Carried(ctx, o.position, nothing)
	if err != nil && o.g.ending.Err() == nil {
		return o.g.p.Carried(o.g.ending, 0, nothing)
	}
	return p, err
}

// stop ends the part of a gateway that is not appointed any more.
func (o *outbound) stop() {
	if o.reader == nil {
		return
	}
	ctx := o.g.ending
	if err := o.reader.Close(ctx); err != nil && ctx.Err() == nil {
		o.g.log.Warn("closing a reader of the space", "topic", o.t.Name, "error", err)
	}
	o.reader = nil
	o.g.mu.Lock()
	defer o.g.mu.Unlock()
	for id, w := range o.writers {
		o.closeWriter(w)
		delete(o.writers, id)
	}
	for way, w := range o.rest {
		o.closeWriter(w)
		delete(o.rest, way)
	}
	o.g.machine.Flush()
}

// pass writes all samples that are there. Writers of the space that are gone when none is left have
// none on its way.
func (o *outbound) pass(changes uint64) error {
	look := changes != o.changes
	if look {
		o.changes = changes
	}
	var all []dds.Endpoint
	if look {
		all = o.g.p.Endpoints()
		o.open(all)
	}
	for {
		samples, err := o.reader.Take(dds.Query{Max: 256})
		if slices.ContainsFunc(samples, func(s dds.Sample[dds.Encoded]) bool { return s.Info.Origin == nil && o.writers[s.Info.Writer] == nil }) {
			all, look = o.g.p.Endpoints(), true // a writer was opened, and has written, since the last look
			o.open(all)
		}
		for i := range samples {
			if err := o.write(&samples[i]); err != nil {
				o.g.log.Error("a sample for DDS", "topic", o.t.Name, "error", err)
			}
		}
		o.g.mu.Lock()
		o.g.settle()
		o.g.mu.Unlock()
		if err != nil || o.g.ending.Err() != nil {
			return err
		}
		if len(samples) == 0 {
			break
		}
	}
	o.retire(all, look)
	return nil
}

// open opens RTPS writers for the writers of the space that have none.
func (o *outbound) open(all []dds.Endpoint) {
	o.g.mu.Lock()
	defer o.g.mu.Unlock()
	for i := range all {
		e := &all[i]
		if e.Reader || e.Topic != o.t.Name || o.g.passed(e.Origin) || o.writers[e.ID] != nil {
			continue
		}
		o.writers[e.ID] = o.newWriter(&e.QoS, o.g.wayOf(e.Origin))
	}
	o.g.settle()
}

// newWriter opens a writer in DDS, for samples that took a way. The lock is held.
func (o *outbound) newWriter(set *dds.QoS, way string) *outWriter {
	e := o.t.offered(set, o.g.cfg.Lease)
	e.Way = way
	if err := e.Check(); err != nil {
		o.g.log.Error("a writer of the space cannot be announced, and its samples do not go out", "topic", o.t.Name, "error", err)
		return &outWriter{}
	}
	w := o.g.machine.OpenWriter(o.g.now(), e, o.t.Type.payloads.Keyed())
	if o.history == nil {
		o.history = protocol.NewHistory(&e.QoS.Service)
	}
	w.Share(o.history)
	return &outWriter{w: w, instances: map[string]bool{}}
}

// closeWriter closes a writer in DDS, if it could be announced. The lock is held.
func (o *outbound) closeWriter(w *outWriter) {
	if w.w != nil {
		o.g.machine.CloseWriter(o.g.now(), w.w)
	}
}

// maxRetired is how many RTPS writers of a topic are there only for their part of its history:
// their writers in the space are gone.
const maxRetired = 1024

// retire closes RTPS writers whose writers in the space are gone, once their readers have all
// samples. A history that outlives its writer is kept, of the last maxRetired writers.
func (o *outbound) retire(all []dds.Endpoint, look bool) {
	o.g.mu.Lock()
	defer o.g.mu.Unlock()
	if look {
		there := map[dds.ID]bool{}
		for _, e := range all {
			there[e.ID] = true
		}
		for id, w := range o.writers {
			if !there[id] && w.gone.IsZero() {
				w.gone = time.Now()
			}
		}
		o.limit()
	}
	o.retiring = false
	for id, w := range o.writers {
		if w.gone.IsZero() || o.lasts(w) {
			continue
		}
		if w.w != nil && !w.w.Acknowledged() && time.Since(w.gone) <= linger {
			o.retiring = true
			continue
		}
		o.closeWriter(w)
		delete(o.writers, id)
	}
	o.g.settle()
}

// lasts reports whether a writer is there for its part of the history, also when its writer in the
// space is gone.
func (o *outbound) lasts(w *outWriter) bool {
	return w.w != nil && !w.dropped && o.t.QoS.Durability > qos.TransientLocal && w.w.Lasts()
}

// limit gives up the history of the first of the writers that are gone, beyond maxRetired. The lock
// is held.
func (o *outbound) limit() {
	var all []*outWriter
	for _, w := range o.writers {
		if !w.gone.IsZero() && o.lasts(w) {
			all = append(all, w)
		}
	}
	if len(all) <= maxRetired {
		return
	}
	slices.SortFunc(all, func(a, b *outWriter) int { return a.gone.Compare(b.gone) })
	for _, w := range all[:len(all)-maxRetired] {
		w.dropped = true
	}
}

// write writes a sample to DDS, and waits for buffer space.
func (o *outbound) write(s *dds.Sample[dds.Encoded]) error {
	if o.g.passed(s.Info.Origin) { // RG3
		return nil
	}
	if !s.Info.Valid && s.Info.Instance == dds.InstanceNoWriters {
		return o.unregister(s)
	}
	o.g.mu.Lock()
	w := o.writers[s.Info.Writer]
	if w == nil {
		way := o.g.wayOf(s.Info.Origin)
		if o.rest[way] == nil {
			o.rest[way] = o.newWriter(&dds.QoS{}, way)
		}
		w = o.rest[way]
	}
	o.g.mu.Unlock()
	if w.w == nil {
		return nil
	}
	c := protocol.Change{Source: s.Info.Source, Key: string(s.Value.Key), Payload: s.Value.Data}
	if !s.Info.Valid {
		payload, err := o.t.Type.payloads.AppendKey(nil, s.Value.Key, o.format())
		if err != nil {
			return err
		}
		c.Status, c.Payload = wire.Disposed, payload
	}
	o.put(w, c)
	w.instances[c.Key] = true
	return nil
}

// unregister says that an instance has no writers any more, for each that wrote it.
func (o *outbound) unregister(s *dds.Sample[dds.Encoded]) error {
	if !o.t.Type.payloads.Keyed() {
		return nil
	}
	payload, err := o.t.Type.payloads.AppendKey(nil, s.Value.Key, o.format())
	if err != nil {
		return err
	}
	all := []*outWriter{}
	for _, w := range o.writers {
		all = append(all, w)
	}
	for _, w := range o.rest {
		all = append(all, w)
	}
	key := string(s.Value.Key)
	for _, w := range all {
		if w.instances[key] {
			delete(w.instances, key)
			o.put(w, protocol.Change{Source: s.Info.Source, Key: key, Status: wire.Unregistered, Payload: payload})
		}
	}
	return nil
}

func (o *outbound) format() cdr.Format {
	if o.t.XCDR2 {
		return cdr.XCDR2
	}
	return cdr.XCDR1
}

// put writes when there is room.
func (o *outbound) put(w *outWriter, c protocol.Change) {
	g := o.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for !w.w.Room() && g.ending.Err() == nil {
		g.settle()
		if !w.w.Room() {
			g.room.Wait()
		}
	}
	if g.ending.Err() == nil {
		w.w.Write(c)
		g.stats.Written++
	}
}
