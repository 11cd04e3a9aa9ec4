package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// browsers are the names that a Chromium goes by.
var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

// patience is how long a browser may take for anything. It is long, since it
// only matters where a test fails.
const patience = time.Minute

// chromium is one browser for all tests, each of which has a tab of its own.
var chromium = sync.OnceValues(func() (context.Context, error) {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("touch-events", "enabled"),
		// A machine without a mouse has one all the same, until a tab is given a touch screen.
		chromedp.Flag("blink-settings", "primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	programs.AtEnd(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stop()
	})
	return ctx, chromedp.Do(ctx)
})

// A gate stands before the site and sees every request for a run. It counts
// them, holds answers back, or answers in the site's place.
type gate struct {
	next http.Handler

	mu      sync.Mutex
	runs    []string                 // "race.a", in the order in which they came
	held    map[string]chan struct{} // by run: closed when its answer may go
	givenUp []string                 // runs whose visitor left before the answer
	instead func(w http.ResponseWriter, r *http.Request)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, run, ok := strings.Cut(r.URL.Path, "/figures/")
	if !ok {
		g.next.ServeHTTP(w, r)
		return
	}
	run = strings.ReplaceAll(run, "/", ".")
	g.mu.Lock()
	g.runs = append(g.runs, run)
	held, instead := g.held[run], g.instead
	g.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			g.mu.Lock()
			g.givenUp = append(g.givenUp, run)
			g.mu.Unlock()
			return
		}
	}
	if instead != nil {
		instead(w, r)
		return
	}
	g.next.ServeHTTP(w, r)
}

// hold keeps the answers to a run back until the returned function is called.
func (g *gate) hold(run string) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = map[string]chan struct{}{}
	}
	c := make(chan struct{})
	g.held[run] = c
	return sync.OnceFunc(func() { close(c) })
}

func (g *gate) answer(instead func(http.ResponseWriter, *http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.instead = instead
}

func (g *gate) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.runs)
}

func (g *gate) leavers() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.givenUp)
}

// A tab is one page in the browser, and the gate through which it sees the site.
type tab struct {
	t    *testing.T
	ctx  context.Context
	gate *gate
	base string

	mu       sync.Mutex
	problems []string // errors that the browser told of
	allowed  []string // what they may contain
}

// probe runs before the page's own scripts, and is what the tests see it by.
const probe = `(() => {
  const probe = window.probe = { violations: [], announced: [], shift: 0, shifted: [], states: [] };
  document.addEventListener('securitypolicyviolation', (e) => probe.violations.push(e.violatedDirective + ' ' + e.blockedURI));
  new PerformanceObserver((list) => {
    for (const e of list.getEntries()) {
      if (e.hadRecentInput) continue;
      probe.shift += e.value;
      probe.shifted.push(...e.sources.map((s) => (s.node?.outerHTML ?? s.node?.nodeName ?? 'gone').slice(0, 60)
        + ' from ' + JSON.stringify(s.previousRect) + ' to ' + JSON.stringify(s.currentRect) + ' at ' + Math.round(e.startTime) + ' ms'));
    }
  }).observe({ type: 'layout-shift', buffered: true });
  document.addEventListener('DOMContentLoaded', () => {
    const say = document.getElementById('announce');
    new MutationObserver(() => { if (say.textContent) probe.announced.push(say.textContent); })
      .observe(say, { childList: true, characterData: true, subtree: true });
  });
  probe.figure = (id) => {
    const f = document.getElementById(id);
    const on = f.querySelectorAll('.says > .say.on');
    const text = (el) => el?.textContent.trim().replace(/\s+/g, ' ') ?? '';
    return {
      lit: f.dataset.lit, status: f.dataset.status, on: on.length,
      path: [...f.querySelectorAll('.paths > li.lit')].map((li) => li.dataset.path).join(' '),
      wires: [...f.querySelectorAll('.wires .lit')].map((p) => p.dataset.path).join(' '),
      label: text(on[0]?.querySelector('.say-path')),
      tag: text(on[0]?.querySelector('.tag')),
      source: text(on[0]?.querySelector('.say-source')),
      text: text(on[0]?.querySelector('.say-text') ?? on[0]),
      ran: text(f.querySelector('.ran-body')),
      busy: f.querySelector('.readout').getAttribute('aria-busy') === 'true',
      focused: document.activeElement?.closest('.paths > li')?.dataset.path ?? '',
    };
  };
  // watch notes each state of a figure, so that a test sees what came and went.
  probe.watch = (id) => {
    new MutationObserver(() => {
      const now = JSON.stringify([probe.figure(id).path, probe.figure(id).lit]);
      if (probe.states.at(-1) !== now) probe.states.push(now);
    }).observe(document.getElementById(id), { attributes: true, subtree: true, childList: true });
  };
})();`

// stoppedClock puts the page's timers under the test's command.
const stoppedClock = `(() => {
  const clock = window.clock = { now: 0, last: 0, timers: new Map() };
  window.setTimeout = (f, ms = 0, ...args) => {
    clock.timers.set(++clock.last, { at: clock.now + (+ms || 0), f: () => f(...args) });
    return clock.last;
  };
  window.clearTimeout = (id) => { clock.timers.delete(id); };
  clock.advance = (ms) => {
    const end = clock.now + ms;
    for (;;) {
      const due = [...clock.timers].filter(([, t]) => t.at <= end).sort(([, a], [, b]) => a.at - b.at)[0];
      if (!due) break;
      clock.timers.delete(due[0]);
      clock.now = due[1].at;
      due[1].f();
    }
    clock.now = end;
  };
})();`

// noAbort takes from the page the means to cancel a request, so that an answer
// which nobody wants comes in all the same.
const noAbort = `AbortController.prototype.abort = () => {};`

// size is a window's, in CSS pixels.
type size struct{ width, height int64 }

var (
	desktop = size{1360, 900}
	phone   = size{390, 844}
)

// openTab opens a tab on the site that the tests share. Scripts run in it before
// those of each page.
func openTab(t *testing.T, window size, scripts ...string) *tab {
	t.Helper()
	return openTabOn(t, course.Visit(t).Handler, window, scripts...)
}

func openTabOn(t *testing.T, site http.Handler, window size, scripts ...string) *tab {
	t.Helper()
	programs.Need(t, browsers...)
	parent, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{next: site}
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, gate: g, base: server.URL}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	call(b, log.Enable, cdp.Empty{})
	call(b, network.Enable, network.EnableParams{})
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	b.resize(window)
	for _, script := range append([]string{probe}, scripts...) {
		call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	}
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			if !slices.ContainsFunc(b.allowed, func(allowed string) bool { return strings.Contains(p, allowed) }) {
				t.Errorf("the browser says: %s", p)
			}
		}
	})
	return b
}

// listen collects what a reader would find in the console.
func (b *tab) listen(event any) {
	var problem string
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = thrown(e.ExceptionDetails).Error()
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			problem = fmt.Sprintf("%s: %s: %s %s", e.Entry.Level, e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			problem = fmt.Sprintf("console.%s: %s", e.Type, e.Args[0].Value)
		}
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; strings.HasPrefix(url, "http") && !strings.HasPrefix(url, b.base) {
			problem = "a request leaves the site: " + url
		}
	}
	if problem != "" {
		b.mu.Lock()
		b.problems = append(b.problems, problem)
		b.mu.Unlock()
	}
}

// allow lets the browser tell of problems that the test makes on purpose.
func (b *tab) allow(texts ...string) { b.allowed = append(b.allowed, texts...) }

// call sends one command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// resize makes the window so large.
func (b *tab) resize(window size) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: window.width, Height: window.height, DeviceScaleFactor: 1,
	})
}

// touch gives the tab a touch screen; mobile makes it a telephone's.
func (b *tab) touch(mobile bool) {
	b.t.Helper()
	if mobile {
		call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: phone.width, Height: phone.height, DeviceScaleFactor: 2, Mobile: true,
		})
	}
	call(b, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true, MaxTouchPoints: 1})
}

// prefer sets what a reader's system asks of pages: "prefers-color-scheme", "dark".
func (b *tab) prefer(features ...string) {
	b.t.Helper()
	var media []*emulation.MediaFeature
	for i := 0; i < len(features); i += 2 {
		media = append(media, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media})
}

// openClipboard lets the page read and write the clipboard.
func (b *tab) openClipboard() {
	b.t.Helper()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		_, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: "granted", Origin: b.base,
			BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID,
		})
		cancel()
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// open goes to an address of the site.
func (b *tab) open(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(b.base+address)); err != nil {
		b.t.Fatalf("%s: %v", address, err)
	}
}

// js evaluates an expression in the page.
func (b *tab) js(expression string, into any) {
	b.t.Helper()
	if err := b.try(expression, into); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

func (b *tab) try(expression string, into any) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	yes := true
	result, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ReturnByValue: &yes, AwaitPromise: &yes, UserGesture: &yes,
	})
	switch {
	case err != nil:
		return err
	case result.ExceptionDetails != nil:
		return thrown(result.ExceptionDetails)
	case into == nil:
		return nil
	}
	return json.Unmarshal(result.Result.Value, into)
}

// thrown words an exception of the page.
func thrown(d *runtime.ExceptionDetails) error {
	text := d.Text
	if d.Exception != nil {
		text += " " + d.Exception.Description
	}
	return fmt.Errorf("%s (%s:%d)", text, d.URL, d.LineNumber+1)
}

// wait waits until a condition holds in the page.
func (b *tab) wait(what, condition string) {
	b.t.Helper()
	b.await(what, "!!("+condition+")", nil)
}

// await waits until an expression has a value in the page that is not false, null
// or undefined, and takes it.
func (b *tab) await(what, expression string, into any) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var value json.RawMessage
		err := b.try(expression, &value)
		switch string(value) {
		case "", "false", "null":
		default:
			if into != nil {
				err = json.Unmarshal(value, into)
			}
			if err != nil {
				b.t.Fatal(err)
			}
			return
		}
		if time.Now().After(deadline) {
			var states any
			_ = b.try(`[...document.querySelectorAll('figure.figure')].map((f) => probe.figure(f.id)).filter((s) => s.lit)`, &states)
			text, _ := json.Marshal(states)
			b.t.Fatalf("not within %v: %s (%v)\nfigures: %s\nruns: %v", patience, what, err, text, b.gate.seen())
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// shown is what a figure shows.
type shown struct {
	Lit, Status, Path, Wires, Label, Tag, Source, Text, Ran, Focused string
	On                                                               int
	Busy                                                             bool
}

func (b *tab) figure(id string) (s shown) {
	b.t.Helper()
	b.js(fmt.Sprintf("probe.figure(%q)", id), &s)
	return s
}

// live waits for the live verdict of a path.
func (b *tab) live(figure, path string) shown {
	b.t.Helper()
	return b.until(figure, path, "live", "live · Valkey")
}

// recorded waits for the recorded verdict of a path.
func (b *tab) recorded(figure, path string) shown {
	b.t.Helper()
	return b.until(figure, path, "recorded", "recorded")
}

func (b *tab) until(figure, path, lit, source string) (s shown) {
	b.t.Helper()
	b.await(fmt.Sprintf("%s.%s is %s", figure, path, lit), fmt.Sprintf(
		`(() => { const s = probe.figure(%q); return s.lit === %q && s.path === %q && s.on === 1 && s.source.startsWith(%q) && s; })()`,
		figure, lit, path, source), &s)
	if want := strings.TrimSpace(path + " " + path); s.Wires != want {
		b.t.Errorf("the lit wires of %s are %q, want %q", figure, s.Wires, want)
	}
	return s
}

// idle waits until a figure shows no path.
func (b *tab) idle(figure string) {
	b.t.Helper()
	b.wait(figure+" is idle", fmt.Sprintf(`(() => { const s = probe.figure(%q); return !s.lit && !s.path && !s.wires && s.on === 1 && !s.source; })()`, figure))
}

// box is where an element stands in the window.
type box struct{ X, Y, Width, Height float64 }

func (b *tab) box(selector string) (at box) {
	b.t.Helper()
	b.js(fmt.Sprintf(`(() => { const r = document.querySelector(%q).getBoundingClientRect(); return { X: r.x, Y: r.y, Width: r.width, Height: r.height }; })()`, selector), &at)
	return at
}

// scrollTo brings an element to the middle of the window, at once.
func (b *tab) scrollTo(selector string) {
	b.t.Helper()
	b.js(fmt.Sprintf(`document.querySelector(%q).scrollIntoView({ block: 'center', behavior: 'instant' })`, selector), nil)
}

// target is where an element stands once it has stood still for a frame, with
// nothing over its middle: what was not laid out yet may move what is under it.
func (b *tab) target(selector string) (x, y float64) {
	b.t.Helper()
	var at struct{ X, Y float64 }
	b.js(fmt.Sprintf(`(async () => {
		const runs = document.documentElement.classList.contains('js');
		for (let i = 0, last; ; i++) {
			const el = document.querySelector(%q);
			const r = el.getBoundingClientRect();
			const at = { X: r.x + r.width / 2, Y: r.y + r.height / 2 };
			const still = last && last.X === at.X && last.Y === at.Y && el.contains(document.elementFromPoint(at.X, at.Y));
			if (still || !runs || i === 100) return at;
			last = at;
			await new Promise(requestAnimationFrame);
		}
	})()`, selector), &at)
	return at.X, at.Y
}

// pathOf selects the link of a path.
func pathOf(figure, path string) string {
	return fmt.Sprintf("#%s a.path[data-path=%q]", figure, path)
}

// point moves the mouse to the middle of a path.
func (b *tab) point(figure, path string) {
	b.t.Helper()
	b.mouse(b.target(pathOf(figure, path)))
}

func (b *tab) mouse(x, y float64) {
	b.t.Helper()
	call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: chromedp.MouseMoved, X: x, Y: y})
}

// leave moves the mouse to where nothing is.
func (b *tab) leave() { b.t.Helper(); b.mouse(1, 1) }

// click clicks on the middle of an element.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.scrollTo(selector)
	x, y := b.target(selector)
	b.mouse(x, y)
	for _, kind := range []input.DispatchMouseEventType{chromedp.MousePressed, chromedp.MouseReleased} {
		call(b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: kind, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1})
	}
}

// tap touches the middle of an element.
func (b *tab) tap(selector string) {
	b.t.Helper()
	b.scrollTo(selector)
	x, y := b.target(selector)
	call(b, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type:        input.DispatchTouchEventTypeTouchStart,
		TouchPoints: []*input.TouchPoint{{X: x, Y: y}},
	})
	call(b, input.DispatchTouchEvent, input.DispatchTouchEventParams{
		Type: input.DispatchTouchEventTypeTouchEnd, TouchPoints: []*input.TouchPoint{},
	})
}

// key presses keys, one after another.
func (b *tab) key(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.keyWith(k)
	}
}

func (b *tab) keyWith(key string, options ...chromedp.KeyOption) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.KeyEvent(key, options...)); err != nil {
		b.t.Fatal(err)
	}
}

// space presses the space bar: like a keyboard, and unlike KeyEvent, it types
// nothing where the page has refused the key.
func (b *tab) space() {
	b.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		press := input.DispatchKeyEventParams{Type: kind, Key: " ", Code: "Space", WindowsVirtualKeyCode: 32}
		if kind == input.DispatchKeyEventTypeKeyDown {
			press.Text, press.UnmodifiedText = " ", " "
		}
		call(b, input.DispatchKeyEvent, press)
	}
}

// advance moves the stopped clock.
func (b *tab) advance(d time.Duration) {
	b.t.Helper()
	b.js(fmt.Sprintf("clock.advance(%d)", d.Milliseconds()), nil)
}

// rest is longer than a pointer has to rest on a path.
const rest = 3 * 120 * time.Millisecond

// ran wants exactly these runs to have come to the server; the last may still be
// on its way there.
func (b *tab) ran(want ...string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience / 6); len(b.gate.seen()) < len(want) && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
	if got := b.gate.seen(); !slices.Equal(got, want) {
		b.t.Errorf("the server saw runs %q, want %q", got, want)
	}
}
