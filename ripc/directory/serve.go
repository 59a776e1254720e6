package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

const (
	requestTime = 10 * time.Second // for what a client says
	maxRequests = 64               // that wait for the group at a time
	notifyTime  = 2 * time.Second  // for a client to take a notice
	maxWatched  = 1 << 14          // names of whose changes the clients of one account are notified: the first names that they asked for
)

// answer answers clients until the service is closed.
func (d *Directory) answer(ctx context.Context, s *ripc.Service, running *sync.WaitGroup) error {
	free := make(chan struct{}, maxRequests)
	for {
		m, err := s.Receive(context.Background()) // ends when the service is closed
		if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(m.Data, &r); err != nil || !m.IsRequest() {
			_ = m.Refuse("no request of a client")
			m.Release()
			continue
		}
		if len(r.Records) == 0 {
			d.reply(&m, d.find(reply{}, r.Find, &m))
			continue
		}
		select {
		case free <- struct{}{}:
		default:
			_ = m.Refuse("too many requests wait for the group")
			m.Release()
			continue
		}
		running.Go(func() {
			defer func() { <-free }()
			d.heed(ctx, &m, r)
		})
	}
}

// heed has the group apply what a client said.
func (d *Directory) heed(ctx context.Context, m *ripc.Message, r request) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	speaker := ""
	if who := m.Identity(); who != "" {
		speaker = registry.IdentityOwner(who)
	}
	answer, err := d.say(ctx, r.Records, speaker, d.originOf(m))
	if err != nil {
		_ = m.Refuse(err.Error())
		m.Release()
		return
	}
	d.reply(m, d.find(answer, r.Find, m))
}

// originOf is the party whose names count together: the certificate's identity, an address, or a
// process of this member's host.
func (d *Directory) originOf(m *ripc.Message) string {
	switch p := m.Peer(); {
	case p.Identity != "":
		return registry.IdentityOwner(p.Identity)
	case p.Addr == "":
		return fmt.Sprintf("%s next to member %d", m.Account(), d.group.ID())
	}
	return m.Account()
}

func (d *Directory) reply(m *ripc.Message, r reply) {
	defer m.Release()
	text, err := json.Marshal(r)
	if err == nil {
		err = m.Reply(text)
	}
	if err != nil {
		_ = m.Refuse(err.Error())
	}
}

// find adds what a query asks for to a reply, as much as fits into it. The client is told of
// changes if it wants that.
func (d *Directory) find(r reply, q *query, m *ripc.Message) reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Realm, r.Time = d.state.Realm, d.state.Time
	if q == nil {
		return r
	}
	if q.Watch && len(q.Name) <= registry.MaxName {
		d.watch.add(q.Name, m.Sender(), d.originOf(m))
	}
	room := maxReply
	for _, e := range d.state.From(q.Name) {
		if e.Name != q.Name && !q.All {
			break
		}
		f := found{Name: e.Name, Version: versionOf(e), Owner: e.Owner, Shared: e.Shared}
		if room -= 100 + len(f.Name) + len(f.Owner); room < 0 {
			r.More = &query{Name: e.Name, All: q.All}
			break
		}
		for _, p := range e.Places() {
			if e.Name == q.Name && p.Incarnation <= q.After {
				continue
			}
			if room -= 80 + len(p.Incarnation) + len(p.Host) + len(p.Socket) + len(p.Addr); room < 0 {
				after := ""
				if n := len(f.Places); n > 0 {
					after = f.Places[n-1].Incarnation
				} else if e.Name == q.Name {
					after = q.After
				}
				r.More = &query{Name: e.Name, All: q.All, After: after}
				break
			}
			f.Places = append(f.Places, p)
		}
		r.Found = append(r.Found, f)
		if r.More != nil {
			break
		}
	}
	return r
}

// watch has the clients that are notified of changes. The directory's mu guards it.
type watch struct {
	clients map[string]map[*ripc.Remote]bool // by name
	names   map[*ripc.Remote]watching        // of each client
	sums    map[string]int                   // names that the clients of one account watch
	waiting map[*ripc.Remote]map[string]note // what a client was not told yet
	local   callbacks
	telling *sync.WaitGroup
	pruned  time.Time
}

// watching is how many names a client watches, and the account for which they count.
type watching struct {
	account string
	names   int
}

func newWatch() watch {
	return watch{
		clients: map[string]map[*ripc.Remote]bool{}, names: map[*ripc.Remote]watching{}, sums: map[string]int{},
		waiting: map[*ripc.Remote]map[string]note{}, telling: new(sync.WaitGroup),
	}
}

// add has a client notified of the changes of a name, unless its account watches too many. Without
// notices a client learns of a change when it sends to a place where the service is not.
func (w *watch) add(name string, client *ripc.Remote, account string) {
	if w.clients[name][client] {
		return
	}
	if w.sums[account] >= maxWatched {
		if w.prune(pruneLeast); w.sums[account] >= maxWatched {
			return
		}
	}
	if w.clients[name] == nil {
		w.clients[name] = map[*ripc.Remote]bool{}
	}
	w.clients[name][client] = true
	w.names[client] = watching{account, w.names[client].names + 1}
	w.sums[account]++
}

// How often clients are forgotten that are gone: always, and while an account watches as many names
// as it may.
const (
	pruneEvery = 30 * time.Second
	pruneLeast = time.Second
)

// prune forgets the clients that are gone, if that was not done for so long.
func (w *watch) prune(after time.Duration) {
	if time.Since(w.pruned) < after {
		return
	}
	w.pruned = time.Now()
	w.drop(func(client *ripc.Remote) bool { return !client.Connected() })
}

// drop forgets some clients.
func (w *watch) drop(which func(*ripc.Remote) bool) {
	gone := map[*ripc.Remote]bool{}
	for client, of := range w.names {
		if !which(client) {
			continue
		}
		gone[client] = true
		delete(w.names, client)
		if w.sums[of.account] -= of.names; w.sums[of.account] == 0 {
			delete(w.sums, of.account)
		}
	}
	if len(gone) == 0 {
		return
	}
	for name, clients := range w.clients {
		for client := range clients {
			if gone[client] {
				delete(clients, client)
			}
		}
		if len(clients) == 0 {
			delete(w.clients, name)
		}
	}
}

// changed tells all that asked for a name. The caller holds the mu.
func (d *Directory) changed(e *registry.Entry) {
	d.watch.local.call(ripc.ID(e.Name), places(e.Places()))
	if d.service == nil { // quiet may be waiting
		return
	}
	for client := range d.watch.clients[e.Name] {
		waiting, telling := d.watch.waiting[client]
		if !telling {
			waiting = map[string]note{}
			d.watch.waiting[client] = waiting
			d.watch.telling.Go(func() { d.tell(client) })
		}
		waiting[e.Name] = note{e.Name, versionOf(e), e.Number}
	}
}

// quiet ends the notifications of clients, and waits for those that run.
func (d *Directory) quiet() {
	d.mu.Lock()
	d.service = nil
	d.mu.Unlock()
	d.watch.telling.Wait()
}

// tell tells a client what it was not told yet. One that does not take it finds out when it sends
// to a place where the service is not.
func (d *Directory) tell(client *ripc.Remote) {
	for {
		d.mu.Lock()
		waiting, s := d.watch.waiting[client], d.service
		if len(waiting) == 0 || s == nil {
			delete(d.watch.waiting, client)
			d.mu.Unlock()
			return
		}
		d.watch.waiting[client] = map[string]note{}
		d.mu.Unlock()
		for _, n := range waiting {
			text, err := json.Marshal(n)
			if err == nil {
				ctx, cancel := context.WithTimeout(context.Background(), notifyTime)
				err = s.Notify(ctx, client, n.key, text)
				cancel()
			}
			if err != nil {
				d.mu.Lock()
				delete(d.watch.waiting, client)
				d.mu.Unlock()
				return
			}
		}
	}
}

// callbacks are functions that are told of changes, in the order in which they came.
type callbacks struct {
	next int
	list []callback
}

type callback struct {
	number int
	f      func(ripc.ID, []ripc.Place)
}

// add adds one. The caller holds mu, which stop takes.
func (c *callbacks) add(mu *sync.Mutex, f func(ripc.ID, []ripc.Place)) (stop func()) {
	c.next++
	number := c.next
	c.list = append(c.list, callback{number, f})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		c.list = slices.DeleteFunc(c.list, func(b callback) bool { return b.number == number })
	}
}

func (c *callbacks) call(id ripc.ID, at []ripc.Place) {
	for _, b := range c.list {
		b.f(id, at)
	}
}
