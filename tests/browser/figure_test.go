package browser_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lockstep/handlers"
	"lockstep/lua"
	"lockstep/tests/course"
)

// TestHover points at a path: its recorded verdict is there at once, the live one
// after a rest, and both at one place.
func TestHover(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub)
	b.idle("race")
	b.scrollTo("#race")
	b.point("race", "b")
	s := b.recorded("race", "b")
	if s.Tag != "refused" || s.Text != "Worker B reads nil. The key is there already, it still holds a-7c1e, and B must not start." {
		t.Errorf("the recorded verdict is %+v", s)
	}
	b.ran()
	b.advance(119 * time.Millisecond)
	b.recorded("race", "b")
	b.ran()
	b.advance(time.Millisecond)
	s = b.live("race", "b")
	if s.Tag != "refused" || s.Status != "refused" || !strings.Contains(s.Source, "commands") || !strings.Contains(s.Source, " ms") {
		t.Errorf("the live verdict is %+v", s)
	}
	if !strings.Contains(s.Ran, "SET resource:lock b-03fd NX PX 30000") || !strings.Contains(s.Ran, "(nil)") {
		t.Errorf("what ran is %q", s.Ran)
	}
	b.advance(rest)
	b.ran("race.b")
	// Going on to another path runs that, and no other figure takes part.
	b.point("race", "a")
	b.recorded("race", "a")
	b.advance(rest)
	if s := b.live("race", "a"); s.Tag != "granted" {
		t.Errorf("the live verdict is %+v", s)
	}
	b.ran("race.b", "race.a")
	b.idle("every-order")
}

// TestHoverForReal is TestHover by the browser's own clock.
func TestHoverForReal(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.open(course.Hub + "/fencing-tokens")
	b.scrollTo("#lost-lock")
	b.point("lost-lock", "token-checked")
	s := b.live("lost-lock", "token-checked")
	if !strings.Contains(s.Text, `B's lock "xyz" stands`) {
		t.Errorf("the live verdict is %+v", s)
	}
	b.ran("lost-lock.token-checked")
}

// TestLeave leaves a path before the pointer has rested on it: nothing runs.
func TestLeave(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub)
	b.scrollTo("#race")
	b.point("race", "b")
	b.recorded("race", "b")
	b.advance(100 * time.Millisecond)
	b.leave()
	b.idle("race")
	b.advance(rest)
	// What comes later would come after it.
	b.point("race", "c")
	b.advance(rest)
	b.live("race", "c")
	b.ran("race.c")
	// Once left, the last verdict stays to be read.
	b.leave()
	b.advance(rest)
	b.live("race", "c")
	b.ran("race.c")
}

// TestSweep moves the mouse over four workers and rests on the last.
func TestSweep(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub)
	b.scrollTo("#race")
	for _, path := range []string{"a", "b", "c"} {
		b.point("race", path)
		b.recorded("race", path)
		b.advance(50 * time.Millisecond)
	}
	b.point("race", "d")
	b.recorded("race", "d")
	b.advance(rest)
	b.live("race", "d")
	b.ran("race.d")
}

// TestMoveInside moves inside one path, over its label and its edges: it runs
// once, and nothing flickers.
func TestMoveInside(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub)
	b.scrollTo("#race")
	b.point("race", "b")
	b.advance(rest)
	b.live("race", "b")
	b.js(`probe.watch('race')`, nil)
	at := b.box(pathOf("race", "b"))
	for i := range 40 {
		x := at.X + 1 + float64(i)/39*(at.Width-2)
		for _, y := range []float64{1, at.Height / 2, at.Height - 1} {
			b.mouse(x, at.Y+y)
		}
		b.advance(rest)
	}
	b.point("race", "b")
	b.advance(rest)
	b.live("race", "b")
	b.ran("race.b")
	var states []string
	b.js(`probe.states`, &states)
	if len(states) > 1 {
		t.Errorf("the figure went through %q", states)
	}
}

// TestBorders rests at the border of two paths: at most one of them changes
// anything, and only once.
func TestBorders(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub)
	b.scrollTo("#race")
	upper, lower := b.box(pathOf("race", "b")), b.box(pathOf("race", "c"))
	for i := range 20 {
		b.leave()
		b.js(`probe.states.length = 0; probe.watch('race')`, nil)
		x := lower.X + 2 + float64(i)/19*(lower.Width-4)
		y := lower.Y + float64(i%3-1)*0.5
		for range 3 {
			b.mouse(x, y)
		}
		b.advance(100 * time.Millisecond)
		var states []string
		b.js(`probe.states`, &states)
		if len(states) > 1 {
			t.Errorf("resting on %.1f, %.1f the figure went through %q", x, y, states)
		}
	}
	if gap := lower.Y - (upper.Y + upper.Height); gap > 0.5 {
		t.Errorf("there is a gap of %.1f px between two paths", gap)
	}
	b.ran()
}

// TestKeyboard does with keys what a mouse can do.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub)
	b.js(`document.querySelector('#race .caption .anchor').focus()`, nil)
	b.key(kb.Tab)
	// Focus lights and shows the recorded verdict, and does not run.
	if s := b.recorded("race", "a"); s.Focused != "a" {
		t.Errorf("Tab leads to %q", s.Focused)
	}
	b.advance(rest)
	b.key(kb.ArrowDown)
	b.recorded("race", "b")
	b.key(kb.ArrowRight)
	b.recorded("race", "c")
	b.key(kb.ArrowUp)
	b.recorded("race", "b")
	b.key(kb.ArrowLeft)
	b.recorded("race", "a")
	b.key(kb.ArrowUp) // there is nothing above
	if s := b.recorded("race", "a"); s.Focused != "a" {
		t.Errorf("ArrowUp leads out of the figure, to %q", s.Focused)
	}
	b.key(kb.End)
	b.recorded("race", "all-at-once")
	b.key(kb.ArrowDown)
	b.recorded("race", "all-at-once")
	b.key(kb.Home)
	b.recorded("race", "a")
	b.advance(rest)
	b.ran()
	// Enter runs, and pins.
	b.key(kb.ArrowDown, kb.Enter)
	if s := b.live("race", "b"); s.Focused != "b" {
		t.Errorf("after Enter the focus is on %q", s.Focused)
	}
	b.ran("race.b")
	var search string
	b.js(`location.search`, &search)
	if search != "?run=race.b" {
		t.Errorf("after Enter the address ends in %q", search)
	}
	// One Tab leaves the group, and what is pinned stays.
	b.key(kb.ArrowDown)
	b.recorded("race", "c")
	b.key(kb.Tab)
	b.live("race", "b")
	var inside bool
	b.js(`!!document.activeElement.closest('.paths')`, &inside)
	if inside {
		t.Error("Tab goes on inside the group of paths")
	}
	// Back comes to where one was; Space runs as Enter does and does not scroll.
	var y0, y1 float64
	b.keyWith(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
	if s := b.figure("race"); s.Focused != "c" {
		t.Errorf("Shift+Tab leads to %q, want c", s.Focused)
	}
	b.js(`scrollY`, &y0)
	b.space()
	b.live("race", "c")
	b.js(`scrollY`, &y1)
	if y0 != y1 {
		t.Errorf("Space scrolls by %v", y1-y0)
	}
	b.ran("race.b", "race.c")
	// Escape clears, and the address with it.
	b.key(kb.Escape)
	b.idle("race")
	b.js(`location.search`, &search)
	if search != "" {
		t.Errorf("after Escape the address ends in %q", search)
	}
	b.key(kb.ArrowUp)
	b.recorded("race", "b")
	b.ran("race.b", "race.c")
}

// TestKeysElsewhere presses the keys of figures where no figure is: nothing
// happens.
func TestKeysElsewhere(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub + "?run=race.b")
	b.live("race", "b")
	b.js(`document.querySelector('.brand').focus()`, nil)
	b.key("n", "p", "r", "1", "?", "/", kb.ArrowRight, kb.Home)
	b.advance(rest)
	b.live("race", "b")
	b.ran()
}

// TestPin clicks on a path: it runs at once, stays when the pointer leaves, and
// comes back after another was only looked at.
func TestPin(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub)
	b.scrollTo("#race")
	b.click(pathOf("race", "b"))
	b.live("race", "b")
	b.ran("race.b")
	b.advance(rest) // the hover that came with the click runs nothing of its own
	b.leave()
	b.live("race", "b")
	b.point("race", "c")
	b.recorded("race", "c")
	b.leave()
	b.live("race", "b")
	b.ran("race.b")
	// A second figure has a pin of its own.
	b.scrollTo("#every-order")
	b.click(pathOf("every-order", "with-nx"))
	b.live("every-order", "with-nx")
	b.live("race", "b")
	b.ran("race.b", "every-order.with-nx")
}

// TestDeepLink opens an address that somebody was sent.
func TestDeepLink(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub + "/fencing-tokens?run=lost-lock.blind-del#lost-lock")
	b.live("lost-lock", "blind-del")
	b.ran() // the page came with the verdict
	b.scrollTo("#lost-lock")
	b.point("lost-lock", "token-checked")
	b.recorded("lost-lock", "token-checked")
	b.leave()
	b.live("lost-lock", "blind-del")
	b.click(pathOf("lost-lock", "token-checked"))
	b.live("lost-lock", "token-checked")
	b.key(kb.Escape)
	b.idle("lost-lock")
	var address string
	b.js(`location.pathname + location.search`, &address)
	if address != course.Hub+"/fencing-tokens" {
		t.Errorf("after Escape the address is %s", address)
	}
	b.ran("lost-lock.token-checked")
}

// TestTap touches paths: each tap runs once and stays, without a second tap and
// without a mouse that the browser makes up.
func TestTap(t *testing.T) {
	t.Parallel()
	b := openTab(t, phone, stoppedClock)
	b.touch(true)
	b.open(course.Hub)
	b.scrollTo(pathOf("race", "b"))
	b.tap(pathOf("race", "b"))
	b.live("race", "b")
	b.advance(rest)
	b.ran("race.b")
	b.advance(760 * time.Millisecond)
	b.live("race", "b")
	// The verdict is on the screen.
	at := b.box("#race .says")
	if at.Y < 0 || at.Y+at.Height > float64(phone.height) {
		t.Errorf("after a tap the verdict stands at %.0f to %.0f of %d px", at.Y, at.Y+at.Height, phone.height)
	}
	b.scrollTo(pathOf("race", "a"))
	b.tap(pathOf("race", "a"))
	b.live("race", "a")
	b.advance(rest)
	b.ran("race.b", "race.a")
	// The same one again runs again, or shows what is known; it never disappears.
	b.scrollTo(pathOf("race", "a"))
	b.tap(pathOf("race", "a"))
	b.advance(rest)
	b.live("race", "a")
	if n := len(b.gate.seen()); n > 3 {
		t.Errorf("three taps made %d runs", n)
	}
	var zoom float64
	b.js(`visualViewport.scale`, &zoom)
	if zoom != 1 {
		t.Errorf("tapping zoomed the page to %v", zoom)
	}
}

// TestImpatientTap taps twice while the first run is under way.
func TestImpatientTap(t *testing.T) {
	t.Parallel()
	b := openTab(t, phone, stoppedClock)
	b.touch(false)
	b.open(course.Hub)
	release := b.gate.hold("race.b")
	b.scrollTo(pathOf("race", "b"))
	b.tap(pathOf("race", "b"))
	b.wait("the run is under way", `probe.figure('race').busy`)
	b.tap(pathOf("race", "b"))
	release()
	b.live("race", "b")
	b.ran("race.b")
}

// TestHybrid has a mouse and a touch screen: each works as it does alone.
func TestHybrid(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.touch(false)
	b.open(course.Hub)
	b.scrollTo("#race")
	b.point("race", "a")
	b.advance(rest)
	b.live("race", "a")
	b.tap(pathOf("race", "b"))
	b.live("race", "b")
	b.advance(rest)
	b.ran("race.a", "race.b")
	b.leave()
	b.live("race", "b")
}

// TestNoScript follows a path's link without JavaScript.
func TestNoScript(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(course.Hub + "/fencing-tokens")
	// The inspector may still look at the page.
	said := func(selector string) (text string) {
		t.Helper()
		b.js(fmt.Sprintf(`document.querySelector(%q)?.textContent.trim().replace(/\s+/g, ' ') ?? ''`, selector), &text)
		return text
	}
	if got := said(`#lost-lock .say[data-path="token-checked"] .say-text`); !strings.Contains(got, "A's release answers 0") {
		t.Errorf("without scripts the recorded verdict says %q", got)
	}
	var scripts bool
	if b.js(`document.documentElement.classList.contains('js')`, &scripts); scripts {
		t.Fatal("scripts run")
	}
	b.scrollTo(pathOf("lost-lock", "token-checked"))
	b.click(pathOf("lost-lock", "token-checked"))
	b.wait("the page comes back", `document.querySelector('#lost-lock .say.on[data-part=readout]')`)
	var address string
	b.js(`location.href`, &address)
	if want := b.base + course.Hub + "/fencing-tokens?run=lost-lock.token-checked#lost-lock"; address != want {
		t.Errorf("the link leads to %s, want %s", address, want)
	}
	if got := said("#lost-lock .say.on .say-source"); !strings.HasPrefix(got, "live · Valkey") {
		t.Errorf("the verdict's source is %q", got)
	}
	b.wait("the figure is on the screen", `(() => { const r = document.querySelector('#lost-lock .caption').getBoundingClientRect(); return r.top >= 0 && r.bottom < innerHeight; })()`)
	var idle []string
	b.js(`[...document.querySelectorAll('button')].filter((el) => el.checkVisibility() && !el.form).map((el) => el.textContent.trim())`, &idle)
	if len(idle) > 0 {
		t.Errorf("buttons that do nothing without scripts: %q", idle)
	}
	b.ran()
}

// underWay opens the hub and rests on its first path, whose answer is held back
// until it is released.
func underWay(t *testing.T, scripts ...string) (b *tab, release func()) {
	t.Helper()
	b = openTab(t, desktop, scripts...)
	b.open(course.Hub)
	release = b.gate.hold("race.a")
	b.scrollTo("#race")
	b.point("race", "a")
	b.advance(rest)
	b.wait("the run is under way", `probe.figure('race').busy`)
	course.Eventually(t, patience, "the run has come to the server", func() bool { return len(b.gate.seen()) == 1 })
	return b, release
}

// TestOlderAnswer has an older run answered after a newer one. With and without
// the means to cancel a request, the newer verdict stays.
func TestOlderAnswer(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string][]string{
		"cancelled": {stoppedClock},
		"ignored":   {stoppedClock, noAbort},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, release := underWay(t, scripts...)
			defer release()
			b.point("race", "b")
			b.recorded("race", "b")
			b.advance(rest)
			b.live("race", "b")
			release()
			// A third run goes the same way and comes back after the first.
			b.scrollTo("#every-order")
			b.click(pathOf("every-order", "with-nx"))
			b.live("every-order", "with-nx")
			s := b.live("race", "b")
			if s.Label != "worker B comes second" || s.Status != "refused" {
				t.Errorf("the older answer shows: %+v", s)
			}
			b.ran("race.a", "race.b", "every-order.with-nx")
			var announced []string
			b.js(`probe.announced`, &announced)
			for _, text := range announced {
				if strings.Contains(strings.ToLower(text), "worker a comes first") {
					t.Errorf("the older answer was announced: %q", text)
				}
			}
		})
	}
}

// TestLeaveBeforeAnswer leaves a figure while its run is under way: the run is
// given up, and its answer shows nowhere.
func TestLeaveBeforeAnswer(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string][]string{
		"cancelled": {stoppedClock},
		"ignored":   {stoppedClock, noAbort},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, release := underWay(t, scripts...)
			defer release()
			b.leave()
			b.idle("race")
			if name == "cancelled" {
				course.Eventually(t, patience, "the run is given up", func() bool { return slices.Equal(b.gate.leavers(), []string{"race.a"}) })
			}
			release()
			b.click(pathOf("every-order", "with-nx"))
			b.live("every-order", "with-nx")
			b.idle("race")
		})
	}
}

// TestVisitor keeps the id that a tab gets with its first run, for all that follow
// and for the pages that come after.
func TestVisitor(t *testing.T) {
	b := openTab(t, desktop)
	id := func() (id string) {
		b.js(`sessionStorage.getItem('lockstep.visitor') ?? ''`, &id)
		return id
	}
	b.open(course.Hub)
	if id() != "" {
		t.Error("a tab that has run nothing has an id")
	}
	var ids []string
	for _, path := range []string{"a", "b"} {
		b.point("race", path)
		b.live("race", path)
		ids = append(ids, id())
	}
	b.open(course.Hub)
	b.point("race", "a")
	b.live("race", "a")
	if ids = append(ids, id()); ids[0] == "" || ids[0] == "new" || len(slices.Compact(ids)) != 1 {
		t.Errorf("the tab's ids are %q", ids)
	}
}

// TestServerAway asks for runs that can't be had: the recorded verdict stays, and
// says why in words.
func TestServerAway(t *testing.T) {
	t.Parallel()
	limited := course.Open(t, course.Setup{Settings: handlers.Settings{Ceiling: 0.001}})
	if a := course.Fetch(t, limited.URL+course.Hub+"/figures/race/a", course.JSON); a.Code != http.StatusOK {
		t.Fatalf("the first run answers %d", a.Code)
	}
	closed := course.Open(t, course.Setup{})
	closed.Runner.Sandbox.Close()
	words := func(code int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for name, tt := range map[string]struct {
		site    http.Handler // nil for the shared one
		instead func(http.ResponseWriter, *http.Request)
		want    string
	}{
		"too many runs":       {limited.Handler, nil, "Figures are run from your address faster than this site allows"},
		"the sandbox is away": {closed.Handler, nil, "The sandbox is restarting"},
		"429 of a proxy":      {nil, words(429, ""), "The sandbox is busy."},
		"503 of a proxy":      {nil, words(503, "<h1>503</h1>"), "The sandbox is restarting."},
		"504 of a proxy":      {nil, words(504, "{}"), "The run took too long."},
		"500":                 {nil, words(500, "panic: 0xdeadbeef"), "This path could not run just now."},
		"200 without verdict": {nil, words(200, "<p>Welcome to the café's network</p>"), "This path could not run just now."},
		"no answer": {nil, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		}, "The site does not answer."},
		"half an answer": {nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `<div class="verdict">`)
		}, "The site does not answer."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := tt.site
			if site == nil {
				site = course.Visit(t).Handler
			}
			b := openTabOn(t, site, desktop, stoppedClock)
			b.allow("Failed to load resource")
			b.gate.answer(tt.instead)
			b.open(course.Hub)
			b.scrollTo("#race")
			b.point("race", "b")
			b.recorded("race", "b")
			b.advance(rest)
			b.wait("the figure says why", `probe.figure('race').source.length > 'recorded'.length`)
			s := b.recorded("race", "b")
			if !strings.HasPrefix(s.Source, "recorded · "+tt.want) {
				t.Errorf("the source is %q, want %q", s.Source, tt.want)
			}
			if s.Tag != "refused" || !strings.HasPrefix(s.Text, "Worker B reads nil.") {
				t.Errorf("the verdict is %+v", s)
			}
			if strings.Contains(s.Source, "429") || strings.Contains(s.Source, "50") || strings.Contains(s.Text, "deadbeef") {
				t.Errorf("a bare status shows: %+v", s)
			}
			b.wait("it is announced", `probe.announced.length === 1`)
			var announced []string
			b.js(`probe.announced`, &announced)
			if !strings.Contains(announced[0], "recorded") || !strings.Contains(announced[0], tt.want) {
				t.Errorf("announced is %q", announced)
			}
			// When it works again, so does the figure.
			if tt.site == nil {
				b.gate.answer(nil)
				b.click(pathOf("race", "b"))
				b.live("race", "b")
			}
		})
	}
}

// TestAnnounced runs paths and listens to the page's one live region.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	b.open(course.Hub + "/fencing-tokens")
	b.scrollTo("#lost-lock")
	b.point("lost-lock", "blind-del")
	b.advance(rest)
	b.live("lost-lock", "blind-del")
	b.wait("it is announced", `probe.announced.length > 0`)
	b.click(pathOf("lost-lock", "blind-del")) // the same words, said again
	b.wait("it is announced again", `probe.announced.length > 1`)
	b.point("lost-lock", "token-checked") // a recorded verdict is not announced
	b.recorded("lost-lock", "token-checked")
	b.advance(rest)
	b.live("lost-lock", "token-checked")
	b.wait("it is announced too", `probe.announced.length > 2`)
	var announced []string
	b.js(`probe.announced`, &announced)
	if len(announced) != 3 {
		t.Errorf("three runs were announced as %q", announced)
	}
	for i, want := range []string{"Client A, blind DEL: broken. A deletes", "Client A, blind DEL: broken. A deletes", "Client A, token-checked release: "} {
		if !strings.HasPrefix(announced[i], want) || !strings.Contains(announced[i], " Live, Valkey ") {
			t.Errorf("announced is %q, want %q…", announced[i], want)
		}
	}
	var regions []string
	b.js(`[...document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log], output')].map((el) => el.id)`, &regions)
	if !slices.Equal(regions, []string{"announce"}) {
		t.Errorf("live regions: %q", regions)
	}
}

// TestConsole opens every page, runs a path of each of its figures, and wants no
// error, no policy violation and no shift.
func TestConsole(t *testing.T) {
	t.Parallel()
	for _, address := range pages(t) {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			b := openTab(t, desktop)
			b.allow("/nope")
			b.open(address)
			var figures [][2]string
			b.js(`[...document.querySelectorAll('figure.figure')].map((f) => [f.id, f.querySelector('a.path').dataset.path])`, &figures)
			for _, f := range figures {
				b.click(pathOf(f[0], f[1]))
				b.live(f[0], f[1])
				b.js(fmt.Sprintf(`document.querySelector('#%s details.ran').open = true`, f[0]), nil)
			}
			var found struct {
				Violations []string
				Shift      float64
				Cookie     string
			}
			b.js(`({ Violations: probe.violations, Shift: probe.shift, Cookie: document.cookie })`, &found)
			if len(found.Violations) > 0 || found.Cookie != "" {
				t.Errorf("%+v", found)
			}
		})
	}
}

// TestProbes checks that the probes of TestConsole see what they are for.
func TestProbes(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.open(course.Hub)
	b.js(`document.body.insertAdjacentHTML('beforeend', '<p style="color: red">x</p>')`, nil)
	b.js(`document.head.append(Object.assign(document.createElement('script'), { src: 'https://evil.test/x.js' }))`, nil)
	b.js(`console.error('told'); dispatchEvent(new ErrorEvent('error')); queueMicrotask(() => { throw new Error('thrown'); })`, nil)
	b.wait("the policy is seen", `probe.violations.length >= 2`)
	b.js(`document.querySelector('.page-head').insertAdjacentHTML('beforebegin', '<p>x</p><p>x</p>')`, nil)
	b.wait("the shift is seen", `probe.shift > 0`)
	course.Eventually(t, patience, "the browser tells", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		text := strings.Join(b.problems, "\n")
		return strings.Contains(text, "told") && strings.Contains(text, "thrown") && strings.Contains(text, "Content Security Policy")
	})
	b.mu.Lock()
	b.problems = nil
	b.mu.Unlock()
	b.allow("") // what still comes
}

// TestCopy copies a run as lines for a shell, and a script as it runs.
func TestCopy(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.openClipboard()
	b.open(course.Hub)
	b.scrollTo("#race")
	b.click(pathOf("race", "b"))
	b.live("race", "b")
	b.js(`document.querySelector('#race details.ran').open = true`, nil)
	b.scrollTo("#race [data-copy]")
	b.click("#race [data-copy]")
	b.wait("the button says so", `document.querySelector('#race [data-copy]').textContent === 'Copied'`)
	var text, script string
	b.js(`navigator.clipboard.readText()`, &text)
	for _, want := range []string{"valkey-cli", "SET resource:lock a-7c1e NX PX 30000", "SET resource:lock b-03fd NX PX 30000"} {
		if !strings.Contains(text, want) {
			t.Errorf("copied is %q, without %q", text, want)
		}
	}
	b.scrollTo(".body > section .listing [data-copy], .body .listing [data-copy]")
	b.click(".body .listing [data-copy]")
	b.wait("the button says so", `document.querySelector('.body .listing [data-copy]').textContent === 'Copied'`)
	b.js(`navigator.clipboard.readText()`, &script)
	source, err := fs.ReadFile(lua.FS(), "release.lua")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(script) != strings.TrimSpace(string(source)) {
		t.Errorf("the listing copies as %q, the script is %q", script, source)
	}
}
