package topics

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/dds"
	"github.com/squall-go/squall/dds/member"
	"github.com/squall-go/squall/dds/qos"
)

// page serves the page of a program's space.
func page(t *testing.T, p *member.Member, only ...string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- newBoard(party{p.Participant, p}, "space", only).serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String() + "/"
}

// exhibition is a program with a topic that has samples, and one whose writer and reader do not
// match.
func exhibition(t *testing.T) (p *member.Member, write func(string)) {
	t.Helper()
	p, _ = program(t)
	notes, err := dds.NewTopic(t.Context(), p, "notes", dds.CBOR[note](), dds.QoS{})
	fatal(t, err)
	w, err := notes.Writer(t.Context(), dds.QoS{})
	fatal(t, err)
	apart, err := dds.NewTopic(t.Context(), p, "apart <b>", dds.CBOR[position](), dds.QoS{Durability: qos.Transient})
	fatal(t, err)
	_, err = apart.Writer(t.Context(), dds.QoS{})
	fatal(t, err)
	_, err = apart.Reader(t.Context(), dds.QoS{Durability: qos.Transient})
	fatal(t, err)
	return p, func(text string) {
		_, err := w.Matched(t.Context(), 1)
		fatal(t, err)
		fatal(t, w.Write(t.Context(), note{text}))
	}
}

func get(t *testing.T, url, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	fatal(t, err)
	if host != "" {
		r.Host = host
	}
	a, err := http.DefaultClient.Do(r)
	fatal(t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	fatal(t, err)
	if a.StatusCode == 200 && !strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%s has no policy", url)
	}
	return a.StatusCode, string(b)
}

func TestEventsOfThePageTellTheSpaceAndItsSamples(t *testing.T) {
	p, write := exhibition(t)
	url := page(t, p)
	a, err := http.Get(url + "events")
	fatal(t, err)
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	next := func(kind string, v any) bool {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "event: "+kind && lines.Scan() {
				fatal(t, json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), v))
				return true
			}
		}
		t.Fatal("the events have ended", lines.Err())
		return false
	}
	var space struct {
		Topics []struct {
			Name                    string
			Writers, Readers, Apart int
			Shown                   bool
		}
		Processes []struct{ Address string }
		Endpoints []struct {
			Topic  string
			Reader bool
			Page   bool
		}
	}
	next("space", &space)
	pages := 0
	for _, e := range space.Endpoints {
		if e.Page {
			pages++
		}
	}
	if len(space.Topics) != 2 || space.Topics[0].Readers != 0 || space.Topics[1].Apart != 1 || space.Topics[1].Readers != 1 || len(space.Processes) != 1 || space.Processes[0].Address != p.Group().Addr() {
		t.Errorf("the space: %+v, with %d readers of pages", space, pages)
	}
	write("hello")
	for found := false; !found; {
		var rates struct {
			Topics []struct {
				Topic                    string
				Total                    int
				Samples, Bytes, P50, P99 float64
			}
			Samples []shown
		}
		next("rates", &rates)
		for _, s := range rates.Samples {
			r := rates.Topics[1]
			if found = s.Topic == "notes" && s.Text == `{"Text":"hello"}`; !found || r.Topic != "notes" || r.Total != 1 || r.Samples <= 0 || r.P50 <= 0 || r.P99 < r.P50 {
				t.Errorf("%+v", rates)
			}
		}
	}
	status, text := get(t, url+"explain?topic=apart+%3Cb%3E", "")
	if status != 200 || !strings.Contains(text, "DURABILITY") || !strings.Contains(text, `"match": false`) {
		t.Errorf("%d: %s", status, text)
	}
}

func TestThePageIsServedToThisHostOnly(t *testing.T) {
	p, _ := exhibition(t)
	url := page(t, p, "notes")
	for _, file := range []string{"", "ui.js", "ui.css", "icon.svg"} {
		if status, text := get(t, url+file, ""); status != 200 || len(text) == 0 || strings.Contains(text, "//cdn") {
			t.Errorf("%q: %d", file, status)
		}
	}
	for host, want := range map[string]int{"localhost:1234": 200, "[::1]:7080": 200, "attacker.example": 403, "localhost.attacker.example:7080": 403, "127.0.0.1.nip.io": 403} {
		if status, _ := get(t, url, host); status != want {
			t.Errorf("for %s: %d", host, status)
		}
	}
	if status, _ := get(t, url+"nothing", ""); status != 404 {
		t.Errorf("what there is not: %d", status)
	}
}

func TestTheCommandSaysWhereThePageIs(t *testing.T) {
	_, join := program(t)
	for at, warned := range map[string]bool{"127.0.0.1:0": false, "0.0.0.0:0": true} {
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs output
		cmd := NewCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{"ui", join, "--at", at})
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		ended := make(chan error, 1)
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		for !strings.Contains(out.String(), "shows space") {
			select {
			case err := <-ended:
				t.Fatal(err)
			case <-time.After(time.Millisecond):
			}
		}
		url, _, _ := strings.Cut(out.String(), " ")
		if status, _ := get(t, url, ""); status != 200 {
			t.Errorf("%s: %d", url, status)
		}
		cancel()
		if err := <-ended; err != nil || strings.Contains(errs.String(), "no password") != warned {
			t.Errorf("at %s: %v, %q", at, err, errs.String())
		}
	}
	if _, err := run(t, "", "ui", join, "--at=nowhere"); err == nil || !strings.Contains(err.Error(), "--at") {
		t.Error(err)
	}
}

// browser is Chromium, which is controlled through pipes, in the protocol of its developer tools.
type browser struct {
	t    *testing.T
	to   *os.File
	from *bufio.Reader
	n    int
	page string // session
}

// chromium starts a browser. The test skips where there is none.
func chromium(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium (Debian: chromium)")
	}
	dir, err := os.MkdirTemp("", "chromium-")
	fatal(t, err)
	in, to, err := os.Pipe()
	fatal(t, err)
	from, out, err := os.Pipe()
	fatal(t, err)
	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	cmd.WaitDelay = 5 * time.Second
	fatal(t, cmd.Start())
	in.Close()
	out.Close()
	b := &browser{t: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	t.Cleanup(func() {
		b.n++
		fmt.Fprintf(to, `{"id":%d,"method":"Browser.close"}`+"\x00", b.n)
		_ = cmd.Wait() // its status says nothing
		to.Close()
		from.Close()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) { // its last processes still write
			if err := os.RemoveAll(dir); err == nil {
				break
			} else if time.Now().After(end) {
				t.Error(err)
				break
			}
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.page = session.SessionID
	return b
}

// call calls a method and waits for its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.n++
	text, err := json.Marshal(map[string]any{"id": b.n, "method": method, "params": params, "sessionId": b.page})
	if b.page == "" {
		text, err = json.Marshal(map[string]any{"id": b.n, "method": method, "params": params})
	}
	fatal(b.t, err)
	_, err = b.to.Write(append(text, 0))
	fatal(b.t, err)
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("the browser has ended: %v", err)
		}
		var a struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		fatal(b.t, json.Unmarshal(text[:len(text)-1], &a))
		switch {
		case a.ID != b.n:
		case a.Error != nil:
			b.t.Fatalf("%s: %s", method, a.Error.Message)
		default:
			if result != nil {
				fatal(b.t, json.Unmarshal(a.Result, result))
			}
			return
		}
	}
}

// eval evaluates an expression on the page.
func (b *browser) eval(expression string) (value any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s %s", expression, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	return r.Result.Value
}

// until waits until an expression is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for end := time.Now().Add(20 * time.Second); b.eval(expression) != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("%s is not true; the page says:\n%v", expression, b.eval("document.body.innerText"))
		}
	}
}

func TestThePageShowsTopicsMatchesAndSamplesInABrowser(t *testing.T) {
	b := chromium(t)
	p, write := exhibition(t)
	url := page(t, p)
	b.call("Page.enable", nil, nil)
	b.call("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": `window.faults = []; addEventListener("error", (e) => faults.push(e.message)); addEventListener("unhandledrejection", (e) => faults.push(String(e.reason))); addEventListener("securitypolicyviolation", (e) => faults.push(e.violatedDirective));`}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.until(`document.getElementById("status")?.textContent === "live" && document.querySelectorAll("#topics tbody tr").length === 2`)
	b.until(`document.getElementById("chosen").textContent === "notes" && document.title === "Topics of space"`)

	write("<img src=x onerror=faults.push('markup')>")
	b.until(`[...document.querySelectorAll("#samples td:last-child")].some((td) => td.textContent.includes("<img src=x"))`)
	b.until(`document.querySelectorAll("#samples img").length === 0 && Number(document.querySelector("#rate polyline").getAttribute("points").split(" ").length) > 1`)
	b.until(`document.getElementById("rate").getAttribute("aria-label").includes("at most 2")`) // one sample in half a second

	// With the keyboard to the other topic, whose writer and reader do not match.
	b.eval(`[...document.querySelectorAll("#topics button")].find((x) => x.dataset.topic === "apart <b>").focus()`)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}, nil)
	b.until(`document.getElementById("chosen").textContent === "apart <b>" && document.activeElement.dataset.topic === "apart <b>"`)
	b.until(`document.getElementById("matches").innerText.includes("do not match") && document.getElementById("matches").innerText.includes("DURABILITY: offered VOLATILE, requested TRANSIENT")`)
	b.until(`document.querySelector("#topics .apart").textContent === "1"`)

	// Dark and light, readable in both: text against ground.
	contrast := `(() => {
		const lum = (c) => { const [r, g, b] = c.match(/[\d.]+/g).map((x) => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
		const of = (e, p) => lum(getComputedStyle(e)[p]);
		const ground = of(document.body, "backgroundColor");
		return ["body", "th", "#topics button", ".apart", "figcaption"].map((s) => of(document.querySelector(s), "color")).every((c) => (Math.max(c, ground) + .05) / (Math.min(c, ground) + .05) >= 4.5);
	})()`
	grounds := map[any]bool{}
	for _, scheme := range []string{"light", "dark"} {
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		b.until(contrast)
		grounds[b.eval(`getComputedStyle(document.body).backgroundColor`)] = true
	}
	if len(grounds) != 2 {
		t.Errorf("dark is light: %v", grounds)
	}
	// What a screen reader needs: names of everything that can be operated, and headings of tables.
	b.until(`[...document.querySelectorAll("button, svg, section")].every((e) => e.textContent.trim() || e.getAttribute("aria-label")) && [...document.querySelectorAll("th")].every((e) => e.scope === "col")`)

	b.eval(`document.getElementById("pause").click()`)
	b.until(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	if faults := b.eval("faults.join(', ')"); faults != "" {
		t.Errorf("faults of the page: %v", faults)
	}
	if path := os.Getenv("SQUALL_UI_SCREENSHOT"); path != "" {
		var shot struct{ Data []byte }
		b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
		fatal(t, os.WriteFile(path, shot.Data, 0o600))
	}
}
