package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"lockstep/tests/course"
)

// TestTapWords: what tells readers to point tells those who touch to tap.
func TestTapWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		window size
		touch  bool
		want   string
		not    string
	}{
		{"pointer", desktop, false, "Point at", "Tap"},
		{"touch", phone, true, "Tap", "Point at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := openTab(t, c.window)
			if c.touch {
				b.touch(true)
			}
			b.open(course.Hub)
			b.js(`document.querySelector('#race .ran').open = true`, nil)
			var texts []string
			b.js(`[...document.querySelectorAll('#race .say-idle, #race .ran-none')].map((el) => el.innerText)`, &texts)
			if len(texts) != 2 {
				t.Fatalf("the figure says %q", texts)
			}
			for _, text := range texts {
				if !strings.Contains(text, c.want+" a ") || strings.Contains(text, c.not) {
					t.Errorf("the figure says %q", text)
				}
			}
		})
	}
}

// TestTimedChart points at another path than the one whose chart stands.
func TestTimedChart(t *testing.T) {
	b := openTab(t, desktop)
	b.open(course.Hub)
	whose := func() (text string) {
		b.js(`document.querySelector('#contention .timed-title').innerText`, &text)
		return text
	}
	b.click(pathOf(timedFigure, timedPath))
	b.leave()
	b.live(timedFigure, timedPath)
	if text := whose(); strings.Contains(text, "still") {
		t.Errorf("under its own verdict the chart says %q", text)
	}
	b.scrollTo(pathOf(timedFigure, "one-command"))
	b.point(timedFigure, "one-command")
	b.recorded(timedFigure, "one-command")
	var label string
	b.js(`document.querySelector('#contention a.path[data-path="locked"] .path-label').innerText`, &label)
	if text := whose(); !strings.HasPrefix(text, "still the run of") || !strings.Contains(text, label) {
		t.Errorf("under the verdict of another path the chart says %q", text)
	}
}

// TestExplorerOnAPhone explores on a phone: from the verdict to the end of the
// timeline it is no more than one and a half screens.
func TestExplorerOnAPhone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ page, figure, path string }{
		{dive2, orders, "blind-del"},
		{dive2, orders, "token-checked"},
		{course.Hub, "every-order", "without-nx"},
	} {
		t.Run(c.figure+"."+c.path, func(t *testing.T) {
			t.Parallel()
			b := openTab(t, phone)
			b.touch(true)
			b.open(c.page)
			b.tap(pathOf(c.figure, c.path))
			b.live(c.figure, c.path)
			b.wait("the map is laid out", fmt.Sprintf(`document.querySelectorAll('#%s .orders-map .cell').length > 0`, c.figure))
			first, last := b.box("#"+c.figure+" .readout"), b.box("#"+c.figure+` [data-part="timeline"]`)
			if high := last.Y + last.Height - first.Y; high > 1.5*float64(phone.height) {
				t.Errorf("verdict, map and timeline are %.0f px high, more than one and a half screens of %d", high, phone.height)
			}
			var wide int
			if b.js(`document.scrollingElement.scrollWidth - innerWidth`, &wide); wide > 0 {
				t.Errorf("the page is %d px too wide", wide)
			}
		})
	}
}

// TestSequence steps through a run by buttons and with keys. The module for it
// comes when what ran is unfolded.
func TestSequence(t *testing.T) {
	t.Parallel()
	b := openTab(t, phone)
	b.touch(true)
	b.open(dive2)
	b.tap(pathOf("lost-lock", "blind-del"))
	b.live("lost-lock", "blind-del")
	fetched := `performance.getEntriesByType('resource').some((r) => r.name.includes('/sequence.') && r.name.endsWith('.js'))`
	var early bool
	if b.js(fetched, &early); early {
		t.Error("the module came before it was needed")
	}
	b.tap("#lost-lock .ran > summary")
	b.wait("the module has come, and its sheet", fetched+` && document.querySelector('#lost-lock .seq').checkVisibility()`)
	at := func(now, later int) {
		t.Helper()
		b.wait(fmt.Sprintf("step %d is shown, and %d are to come", now, later), fmt.Sprintf(`(() => {
			const rows = [...document.querySelectorAll('#lost-lock .seq-run > .seq-row')];
			return rows.findIndex((row) => row.matches('.seq-now')) === %d && rows.filter((row) => row.matches('.seq-later')).length === %d;
		})()`, now-1, later))
	}
	at(0, 0)
	b.wait("forward begins the run", `(() => { document.querySelector('#lost-lock [data-step="1"]').click(); return document.querySelector('#lost-lock .seq-now'); })()`)
	at(1, 2)
	b.tap(`#lost-lock [data-step="1"]`)
	at(2, 1)
	b.tap(`#lost-lock [data-step="-1"]`)
	at(1, 2)
	b.js(`document.querySelector('#lost-lock .seq-range').focus()`, nil)
	b.key(kb.ArrowRight)
	at(2, 1)
	b.key(kb.ArrowLeft)
	at(1, 2)
	var says string
	b.js(`document.querySelector('#lost-lock .seq-range').ariaValueText`, &says)
	if !strings.HasPrefix(says, "step 1 of 3, client A: DEL resource:lock → (integer) 1") {
		t.Errorf("the slider says %q", says)
	}
}
