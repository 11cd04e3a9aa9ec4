package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"

	"lockstep/tests/course"
)

// dive3 has the figures whose leases drain; job is one of them, and takes three
// quarters of a second.
const (
	dive3 = course.Hub + "/lease-renewal"
	job   = "long-job"
)

// timedPath is a path in real time that is soon over.
const timedFigure, timedPath = "contention", "locked"

// inTime chooses a path in real time until this machine has kept its times: while
// it is busy it says that it was late.
func (b *tab) inTime(figure, path string) (s shown) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		runs := len(b.gate.seen())
		b.click(pathOf(figure, path))
		course.Eventually(b.t, patience, "the run has come to the server", func() bool { return len(b.gate.seen()) > runs })
		b.await(figure+"."+path+" has run", fmt.Sprintf(`(() => { const s = probe.figure(%q); return s.lit === 'live' && !s.busy && s; })()`, figure), &s)
		if s.Status != "late" {
			return s
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("for %v this machine was too busy for %s.%s: %+v", patience, figure, path, s)
		}
	}
}

// TestTimed chooses a path in real time: it is not run by pointing at it, is
// drawn while it goes on, and ends in a verdict that is announced once.
func TestTimed(t *testing.T) {
	b := openTab(t, desktop)
	b.open(course.Hub)
	var timed bool
	if b.js(fmt.Sprintf(`!!document.querySelector(%q)?.dataset.timed`, pathOf(timedFigure, timedPath)), &timed); !timed {
		t.Skip("the hub has no such path")
	}
	b.scrollTo("#" + timedFigure)
	b.point(timedFigure, timedPath)
	b.recorded(timedFigure, timedPath)
	b.click(pathOf(timedFigure, timedPath))
	b.leave() // it was chosen, and goes on
	b.live(timedFigure, timedPath)
	b.wait("it is announced", `probe.announced.length > 0`)
	var announced []string
	if b.js(`probe.announced`, &announced); len(announced) != 1 {
		t.Errorf("announced is %q", announced)
	}
	b.ran(timedFigure + "." + timedPath)
}

// TestTimedGivenUp stops a path in real time with Escape, and by leaving the page.
func TestTimedGivenUp(t *testing.T) {
	b := openTab(t, desktop)
	b.open(course.Hub)
	release := b.gate.hold(timedFigure + "." + timedPath)
	defer release()
	b.click(pathOf(timedFigure, timedPath))
	course.Eventually(t, patience, "the run has come to the server", func() bool { return len(b.gate.seen()) == 1 })
	b.key(kb.Escape)
	b.idle(timedFigure)
	course.Eventually(t, patience, "the run is given up", func() bool { return len(b.gate.leavers()) == 1 })
	b.click(pathOf(timedFigure, timedPath))
	course.Eventually(t, patience, "the run has come to the server", func() bool { return len(b.gate.seen()) == 2 })
	b.open("/")
	// A page that the browser keeps for the way back would keep its run for a minute.
	course.Eventually(t, patience/6, "the run is given up", func() bool { return len(b.gate.leavers()) == 2 })
}

// TestTimedDrawing watches a run being drawn, unless the reader wants no motion:
// then the finished picture appears at its end.
func TestTimedDrawing(t *testing.T) {
	for _, motion := range []string{"no-preference", "reduce"} {
		t.Run(motion, func(t *testing.T) {
			b := openTab(t, desktop)
			b.prefer("prefers-reduced-motion", motion)
			b.open(dive3)
			b.js(fmt.Sprintf(`window.pictures = new Set(); new MutationObserver(() => {
				const timed = document.querySelector('#%[1]s .timed');
				if (timed.classList.contains('timed-live')) pictures.add(timed.querySelector('[data-track="key"]').outerHTML);
			}).observe(document.getElementById('%[1]s'), { subtree: true, childList: true })`, job), nil)
			b.inTime(job, "none")
			var found struct{ Pictures, Leases, Live, Announced int }
			look := func() {
				b.js(fmt.Sprintf(`({
					Pictures: pictures.size, Live: document.querySelectorAll('.timed-live').length,
					Leases: document.querySelectorAll('#%s [data-track="key"] .leases path').length, Announced: probe.announced.length,
				})`, job), &found)
			}
			for look(); motion != "reduce" && found.Pictures < 3 && len(b.gate.seen()) < 20; look() { // a busy browser skips some
				b.inTime(job, "none")
			}
			if found.Live != 0 || found.Leases != 2 || found.Announced > len(b.gate.seen()) {
				t.Errorf("the finished picture: %+v", found)
			}
			if drawn := found.Pictures >= 3; drawn != (motion != "reduce") {
				t.Errorf("while it ran, %d pictures of the lease were drawn", found.Pictures)
			}
		})
	}
}

// TestTimedScrub goes through a finished run with keys.
func TestTimedScrub(t *testing.T) {
	b := openTab(t, desktop)
	b.open(dive3)
	b.inTime(job, "none")
	type moment struct {
		At, Held, Value string
		Later           int
	}
	at := func(key string) (m moment) {
		b.js(fmt.Sprintf(`document.querySelector('#%s .timed-range').focus()`, job), nil)
		b.key(key)
		b.js(fmt.Sprintf(`(() => { const f = document.getElementById(%q); const say = (n) => f.querySelector('[data-now="' + n + '"]').textContent;
			return { At: say('at'), Held: say('held'), Later: f.querySelectorAll('.moments .later').length, Value: f.querySelector('.timed-range').ariaValueText }; })()`, job), &m)
		return m
	}
	if m := at(kb.Home); m.At != "0 ms" || m.Later < 5 || !strings.HasPrefix(m.Value, "at 0 ms") {
		t.Errorf("at its beginning the run is %+v", m)
	}
	for range 4 { // a tenth of the run each
		at(kb.PageUp)
	}
	if m := at(kb.PageDown); m.Held != "held by A, at work" || m.Later == 0 || !strings.Contains(m.Value, "ms left") {
		t.Errorf("at three tenths it is %+v", m)
	}
	if m := at(kb.End); m.Held != "held by B, who asks" || m.Later != 0 {
		t.Errorf("at its end it is %+v", m)
	}
}

// TestTimedNoScript follows the link of a path in real time: the page waits for
// the run and shows it finished.
func TestTimedNoScript(t *testing.T) {
	b := openTab(t, desktop)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(dive3)
	b.click(pathOf(job, "none"))
	var found struct {
		Status, Says  string
		Leases, Moves int
	}
	for deadline := time.Now().Add(patience); ; b.open(dive3 + "?run=" + job + ".none") {
		b.wait("the link leads to the run", `location.search === '?run=long-job.none' && document.readyState === 'complete'`)
		b.js(fmt.Sprintf(`({
			Status: document.querySelector('#%[1]s').dataset.status,
			Says: document.querySelector('#%[1]s .says .on .say-text').textContent,
			Leases: document.querySelectorAll('#%[1]s [data-track="key"] .leases path').length,
			Moves: document.querySelectorAll('#%[1]s .moments tbody tr').length,
		})`, job), &found)
		if found.Status != "late" || time.Now().After(deadline) {
			break
		}
	}
	if !strings.HasPrefix(found.Says, "A's lease lapses") || found.Leases != 2 || found.Moves < 5 {
		t.Errorf("without scripts the run is %+v", found)
	}
}
