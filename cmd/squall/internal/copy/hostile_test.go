package copy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
)

// pusher speaks the conversation by hand.
type pusher struct {
	t *testing.T
	*conn
}

func knock(t *testing.T, addr string, token []byte) *pusher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dialled, err := port.Dial(ctx, addr, port.KindCopy, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := introduce(dialled, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return &pusher{t, c}
}

// reply is what the receiver says, pulses left out.
func (p *pusher) reply() (a reply, err error) {
	err = p.receive(&a)
	return a, err
}

func (p *pusher) says(requests ...request) {
	p.t.Helper()
	for _, c := range requests {
		if err := p.send(c); err != nil {
			p.t.Fatal(err)
		}
	}
}

func TestC1AHostilePusherWritesNothingOutside(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	dir := filepath.Join(outer, "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := take(t, dir, "--forever")
	for _, entries := range [][]entry{
		{{Path: "../out", Mode: 0o600}},
		{{Path: filepath.Join(outer, "out")}},
		{{Path: "l", Kind: link, To: ".."}, {Path: "l/out"}},
		{{Path: "l", Kind: link, To: "/"}},
		{{Path: "huge", Size: 1 << 59}},
		{{Path: "a", Size: -5}},
	} {
		p := knock(t, r.addr, nil)
		p.says(request{Offer: &offer{ID: 1, Entries: len(entries), Force: true}}, request{Entries: entries})
		if a, err := p.reply(); err != nil || len(a.Refused) != 1 {
			t.Errorf("C1: %+v: %+v, %v", entries, a, err)
		}
	}
	if got := tree(t, outer); len(got) != 1 {
		t.Errorf("C1: %v", got)
	}
}

func TestWhatIsNoConversationEndsIt(t *testing.T) {
	t.Parallel()
	r := take(t, t.TempDir(), "--forever")
	good := []entry{{Path: "a", Size: 5}}
	for name, calls := range map[string][]request{
		"no offer":           {{Place: true}},
		"an empty offer":     {{Offer: &offer{}}},
		"a huge offer":       {{Offer: &offer{Entries: maxEntries + 1}}},
		"too many entries":   {{Offer: &offer{Entries: 1}}, {Entries: append(good, good...)}},
		"something else":     {{Offer: &offer{Entries: 1}}, {Keep: true}},
		"placed before sent": {{Offer: &offer{ID: 1, Entries: 1}}, {Entries: good}, {Place: true}},
		"a foreign group":    {{Offer: &offer{ID: 1, Entries: 1}}, {Entries: good}, {Start: &start{Key: "k", Members: []member{{ID: 7, Addr: "x"}}}}},
		"no members":         {{Offer: &offer{ID: 1, Entries: 1}}, {Entries: good}, {Start: &start{}}},
		"given up":           {{Offer: &offer{ID: 1, Entries: 1}}, {Entries: good}, {Quit: "enough"}},
	} {
		p := knock(t, r.addr, nil)
		p.says(calls...)
		for {
			a, err := p.reply()
			if err != nil {
				if !errors.Is(err, errGone) {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			if a.Failed != "" {
				break
			}
		}
		p.close()
	}
	eventually(t, "nothing is left", func() bool { return isEmpty(t, r.dir) })
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 100, 1)
	mustCopyWhenFree(t, path, r.addr) // it is as good as ever
}

func TestFramesAreNotTrusted(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	if err := wire.WriteMessage(&whole, request{Quit: "enough"}); err != nil {
		t.Fatal(err)
	}
	for name, frame := range map[string]string{
		"too long":  strings.Repeat("\xff", wire.HeaderBytes),
		"no frame":  strings.Repeat("abc", wire.HeaderBytes),
		"cut off":   whole.String()[:whole.Len()-1],
		"no object": "\x00\x00\x00\x00" + whole.String()[4:],
	} {
		here, there := net.Pipe()
		go func() { there.Write([]byte(frame)); there.Close() }()
		var c request
		if err := newConn(here).receive(&c); !errors.Is(err, errFrame) && !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
		here.Close()
	}
}

// noted is a connection that records the bytes written to it, and changes one of them if asked to.
type noted struct {
	net.Conn
	read   []byte
	change int // the place of that byte; 0 is none
}

func (w *noted) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if at := w.change - len(w.read); w.change > 0 && at >= 0 && at < n {
		b[at] ^= 1
	}
	w.read = append(w.read, b[:n]...)
	return n, err
}

// greeted are a pusher and a receiver that have greeted each other over a connection of which the
// receiver's end is noted.
func greeted(t *testing.T, pushers, receivers string) (from, to *conn, on *noted, errs [2]error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close(); in.Close() })
	on = &noted{Conn: in}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if to, errs[1] = welcome(on, []byte(receivers), ""); errs[1] != nil {
			in.Close()
		}
	}()
	if from, _, errs[0] = introduce(out, []byte(pushers)); errs[0] != nil {
		out.Close()
	}
	<-done
	for _, k := range []*conn{from, to} {
		if k != nil {
			t.Cleanup(k.close)
		}
	}
	return from, to, on, errs
}

func TestC2WhatIsSaidUnderATokenIsNeitherReadNorChanged(t *testing.T) {
	t.Parallel()
	const token, text = "a token of some length", "what no other process may read"
	from, to, on, errs := greeted(t, token, token)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	var c request
	hear := func() error {
		for c = (request{}); c.Quit == ""; {
			if err := to.receive(&c); err != nil {
				return err
			}
		}
		return nil
	}
	err := from.send(request{Quit: text})
	if err = errors.Join(err, hear()); err != nil || c.Quit != text || bytes.Contains(on.read, []byte(text)) {
		t.Errorf("C2: %v: %+v, %q", err, c, on.read)
	}
	on.change = len(on.read) + 20
	err = from.send(request{Quit: text})
	if heard := hear(); err != nil || heard == nil {
		t.Errorf("C2: %v: what was changed is heard: %+v", err, c)
	}
	if _, _, _, errs := greeted(t, token, "another token than that"); !errors.Is(errs[0], errToken) || !errors.Is(errs[1], errToken) {
		t.Errorf("C2: with another token: %v, %v", errs[0], errs[1])
	}
}

// tokenFile has a token of its own.
func tokenFile(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestC2OnlyWhoHasTheTokenMayPush(t *testing.T) {
	t.Parallel()
	right, wrong := tokenFile(t, "the token of this test"), tokenFile(t, "not the token of this test")
	r := take(t, t.TempDir(), "--token-file", right)
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 3<<20, 1)
	mustRefuse(t, []string{r.addr + ": the other end has another token"}, "--token-file", wrong, path, r.addr)
	mustRefuse(t, []string{r.addr + ": it wants a token: give --token-file"}, path, r.addr)
	open := take(t, t.TempDir())
	mustRefuse(t, []string{open.addr + ": it has no token"}, "--token-file", right, path, open.addr)
	mustBeEmpty(t, r.dir)
	mustBeEmpty(t, open.dir)
	mustCopy(t, "--token-file", right, path, r.addr)
	if status, _, errs := r.end(); status != 0 || !strings.Contains(errs, "another token") {
		t.Errorf("C2: exit status %d: %s", status, errs)
	}
	sameTree(t, r.dir, filepath.Dir(path))
}

func TestNobodyListensToStrangersByMistake(t *testing.T) {
	t.Parallel()
	for line, words := range map[string]string{
		"--listen 0.0.0.0:0":                    "give --token-file or the three --tls flags, or --insecure",
		"--listen :0":                           "other machines reach that",
		"--token-file " + tokenFile(t, "short"): "could be guessed",
		"--token-file /nowhere/token":           "no such file",
		"--tls-cert a --tls-key b":              "give all three or none",
		"--tls-cert a --tls-key b --tls-ca c":   "--tls-cert a, --tls-key b: ",
		"--listen nonsense":                     "--listen nonsense: ",
		"--insecure --token-file " + tokenFile(t, "the token of this test"): "--insecure: does not go with",
	} {
		cmd := command(t, append(append([]string{"recv"}, strings.Fields(line)...), t.TempDir())...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), words) {
			t.Errorf("recv %s: %v, nothing of %q in %s", line, err, words, out)
		}
	}
	r := take(t, t.TempDir(), "--insecure", "--listen", "0.0.0.0:0")
	_, number, _ := net.SplitHostPort(r.addr)
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 100, 1)
	mustCopy(t, path, fmt.Sprintf("127.0.0.1:%s", number))
	r.well()
}
