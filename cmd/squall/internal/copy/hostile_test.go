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
)

// pusher speaks the conversation by hand.
type pusher struct {
	t *testing.T
	*talk
}

func knock(t *testing.T, addr string, token []byte) *pusher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := port.Dial(ctx, addr, port.KindCopy, nil)
	if err != nil {
		t.Fatal(err)
	}
	talk, _, err := introduce(conn, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(talk.close)
	return &pusher{t, talk}
}

// answer is what the receiver says, pulses left out.
func (p *pusher) answer() (a answer, err error) {
	p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for err == nil && a.Refused == nil && !a.Accepted && a.Failed == "" {
		err = p.hear(&a, maxFrame)
	}
	return a, err
}

func (p *pusher) says(calls ...call) {
	p.t.Helper()
	for _, c := range calls {
		if err := p.say(c); err != nil {
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
		p.says(call{Offer: &offer{ID: 1, Entries: len(entries), Force: true}}, call{Entries: entries})
		if a, err := p.answer(); err != nil || len(a.Refused) != 1 {
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
	for name, calls := range map[string][]call{
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
			a, err := p.answer()
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
	eventually(t, "nothing is left", func() bool { return len(tree(t, r.dir)) == 0 })
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 100, 1)
	mustCopy(t, path, r.addr) // it is as good as ever
}

func TestFramesAreNotTrusted(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]string{"too long": "\xff\xff\xff\xff", "no JSON": "\x03\x00\x00\x00abc", "cut off": "\x05\x00\x00\x00{"} {
		here, there := net.Pipe()
		go func() { there.Write([]byte(frame)); there.Close() }()
		var c call
		if err := newTalk(here).hear(&c, maxFrame); !errors.Is(err, errFrame) && !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
		here.Close()
	}
}

func TestC2ASealedFrameCannotBeReadChangedRepeatedOrLeftOut(t *testing.T) {
	t.Parallel()
	token, nonces := []byte("a token of some length"), bytes.Repeat([]byte{1}, 64)
	pair := func(other []byte, direction string) (*sealer, *sealer) {
		out, errOut := newSealer(token, nonces, fromPusher)
		in, errIn := newSealer(other, nonces, direction)
		if err := errors.Join(errOut, errIn); err != nil {
			t.Fatal(err)
		}
		return out, in
	}
	out, in := pair(token, fromPusher)
	first, second := out.seal(nil, []byte("first")), out.seal(nil, []byte("second"))
	if bytes.Contains(first, []byte("first")) || len(first) != 5+sealBytes {
		t.Errorf("C2: %q", first)
	}
	again := bytes.Clone(first)
	if got, err := in.open(first); err != nil || string(got) != "first" {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := in.open(again); !errors.Is(err, errToken) {
		t.Errorf("C2: repeated: %v", err)
	}
	_, in = pair(token, fromPusher)
	if _, err := in.open(bytes.Clone(second)); !errors.Is(err, errToken) {
		t.Errorf("C2: one left out: %v", err)
	}
	for name, c := range map[string]struct {
		token     []byte
		direction string
	}{"another token": {[]byte("b token of some length"), fromPusher}, "the other direction": {token, fromReceiver}} {
		out, in := pair(c.token, c.direction)
		if _, err := in.open(out.seal(nil, []byte("x"))); !errors.Is(err, errToken) {
			t.Errorf("C2: %s: %v", name, err)
		}
	}
	out, in = pair(token, fromPusher)
	frame := out.seal(nil, []byte("x"))
	frame[0] ^= 1
	if _, err := in.open(frame); !errors.Is(err, errToken) {
		t.Errorf("C2: changed: %v", err)
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
