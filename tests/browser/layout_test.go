package browser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"lockstep/tests/course"
)

// TestNoShift hovers through a figure and looks for anything that moves.
func TestNoShift(t *testing.T) {
	t.Parallel()
	for _, window := range []size{desktop, phone} {
		t.Run(fmt.Sprint(window.width), func(t *testing.T) {
			t.Parallel()
			b := openTab(t, window)
			b.open(course.Hub)
			b.scrollTo("#race .paths")
			// A page may be drawn before all of it has come; that is no matter of
			// figures.
			b.js(`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => { probe.shift = 0; probe.shifted = []; drawn(0); })))`, nil)
			figure, under := b.box("#race"), b.box(".grounding")
			for _, path := range []string{"a", "b", "crash-with-px", "crash-without-px", "all-at-once"} {
				b.scrollTo(pathOf("race", path))
				b.point("race", path)
				b.live("race", path)
			}
			b.leave()
			b.scrollTo("#race .paths")
			if now := b.box("#race"); now.Height != figure.Height {
				t.Errorf("the figure grew from %.1f to %.1f px", figure.Height, now.Height)
			}
			if now := b.box(".grounding"); now.Y != under.Y {
				t.Errorf("what stands under the figure moved from %.1f to %.1f", under.Y, now.Y)
			}
			var found struct {
				Shift   float64
				Shifted []string
			}
			b.js(`({ Shift: probe.shift, Shifted: probe.shifted })`, &found)
			if found.Shift >= 0.0005 { // 0.000 to those who measure pages
				t.Errorf("layout shift is %v: %s", found.Shift, strings.Join(found.Shifted, "\n"))
			}
		})
	}
}

// pages are the addresses of all pages, and one that isn't there.
func pages(t *testing.T) []string {
	all := []string{"/", "/nope"}
	for _, p := range course.Visit(t).Course.Pages {
		if p.URL != "/" {
			all = append(all, p.URL)
		}
	}
	return all
}

// TestReducedMotion asks for less motion: nothing moves, and nothing is lost.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.prefer("prefers-reduced-motion", "reduce")
	b.open(course.Hub)
	still := func(when string) {
		t.Helper()
		var moving []string
		b.js(`document.getAnimations().map((a) => (a.animationName ?? a.transitionProperty) + ' ' + a.effect?.target?.className?.toString())`, &moving)
		var animated int
		b.js(`document.querySelectorAll('animate, animateMotion, animateTransform, set, marquee').length`, &animated)
		if len(moving) > 0 || animated > 0 {
			t.Errorf("%s: %q move, %d elements are animated", when, moving, animated)
		}
	}
	still("loaded")
	release := b.gate.hold("race.b")
	defer release()
	b.scrollTo("#race")
	b.point("race", "b")
	b.recorded("race", "b")
	still("recorded")
	b.wait("the run is under way", `probe.figure('race').busy`)
	still("busy")
	release()
	b.live("race", "b")
	still("live")
	b.click(pathOf("every-order", "without-nx"))
	b.live("every-order", "without-nx")
	still("explored")
	var smooth string
	b.js(`getComputedStyle(document.documentElement).scrollBehavior`, &smooth)
	if smooth == "smooth" {
		t.Error("anchors still scroll smoothly")
	}
}

// TestNarrow opens every page on a narrow screen, and then on less narrow ones:
// nothing scrolls sideways but what scrolls by itself, and no text is too small.
func TestNarrow(t *testing.T) {
	t.Parallel()
	for _, address := range pages(t) {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			b := openTab(t, size{320, 844})
			b.allow("/nope", "501 (Not Implemented)") // a path for newer servers
			b.open(address)
			b.narrow("idle")
			var figures [][2]string
			b.js(`[...document.querySelectorAll('figure.figure')].map((f) => [f.id, [...f.querySelectorAll('a.path')].at(-1).dataset.path])`, &figures)
			for _, f := range figures {
				b.js(fmt.Sprintf(`document.querySelector('#%s details.ran').open = true; document.querySelector(%q).click()`, f[0], pathOf(f[0], f[1])), nil)
				b.wait(f[0]+" has run", fmt.Sprintf(`(() => { const s = probe.figure(%q); return s.lit && !s.busy; })()`, f[0]))
			}
			b.narrow("run")
		})
	}
}

// narrow looks at the page as it is on narrow screens, from the widest to the
// narrowest.
func (b *tab) narrow(when string) {
	b.t.Helper()
	for _, width := range []int64{390, 360, 320} {
		b.resize(size{width, 844})
		var found struct {
			Wide  float64
			Over  []string
			Small []string
		}
		b.js(`(() => {
			const scrolls = (el) => { for (let p = el; p; p = p.parentElement) { if (/auto|scroll|hidden|clip/.test(getComputedStyle(p).overflowX)) return true; } return false; };
			const name = (el) => el.tagName + '.' + el.getAttribute('class') + ' ' + el.textContent.trim().slice(0, 30);
			const all = [...document.body.querySelectorAll('*')].filter((el) => el.checkVisibility() && !el.closest('.visually-hidden, .skip'));
			const own = (el) => [...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
			return {
				Wide: document.scrollingElement.scrollWidth,
				Over: all.filter((el) => el.getBoundingClientRect().right > innerWidth + 0.5 && !scrolls(el)).map(name).slice(0, 5),
				Small: all.filter((el) => own(el) && parseFloat(getComputedStyle(el).fontSize) < 12).map(name).slice(0, 5),
			};
		})()`, &found)
		if found.Wide > float64(width) || len(found.Over) > 0 {
			b.t.Errorf("%s, %d px: the page is %.0f px wide; over the edge: %q", when, width, found.Wide, found.Over)
		}
		if len(found.Small) > 0 {
			b.t.Errorf("%s, %d px: text under 12 px: %q", when, width, found.Small)
		}
	}
}

// TestHitAreas measures every path: each is large enough for a finger, and is hit
// at its middle and its corners.
func TestHitAreas(t *testing.T) {
	t.Parallel()
	for _, width := range []int64{320, 1360} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			b := openTab(t, size{width, 900})
			for _, p := range course.Visit(t).Course.Pages {
				if len(p.Figures) == 0 {
					continue
				}
				b.open(p.URL)
				var faults []string
				b.js(`[...document.querySelectorAll('a.path')].flatMap((a) => {
					a.scrollIntoView({ block: 'center', behavior: 'instant' });
					const r = a.getBoundingClientRect();
					const name = a.closest('figure').id + '.' + a.dataset.path;
					const faults = [];
					if (r.width < 44 || r.height < 44) faults.push(name + ' is ' + r.width + ' by ' + r.height + ' px');
					for (const x of [3, r.width / 4, r.width / 2, r.width - 3]) for (const y of [2, r.height / 2, r.height - 2]) {
						const hit = document.elementFromPoint(r.x + x, r.y + y);
						if (hit?.closest('a.path') !== a) faults.push(name + ' is not hit at ' + x + ', ' + y + ' but ' + hit?.outerHTML.slice(0, 80));
					}
					return faults;
				})`, &faults)
				for _, f := range faults {
					t.Errorf("%s: %s", p.URL, f)
				}
				// Everything else that acts is large enough, too, or stands in a line of text.
				b.js(`[...document.querySelectorAll('button, summary, .bar a, .turn a, .dives a')].filter((el) => el.checkVisibility()).flatMap((el) => {
					const r = el.getBoundingClientRect();
					return r.width < 24 || r.height < 24 ? [el.outerHTML.slice(0, 80) + ' is ' + r.width + ' by ' + r.height] : [];
				})`, &faults)
				for _, f := range faults {
					t.Errorf("%s: %s", p.URL, f)
				}
			}
		})
	}
}

// TestTheme switches the theme, which is remembered and comes without a flash.
func TestTheme(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.open("/")
	ground := func() (colour string) {
		b.js(`getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.body).backgroundColor`, &colour)
		return colour
	}
	light := ground()
	b.click("[data-theme-switch]") // system, light, dark
	if ground() != light {
		t.Error("the system is light, and light looks different")
	}
	b.click("[data-theme-switch]")
	dark := ground()
	if dark == light {
		t.Error("dark looks like light")
	}
	b.open(course.Hub)
	if ground() != dark {
		t.Error("the choice is not remembered")
	}
	var theme string
	b.js(`document.documentElement.dataset.theme`, &theme)
	if theme != "dark" {
		t.Errorf("the theme is %q", theme)
	}
	b.click("[data-theme-switch]")
	b.prefer("prefers-color-scheme", "dark")
	if ground() != dark {
		t.Error("the system is dark, and the page isn't")
	}
}

// TestPrint lays pages out for paper: recorded verdicts are there, controls are not.
func TestPrint(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.open(course.Hub)
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	var shown struct{ Verdicts, Controls int }
	b.js(`({
		Verdicts: [...document.querySelectorAll('#race .says .say[data-path]')].filter((el) => el.checkVisibility()).length,
		Controls: [...document.querySelectorAll('button, [data-theme-switch], .toc')].filter((el) => el.checkVisibility()).length,
	})`, &shown)
	if shown.Verdicts != 7 || shown.Controls != 0 {
		t.Errorf("printed are %d recorded verdicts of 7, and %d controls", shown.Verdicts, shown.Controls)
	}
}

// TestFirstScreen opens the hub as a reader first sees it: its title, its promise
// and a figure that can be used at once.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	for _, window := range []size{desktop, phone} {
		b := openTab(t, window)
		b.open(course.Hub)
		for _, selector := range []string{"h1", ".lede", "#race .caption", pathOf("race", "a"), pathOf("race", "b")} {
			if at := b.box(selector); at.Y < 0 || at.Y+at.Height > float64(window.height) || at.Height == 0 {
				t.Errorf("%d by %d: %s stands at %.0f to %.0f", window.width, window.height, selector, at.Y, at.Y+at.Height)
			}
		}
	}
}

// TestContents scrolls through a page: the table of contents follows, down and up.
func TestContents(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.open(dive3)
	var hashes []string
	b.js(`[...document.querySelectorAll('.toc a')].map((a) => a.hash)`, &hashes)
	if len(hashes) < 10 {
		t.Fatalf("the table of contents is %q", hashes)
	}
	for _, i := range []int{2, 9, 5, 1} {
		b.js(fmt.Sprintf(`document.getElementById(%q).scrollIntoView({ behavior: 'instant' })`, hashes[i][1:]), nil)
		b.wait(fmt.Sprintf("entry %d is the current one", i), fmt.Sprintf(
			`(() => { const now = [...document.querySelectorAll('.toc a[aria-current]')]; return now.length === 1 && now[0].hash === %q; })()`, hashes[i]))
	}
}

// TestAnchors opens pages at a heading far down: sections above it that were not
// laid out yet don't keep the window from it.
func TestAnchors(t *testing.T) {
	t.Parallel()
	for _, window := range []size{desktop, phone} {
		b := openTab(t, window)
		for _, address := range []string{course.Hub + "#references", course.Hub + "?run=redlock.five#redlock", course.Hub + "/fencing-tokens#sql-fence"} {
			b.open(address)
			b.wait(address+" is in sight", `(() => { const r = document.querySelector(location.hash).getBoundingClientRect(); return r.top > -20 && r.top < innerHeight / 2; })()`)
			// It stays there once all that is near has been laid out.
			b.js(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`, nil)
			var top, height float64
			b.js(`document.querySelector(location.hash).getBoundingClientRect().top`, &top)
			b.js(`innerHeight`, &height)
			if top < -20 || top > height/2 {
				t.Errorf("%s at %d px: the heading ends up at %.0f px", address, window.width, top)
			}
		}
	}
}
