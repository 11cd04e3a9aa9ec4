package browser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/chromedp/cdproto/emulation"

	"lockstep/tests/course"
)

const (
	dive2  = course.Hub + "/fencing-tokens"
	orders = "every-release" // a figure of it: 324 orders, of which 36 break
)

// cellOf selects the cell of a schedule.
func cellOf(figure, schedule string) string {
	return fmt.Sprintf(`#%s .orders-map .cell[data-schedule=%q]`, figure, schedule)
}

// explored runs all schedules of the figure, and leaves the pointer elsewhere.
func explored(b *tab, path string) {
	b.t.Helper()
	b.open(dive2)
	b.click(pathOf(orders, path))
	b.live(orders, path)
	b.scrollTo("#" + orders + " .orders-map")
	b.leave()
}

// alone waits until one schedule stands below the map.
func (b *tab) alone(schedule string) {
	b.t.Helper()
	b.wait("the schedule "+schedule+" stands below the map", fmt.Sprintf(
		`document.querySelector('#%s [data-part="timeline"]').dataset.schedule === %q`, orders, schedule))
}

const shortest = "A.A.lapse.B.A.C.B.B.C.C"

// TestMap points at cells of the map: the schedule rested on runs alone, those
// passed over don't, and the map goes on telling of all.
func TestMap(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	explored(b, "blind-del")
	var found struct {
		Cells, Broken, Stops int
		Distinct             int
	}
	b.js(`(() => {
		const cells = [...document.querySelectorAll('#every-release .orders-map .cell')];
		return {
			Cells: cells.length, Broken: cells.filter((c) => 'broken' in c.dataset).length, Stops: cells.filter((c) => c.tabIndex === 0).length,
			Distinct: new Set(cells.map((c) => c.dataset.schedule)).size,
		};
	})()`, &found)
	if found.Cells != 324 || found.Broken != 36 || found.Distinct != 324 || found.Stops != 1 {
		t.Errorf("the map is %+v", found)
	}
	b.ran(orders + ".blind-del")
	// Past four, and on to the broken one.
	var passed []string
	b.js(`[...document.querySelectorAll('#every-release .orders-map .cell:not([data-broken])')].slice(0, 4).map((c) => c.dataset.schedule)`, &passed)
	top := b.box("#" + orders + " .orders-map")
	for _, schedule := range append(passed, shortest) {
		at := b.box(cellOf(orders, schedule))
		b.mouse(at.X+at.Width/2, at.Y+at.Height/2)
		b.advance(50 * time.Millisecond)
	}
	b.advance(rest)
	b.alone(shortest)
	b.ran(orders+".blind-del", orders+".blind-del")
	s := b.live(orders, "blind-del")
	if !strings.HasPrefix(s.Text, "324 orders. In 36 of them") {
		t.Errorf("the readout says %q", s.Text)
	}
	if now := b.box("#" + orders + " .orders-map"); now != top {
		t.Errorf("the map moved from %+v to %+v", top, now)
	}
	var shown struct{ Name, Says, Selected string }
	b.js(`({
		Name: document.querySelector('#every-release [data-part=timeline] .lanes').ariaLabel,
		Says: document.querySelector('#every-release .shown-says').textContent.trim(),
		Selected: document.querySelector('#every-release .cell[aria-selected=true]').dataset.schedule,
	})`, &shown)
	if shown.Selected != shortest || !strings.Contains(shown.Says, "exclusion") || len(shown.Name) < 40 {
		t.Errorf("below the map stands %+v", shown)
	}
	// Leaving gives the shortest counterexample back, or keeps the last: no run.
	b.leave()
	b.advance(rest)
	b.ran(orders+".blind-del", orders+".blind-del")
}

// TestMapVariants goes from a broken variant to a sound one: the map stays where
// it is, and the red goes.
func TestMapVariants(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	explored(b, "blind-del")
	b.scrollTo(pathOf(orders, "token-checked"))
	before := b.box("#" + orders + " .orders-map")
	b.js(fmt.Sprintf(`document.querySelector(%q).click()`, pathOf(orders, "token-checked")), nil)
	b.live(orders, "token-checked")
	var found struct{ Cells, Broken int }
	b.js(`({ Cells: document.querySelectorAll('#every-release .orders-map .cell').length, Broken: document.querySelectorAll('#every-release .orders-map .cell[data-broken]').length })`, &found)
	if found.Cells != 270 || found.Broken != 0 {
		t.Errorf("the map is %+v", found)
	}
	if after := b.box("#" + orders + " .orders-map"); after.X != before.X || after.Y != before.Y {
		t.Errorf("the map moved from %+v to %+v", before, after)
	}
}

// TestMapDense explores more schedules than there is room for cells: the map is
// of beginnings, and still shows where the broken ones are.
func TestMapDense(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.open(course.Hub)
	b.click(pathOf("every-order", "without-nx"))
	b.live("every-order", "without-nx")
	var found struct{ Cells, Broken, Wide int }
	b.js(`({ Cells: document.querySelectorAll('#every-order .orders-map .cell').length, Broken: document.querySelectorAll('#every-order .orders-map .cell[data-broken]').length,
		Wide: document.scrollingElement.scrollWidth - innerWidth })`, &found)
	if found.Cells == 0 || found.Cells > 1500 || found.Broken == 0 || found.Wide > 0 {
		t.Errorf("the map of 2520 schedules is %+v", found)
	}
}

// TestMapKeys goes over the map with keys: one stop, arrows move, n and p find
// the broken ones, Enter keeps one.
func TestMapKeys(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop, stoppedClock)
	explored(b, "blind-del")
	b.js(`[...document.querySelectorAll('#every-release .orders-steps button')].at(-1).focus()`, nil)
	b.key(kb.Tab)
	at := func() (schedule string) {
		b.js(`document.activeElement.closest('.orders-map .cell')?.dataset.schedule ?? ''`, &schedule)
		return schedule
	}
	var all, broken []string
	b.js(`[...document.querySelectorAll('#every-release .orders-map .cell')].map((c) => c.dataset.schedule)`, &all)
	b.js(`[...document.querySelectorAll('#every-release .orders-map .cell[data-broken]')].map((c) => c.dataset.schedule)`, &broken)
	start := slices.Index(all, at())
	if start < 0 {
		t.Fatalf("Tab leads to %q", at())
	}
	b.key(kb.ArrowRight)
	if got, want := at(), all[start+1]; got != want {
		t.Errorf("ArrowRight leads to %s, want %s", got, want)
	}
	b.key(kb.ArrowLeft)
	if got, want := at(), all[start]; got != want {
		t.Errorf("ArrowLeft leads to %s, want %s", got, want)
	}
	b.key(kb.Home)
	if got := at(); got != all[0] {
		t.Errorf("Home leads to %s, want %s", got, all[0])
	}
	b.key(kb.ArrowUp, kb.ArrowLeft) // there is nothing before
	if got := at(); got != all[0] {
		t.Errorf("ArrowUp leads to %s, want %s", got, all[0])
	}
	b.key("n")
	if got := at(); got != broken[0] {
		t.Errorf("n leads to %s, want %s", got, broken[0])
	}
	b.key("n")
	if got := at(); got != broken[1] {
		t.Errorf("a second n leads to %s, want %s", got, broken[1])
	}
	b.key("p")
	if got := at(); got != broken[0] {
		t.Errorf("p leads to %s, want %s", got, broken[0])
	}
	b.ran(orders + ".blind-del") // the clock stands: nothing was rested on
	b.key("n")
	b.advance(rest)
	b.alone(broken[1])
	b.ran(orders+".blind-del", orders+".blind-del")
	b.key(kb.Enter)
	b.wait("the address names the schedule", `new URL(location).searchParams.get('schedule') !== null`)
	var address string
	b.js(`new URL(location).searchParams.get('schedule')`, &address)
	if address != broken[1] || at() != broken[1] {
		t.Errorf("Enter leads to %s, and the focus to %s; want %s", address, at(), broken[1])
	}
	// A Tab leaves the map.
	b.key(kb.Tab)
	if got := at(); got != "" {
		t.Errorf("Tab goes on inside the map, to %s", got)
	}
	b.alone(broken[1])
	// Outside the figure the keys are the reader's own.
	b.js(`document.querySelector('.brand').focus()`, nil)
	b.key("n", "p")
	b.js(`document.activeElement.className`, &address)
	if address != "brand" {
		t.Errorf("n moves the focus to %q", address)
	}
}

// TestMapTap taps at the map: the cell there, or near, is run once and kept.
func TestMapTap(t *testing.T) {
	t.Parallel()
	b := openTab(t, phone, stoppedClock)
	b.touch(true)
	b.open(dive2)
	b.tap(pathOf(orders, "blind-del"))
	b.live(orders, "blind-del")
	b.tap(cellOf(orders, shortest))
	b.alone(shortest)
	b.advance(rest)
	b.ran(orders+".blind-del", orders+".blind-del")
	b.alone(shortest)
}

// TestScheduler picks who moves next until the promise breaks, goes back, and
// starts over.
func TestScheduler(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	explored(b, "blind-del")
	part := "#" + orders + " .scheduler "
	says := func() (text string) {
		b.js(fmt.Sprintf(`document.querySelector('#%s .scheduler').textContent.replace(/\s+/g, ' ')`, orders), &text)
		return text
	}
	address := func(schedule string) {
		t.Helper()
		b.wait("the address ends in "+schedule, fmt.Sprintf(`new URL(location).searchParams.get('schedule') === %q`, schedule))
		b.alone(schedule)
	}
	b.click(part + `a[data-pick="start"]`)
	address("")
	for i, move := range []string{"A", "A", "lapse", "B", "A", "C"} {
		b.click(part + fmt.Sprintf(`a.pick[data-pick=%q]`, move))
		address(strings.Join(strings.Split("A.A.lapse.B.A.C", ".")[:i+1], "."))
		if text := says(); i < 5 && !strings.Contains(text, "holds so far") {
			t.Errorf("after %d steps the scheduler says %q", i+1, text)
		}
	}
	if text := says(); !strings.Contains(text, "step 6") && !strings.Contains(text, "Step 6") || strings.Contains(text, "holds so far") {
		t.Errorf("at the end the scheduler says %q", text)
	}
	b.click(part + `a[data-pick="undo"]`)
	address("A.A.lapse.B.A")
	if text := says(); !strings.Contains(text, "holds so far") {
		t.Errorf("after undo the scheduler says %q", text)
	}
	b.click(part + `a[data-pick="over"]`)
	address("")
	// With keys: a pick takes the focus on to the next.
	b.js(fmt.Sprintf(`document.querySelector('%sa.pick[data-pick="B"]').focus()`, part), nil)
	b.key(kb.Enter)
	address("B")
	var inside bool
	b.js(`!!document.activeElement.closest('.scheduler')`, &inside)
	if !inside {
		t.Error("after a pick the focus has left the scheduler")
	}
	// The same address shows somebody else the same.
	b.open(dive2 + "?run=" + orders + ".blind-del&schedule=A.A.lapse.B.A.C#" + orders)
	b.alone("A.A.lapse.B.A.C")
	if text := says(); !strings.Contains(strings.ToLower(text), "step 6") {
		t.Errorf("opened anew the scheduler says %q", text)
	}
	b.wait("the map has come", `document.querySelectorAll('#every-release .orders-map .cell').length === 324`)
}

// TestSchedulerNoScript breaks the promise without JavaScript: each pick is a link,
// and so is each cell of the map.
func TestSchedulerNoScript(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(dive2)
	follow := func(selector, want string) {
		t.Helper()
		b.click(selector)
		b.wait("the link leads to "+want, fmt.Sprintf(`location.search === %q && document.readyState === 'complete'`, want))
	}
	run := "?run=" + orders + ".blind-del"
	part := "#" + orders + " .scheduler "
	follow(part+`a[data-pick="start"]`, run+"&schedule=")
	for i, move := range []string{"A", "A", "lapse", "B", "A", "C"} {
		follow(part+fmt.Sprintf(`a.pick[data-pick=%q]`, move), run+"&schedule="+strings.Join(strings.Split("A.A.lapse.B.A.C", ".")[:i+1], "."))
	}
	var text string
	b.js(fmt.Sprintf(`document.querySelector('#%s .says .on .say-text').textContent`, orders), &text)
	if !strings.HasPrefix(text, "Step 6 breaks exclusion") {
		t.Errorf("at the end the page says %q", text)
	}
	follow(part+`a[data-pick="undo"]`, run+"&schedule=A.A.lapse.B.A")
	follow(part+`a[data-pick="all"]`, run)
	var cells int
	b.js(fmt.Sprintf(`document.querySelectorAll('#%s .orders .cell[href]').length`, orders), &cells)
	if cells != 324 {
		t.Errorf("without scripts the map has %d cells, want 324", cells)
	}
	follow(fmt.Sprintf(`#%s .orders .cell[href*="schedule=%s#"]`, orders, shortest), run+"&schedule="+shortest)
}
