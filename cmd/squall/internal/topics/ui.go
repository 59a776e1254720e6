package topics

import (
	"cmp"
	"context"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/qos"
)

//go:embed web
var web embed.FS

// Bounds of the page.
const (
	uiEvery      = 500 * time.Millisecond // between two events
	uiSamples    = 20                     // of a topic in an event
	uiLatencies  = 2000                   // that are measured between two events
	uiText       = 400                    // bytes of a sample
	uiViewers    = 32                     // pages that are open
	uiMark       = "squall dds ui"        // USER_DATA of the readers of the page
	uiWriteLimit = 5 * time.Second        // a page that takes nothing for so long is closed
)

// The help of this command.
const (
	uIHelp = `Ui serves a web page until it is interrupted: the topics of a space, its processes, writers and readers, which of them match and why others do not, samples as they come, and
their rates and latencies. It reads the topics that are named, or all, with readers that delay no writer.

A latency is the time between the writing of a sample and its arrival here: between two hosts it is as good as their clocks agree. The page has no password, and is served to this host only unless --at says otherwise.`
)

func newUICommand() *cobra.Command {
	var o options
	var at string
	cmd := &cobra.Command{
		Use:   "ui [TOPIC…] [flags]",
		Short: "Show topics, endpoints, matches, samples, rates and latencies on a web page",
		Long:  uIHelp,
		Example: `  squall dds ui --join 127.0.0.1:7001
  squall dds ui positions alarms --connect 127.0.0.1:8001 --at 127.0.0.1:9000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			l, err := net.Listen("tcp", at)
			if err != nil {
				return fmt.Errorf("--at: %w", err)
			}
			defer l.Close()
			if a := l.Addr().(*net.TCPAddr); !a.IP.IsLoopback() {
				fmt.Fprintf(cmd.ErrOrStderr(), "the page has no password: every host that reaches %s can see the topics and samples of this space\n", a)
			}
			return o.with(ctx, func(p party) error {
				if err := o.announce(cmd.OutOrStdout(), "http://"+l.Addr().String()+"/"); err != nil {
					return err
				}
				return newBoard(p, o.space, args).serve(ctx, l)
			})
		},
	}
	o.declare(cmd)
	cmd.Flags().StringVar(&at, "at", "127.0.0.1:7080", "`HOST:PORT` of the page")
	show.NoFiles(cmd, "at")
	return cmd
}

func (o *options) announce(w io.Writer, url string) error {
	if o.json {
		return show.JSONLine(w, map[string]string{"url": url})
	}
	_, err := fmt.Fprintf(w, "%s shows space %q; an interrupt ends it\n", url, o.space)
	return err
}

// board is what the page shows.
type board struct {
	p     party
	name  string
	only  []string // topics; none: all
	slots chan struct{}

	mu      sync.Mutex
	gauges  map[string]*gauge
	space   []byte // event
	version int    // of it
	rates   []byte // event
	ticked  chan struct{}
}

func newBoard(p party, name string, only []string) *board {
	return &board{p: p, name: name, only: only, slots: make(chan struct{}, uiViewers), gauges: map[string]*gauge{}, ticked: make(chan struct{})}
}

// gauge measures a topic. The listener of its reader fills it.
type gauge struct {
	info dds.TopicInfo

	mu        sync.Mutex
	total     uint64
	samples   int   // since the last event
	bytes     int64 // of them
	latencies []time.Duration
	last      []shown // of them, the first ones
}

// shown is a sample on the page.
type shown struct {
	Topic    string `json:"topic"`
	Position uint64 `json:"position"`
	Writer   string `json:"writer"`
	Time     int64  `json:"time"` // milliseconds since the Unix epoch
	Key      string `json:"key"`
	Text     string `json:"text"`
}

func (g *gauge) hear(s *dds.Sample[dds.Encoded], err error) {
	at := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.Info.Valid {
		g.total++
		g.samples++
		g.bytes += int64(len(s.Value.Data))
		if len(g.latencies) < uiLatencies {
			g.latencies = append(g.latencies, at.Sub(time.Unix(0, s.Info.Source)))
		}
	}
	if len(g.last) == uiSamples {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	} else {
		text = sampleOf(g.info, *s).text()
	}
	if len(text) > uiText {
		text = strings.ToValidUTF8(text[:uiText], "") + "…"
	}
	g.last = append(g.last, shown{g.info.Name, s.Info.Position, writerOf(s.Info), s.Info.Source / 1e6, hex.EncodeToString(s.Value.Key), text})
}

// rate is a topic in an event of rates.
type rate struct {
	Topic   string  `json:"topic"`
	Total   uint64  `json:"total"`
	Samples float64 `json:"samples"` // each second
	Bytes   float64 `json:"bytes"`   // each second
	P50     float64 `json:"p50"`     // latency in microseconds; 0 if there were no samples
	P99     float64 `json:"p99"`
}

// take returns what was measured in a time, and begins anew.
func (g *gauge) take(span time.Duration) (rate, []shown) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := rate{Topic: g.info.Name, Total: g.total, Samples: float64(g.samples) / span.Seconds(), Bytes: float64(g.bytes) / span.Seconds()}
	if n := len(g.latencies); n > 0 {
		slices.Sort(g.latencies)
		r.P50, r.P99 = micros(g.latencies[n/2]), micros(g.latencies[n*99/100])
	}
	last := g.last
	g.samples, g.bytes, g.latencies, g.last = 0, 0, g.latencies[:0], nil
	return r, last
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// join begins to read topics that are new, and returns why others cannot be read. These are tried
// again.
func (b *board) join(ctx context.Context) (faults map[string]string) {
	faults = map[string]string{}
	for _, t := range b.p.Topics() {
		if err := b.read(ctx, t); err != nil {
			faults[t.Name] = err.Error()
		}
	}
	return faults
}

// wants reports whether a topic is to be shown.
func (b *board) wants(topic string) bool { return len(b.only) == 0 || slices.Contains(b.only, topic) }

// read begins to read a topic.
func (b *board) read(ctx context.Context, info dds.TopicInfo) error {
	if b.gauges[info.Name] != nil || !b.wants(info.Name) {
		return nil
	}
	t, err := open(ctx, b.p, info)
	if err != nil {
		return err
	}
	g := &gauge{info: info}
	_, err = t.Reader(ctx, dds.QoS{
		Reliability: qos.Reliability{Kind: qos.BestEffort}, Ownership: info.QoS.Ownership, Partitions: []string{"*"}, UserData: []byte(uiMark),
	}, dds.Listen(g.hear))
	if err == nil {
		b.gauges[info.Name] = g
	}
	return err
}

// measured returns what was measured in a time, in the order of the topics' names and of positions.
func (b *board) measured(span time.Duration) (rates []rate, samples []shown) {
	rates, samples = []rate{}, []shown{}
	for _, g := range b.gauges {
		r, last := g.take(span)
		rates, samples = append(rates, r), append(samples, last...)
	}
	slices.SortFunc(rates, func(x, y rate) int { return strings.Compare(x.Topic, y.Topic) })
	slices.SortStableFunc(samples, func(x, y shown) int { return cmp.Compare(x.Position, y.Position) })
	return rates, samples
}

// tick makes the event of rates, of a time.
func (b *board) tick(span time.Duration) error {
	event := struct {
		At      int64   `json:"at"` // milliseconds since the Unix epoch
		Topics  []rate  `json:"topics"`
		Samples []shown `json:"samples"`
	}{At: time.Now().UnixMilli()}
	event.Topics, event.Samples = b.measured(span)
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rates = data
	close(b.ticked)
	b.ticked = make(chan struct{})
	return nil
}

// serve serves the page until the context ends.
func (b *board) serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := b.look(ctx); err != nil {
		return err
	}
	server := &http.Server{Handler: b.handler(ctx, l.Addr()), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	defer server.Close()
	return b.each(ctx, uiEvery, ended, func(span time.Duration) error {
		if err := b.look(ctx); err != nil {
			return err
		}
		return b.tick(span)
	})
}

// each calls a function again and again with the time since the call before, until it fails, the
// context or the group ends, or an error comes.
func (b *board) each(ctx context.Context, every time.Duration, ended <-chan error, f func(span time.Duration) error) error {
	var over <-chan struct{}
	if g := b.p.group(); g != nil {
		over = g.Done()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return b.p.group().Err()
		case err := <-ended:
			return err
		case <-ticker.C:
			now := time.Now()
			if err := f(now.Sub(last)); err != nil && ctx.Err() == nil {
				return err
			}
			last = now
		}
	}
}

// handler serves the files of the page, its events, and explanations.
func (b *board) handler(ctx context.Context, at net.Addr) http.Handler {
	files, err := fs.Sub(web, "web")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) { b.events(ctx, w, r) })
	mux.HandleFunc("GET /explain", func(w http.ResponseWriter, r *http.Request) {
		all, err := explained(b.p, r.URL.Query().Get("topic"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict) // an endpoint was closed meanwhile
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = show.JSON(w, all) // the page is gone
	})
	local := at.(*net.TCPAddr).IP.IsLoopback()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page of another site must not reach this one by a name that resolves to this host.
		if local && !isLocal(r.Host) {
			http.Error(w, "this page is served to this host only, by the name localhost or its address", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// isLocal reports whether a host, perhaps with a port, is this one by its very name.
func isLocal(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func sendEvent(w io.Writer, name string, data []byte) error {
	_, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
	return err
}

// events sends server-sent events: the space when it has changed, and rates.
func (b *board) events(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are open already", uiViewers), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	sent := 0
	for {
		b.mu.Lock()
		space, version, rates, ticked := b.space, b.version, b.rates, b.ticked
		b.mu.Unlock()
		err := c.SetWriteDeadline(time.Now().Add(uiWriteLimit))
		if version > sent {
			sent = version
			err = errors.Join(err, sendEvent(w, "space", space))
		}
		if rates != nil {
			err = errors.Join(err, sendEvent(w, "rates", rates))
		}
		if errors.Join(err, c.Flush()) != nil {
			return
		}
		select {
		case <-ticked:
		case <-r.Context().Done():
			return
		case <-ctx.Done():
			return
		}
	}
}
