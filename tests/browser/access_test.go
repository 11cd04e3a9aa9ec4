package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"lockstep/content"
	"lockstep/figures"
	"lockstep/handlers"
	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// judge is a tab with axe-core in it.
type judge struct {
	*tab
	source string
}

// newJudge opens a tab on a site. Where axe-core can't be had the test is skipped.
func newJudge(t *testing.T, site http.Handler) *judge {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(programs.NPM(t, "axe-core", "4.11.0"), "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	b := openTabOn(t, site, desktop)
	b.allow("/nope", "Failed to load resource")
	return &judge{b, string(source) + kinds}
}

// kinds sorts the texts within a part of the page: two are of a kind where all
// that axe-core computes a contrast from is the same. It takes milliseconds for
// each text and seconds for a page, and the course has some thirty kinds.
const kinds = `; window.kindsIn = (within) => {
	const known = new Map([[null, '']]);
	const ground = (el) => {
		if (known.has(el)) return known.get(el);
		const s = getComputedStyle(el);
		const placed = s.position === 'static' ? '' : el.tagName + '.' + el.getAttribute('class');
		const own = '/' + [s.backgroundColor, s.backgroundImage, s.opacity, s.filter, s.mixBlendMode, placed].join();
		const under = ground(el.parentElement);
		known.set(el, under.endsWith(own) ? under : under + own);
		return known.get(el);
	};
	const kinds = window.kinds = new Map();
	for (const root of document.querySelectorAll(within)) for (const el of [root, ...root.querySelectorAll('*')]) {
		if (!el.checkVisibility() || !(el.placeholder || [...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))) continue;
		const s = getComputedStyle(el);
		const size = parseFloat(s.fontSize), bold = parseFloat(s.fontWeight) >= 700;
		const large = size >= 24 || bold && size * 0.75 >= 14; // as WCAG says
		const kind = [s.color, s.fill, large, s.textShadow, !!el.closest(':disabled, [aria-disabled="true"]'), ground(el)].join();
		if (!kinds.has(kind)) kinds.set(kind, el);
	}
	return [...kinds.keys()];
};`

// judged are the kinds of text whose contrast was judged, in whichever test.
var judged sync.Map

// violations are what axe-core finds within a part of the page: in kinds of text
// that are new, and if it is to be judged whole in all the rest.
func (j *judge) violations(within string, whole bool) (found []string) {
	j.t.Helper()
	var loaded bool
	if j.js(`!!window.axe`, &loaded); !loaded {
		j.js(j.source+"; 0", nil)
	}
	run := func(include, options string) {
		var more []string
		j.js(fmt.Sprintf(`axe.run({ include: %s }, { resultTypes: ['violations'], %s }).then((r) => r.violations.flatMap((v) =>
			v.nodes.map((n) => v.id + ': ' + n.target.join(' ') + ': ' + n.failureSummary.replace(/\s+/g, ' ') + ' ' + n.html.slice(0, 150))))`, include, options), &more)
		found = append(found, more...)
	}
	part, _ := json.Marshal([]string{within})
	if whole {
		run(string(part), `rules: { 'color-contrast': { enabled: false } }`)
	} else {
		run(string(part), `runOnly: ['link-in-text-block']`)
	}
	var all, fresh []string
	j.js(fmt.Sprintf(`kindsIn(%q)`, within), &all)
	for _, kind := range all {
		if _, known := judged.LoadOrStore(kind, true); !known {
			fresh = append(fresh, kind)
		}
	}
	if len(fresh) > 0 {
		list, _ := json.Marshal(fresh)
		run(fmt.Sprintf(`%s.map((kind) => kinds.get(kind))`, list), `runOnly: ['color-contrast']`)
	}
	return found
}

// looks are the ways in which each state is looked at. What doesn't depend on
// colours is judged once a window.
var looks = []struct {
	window size
	scheme string
	whole  bool
}{{desktop, "light", true}, {desktop, "dark", false}, {phone, "dark", true}, {phone, "light", false}}

// check wants no violation within a part of the page, in every look.
func (j *judge) check(within, state string) {
	j.t.Helper()
	for _, look := range looks {
		j.resize(look.window)
		// Colours that are still on their way would be judged as they are now.
		j.prefer("prefers-color-scheme", look.scheme, "prefers-reduced-motion", "reduce")
		j.wait("nothing moves", `document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getComputedTiming().iterations === Infinity)`)
		found := j.violations(within, look.whole)
		for i, v := range found {
			if i == 5 {
				j.t.Errorf("%s, %d px, %s: and %d more", state, look.window.width, look.scheme, len(found)-i)
				break
			}
			j.t.Errorf("%s, %d px, %s: %s", state, look.window.width, look.scheme, v)
		}
	}
}

// TestAccessPages has axe-core judge every page as it comes.
func TestAccessPages(t *testing.T) {
	t.Parallel()
	for _, address := range pages(t) {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			j := newJudge(t, course.Visit(t).Handler)
			j.open(address)
			j.check("html", address)
		})
	}
}

// TestAccessFigures has axe-core judge every figure in its states: recorded,
// busy, live with each kind of verdict, and in trouble.
func TestAccessFigures(t *testing.T) {
	t.Parallel()
	s := course.Visit(t)
	for _, p := range s.Course.Pages {
		if len(p.Figures) > 0 {
			t.Run(p.URL, func(t *testing.T) {
				t.Parallel()
				newJudge(t, s.Handler).figures(p)
			})
		}
	}
}

// figures checks the figures of a page, all of them in each state.
func (j *judge) figures(p *content.Page) {
	j.open(p.URL)
	click := func(figure, path string) {
		j.js(fmt.Sprintf(`document.querySelector(%q).click()`, pathOf(figure, path)), nil)
	}
	done := func(figure string) {
		j.wait(figure+" has an answer", fmt.Sprintf(`(() => { const s = probe.figure(%q); return s.lit && !s.busy; })()`, figure))
	}
	j.gate.answer(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	for _, fig := range p.Figures {
		click(fig.ID, fig.Paths[0].ID)
		done(fig.ID)
	}
	j.check("figure", "in trouble")

	wait := make(chan struct{})
	j.gate.answer(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-wait:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	first := p.Figures[0]
	click(first.ID, first.Paths[0].ID)
	j.check("#"+first.ID, "busy")
	close(wait)
	done(first.ID)
	j.gate.answer(nil)

	// One path of each kind of verdict, as far as a figure has it.
	for round := 0; ; round++ {
		var ran []string
		for _, fig := range p.Figures {
			if kinds := kindsOf(j.t, fig); round < len(kinds) {
				click(fig.ID, kinds[round])
				done(fig.ID)
				j.js(fmt.Sprintf(`document.querySelector('#%s details.ran').open = true`, fig.ID), nil)
				ran = append(ran, "#"+fig.ID)
			}
		}
		if len(ran) == 0 {
			break
		}
		j.check(strings.Join(ran, ", "), fmt.Sprintf("live, round %d", round+1))
	}
}

// kindsOf are paths of a figure, one for each status that a run of it may have.
func kindsOf(t *testing.T, fig *figures.Figure) (paths []string) {
	seen := map[figures.Status]bool{}
	for _, p := range course.Paths(t) {
		if p.Figure == fig && !seen[p.Status] {
			seen[p.Status] = true
			paths = append(paths, p.ID)
		}
	}
	return paths
}

// TestAccessGallery has axe-core judge the page of all states of a figure.
func TestAccessGallery(t *testing.T) {
	t.Parallel()
	s := course.Open(t, course.Setup{Settings: handlers.Settings{Gallery: true}})
	j := newJudge(t, s.Handler)
	j.open("/gallery")
	j.check("html", "gallery")
	var found struct {
		IDs    []string
		Wide   []string
		Styled int
	}
	j.js(`(() => {
		const ids = [...document.querySelectorAll('[id]')].map((el) => el.id);
		return {
			IDs: ids.filter((id, i) => ids.indexOf(id) !== i),
			Wide: document.scrollingElement.scrollWidth > innerWidth ? ['the page'] : [],
			Styled: document.querySelectorAll('[style], style').length,
		};
	})()`, &found)
	if len(found.IDs) > 0 || found.Styled > 0 || len(found.Wide) > 0 {
		t.Errorf("the gallery at %d px: ids twice %q, inline styles %d, too wide %q", phone.width, found.IDs, found.Styled, found.Wide)
	}
}

// TestAxe checks that axe-core sees what it is there for, also in the last of
// many texts that differ in nothing but their colour or what they stand on.
func TestAxe(t *testing.T) {
	t.Parallel()
	j := newJudge(t, course.Visit(t).Handler)
	j.open(course.Hub)
	for _, tt := range []struct{ html, want string }{
		{`<img src="/x.png">`, "image-alt"},
		{`<button></button>`, "button-name"},
		{`<p id="pale">pale</p>`, "color-contrast"},
		{`<div id="grey"><p>Some words</p></div>`, "color-contrast"},
		{`<div id="faint"><div><p>Some words</p></div></div>`, "color-contrast"},
	} {
		j.js(fmt.Sprintf(`(() => {
			const sheet = new CSSStyleSheet();
			sheet.replaceSync('#pale { color: #ddd } #grey { background: #777 } #faint { opacity: 0.3 }');
			document.adoptedStyleSheets = [sheet];
			document.querySelector('#tried')?.remove();
			document.querySelector('main').insertAdjacentHTML('beforeend', '<section id="tried">' + %q + '</section>');
		})()`, tt.html), nil)
		whole := tt.want != "color-contrast"
		if found := j.violations("html", whole); len(found) != 1 || !strings.HasPrefix(found[0], tt.want+": ") {
			t.Errorf("%s: axe-core finds %q", tt.html, found)
		}
	}
}

// TestTabOrder goes through a page with Tab alone: each group of paths is one
// stop, each stop can be seen and shows its focus, the order is that of the page,
// and there is a way out at the end.
func TestTabOrder(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.prefer("prefers-reduced-motion", "reduce")
	b.open(course.Hub)
	type stop struct {
		Name, Group     string
		Visible, Marked bool
		Top             float64
	}
	b.js(`probe.stop = () => {
		const el = document.activeElement;
		if (!el || el === document.body || el === document.documentElement) return { Name: '' };
		const r = el.getBoundingClientRect();
		const marked = [el, ...el.querySelectorAll('*')].some((e) => {
			const s = getComputedStyle(e);
			return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1;
		});
		return {
			Name: el.outerHTML.slice(0, 90), Group: el.closest('.paths') ? el.closest('figure').id : '',
			Visible: r.width > 0 && r.height > 0 && r.bottom > 0 && r.top < innerHeight, Marked: marked,
			Top: r.top + scrollY,
		};
	}`, nil)
	groups := map[string]int{}
	var stops []stop
	for {
		b.key(kb.Tab)
		var s stop
		b.js(`probe.stop()`, &s)
		if s.Name == "" {
			break
		}
		if stops = append(stops, s); len(stops) > 400 {
			t.Fatal("Tab never leaves the page")
		}
		if s.Group != "" {
			groups[s.Group]++
		}
		if !s.Visible {
			t.Errorf("stop %d is not on the screen: %s", len(stops), s.Name)
		}
		if !s.Marked {
			t.Errorf("stop %d does not show its focus: %s", len(stops), s.Name)
		}
	}
	if len(stops) < 10 || !strings.Contains(stops[0].Name, "skip") {
		t.Errorf("Tab leads through %d stops, from %+v", len(stops), stops[:min(1, len(stops))])
	}
	if groups["race"] != 1 || groups["every-order"] != 1 {
		t.Errorf("stops in the groups of paths: %v, want one each", groups)
	}
	t.Logf("%d stops", len(stops))
}

// TestSkip follows the first link of a page to its content.
func TestSkip(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.open(course.Hub)
	b.key(kb.Tab, kb.Enter)
	var at string
	b.js(`document.activeElement.id`, &at)
	if at != "main" {
		t.Errorf("the first link leads to %q", at)
	}
}

// TestLargeText doubles the size of all text: nothing is cut off and nothing
// scrolls sideways.
func TestLargeText(t *testing.T) {
	t.Parallel()
	b := openTab(t, size{1280, 900})
	b.allow("/nope")
	for _, address := range pages(t) {
		b.open(address)
		b.js(`document.documentElement.style.fontSize = '200%'`, nil)
		var wide float64
		var cut []string
		b.js(`document.scrollingElement.scrollWidth`, &wide)
		b.js(`[...document.querySelectorAll('.path-label, .say-text, .caption-title, .key-name, .tag, button, h1, h2')].filter((el) => {
			const s = getComputedStyle(el);
			return el.checkVisibility() && !el.closest('.visually-hidden, .skip') && (s.overflow === 'hidden' || s.overflow === 'clip') && (el.scrollWidth > el.clientWidth + 1 || el.scrollHeight > el.clientHeight + 1) && !el.title;
		}).map((el) => el.outerHTML.slice(0, 90)).slice(0, 5)`, &cut)
		if wide > 1280 || len(cut) > 0 {
			t.Errorf("%s: %.0f px wide, cut off: %q", address, wide, cut)
		}
	}
}

// TestForcedColours draws a page in the reader's own colours: the lit path and
// the verdict can still be told from the rest.
func TestForcedColours(t *testing.T) {
	t.Parallel()
	b := openTab(t, desktop)
	b.prefer("forced-colors", "active")
	b.open(course.Hub)
	b.click(pathOf("race", "b"))
	b.live("race", "b")
	var found struct {
		Words, Marks int
		Lit, Other   string
	}
	b.js(`(() => {
		const edge = (path) => { const s = getComputedStyle(document.querySelector('#race a.path[data-path=' + path + '] .path-box')); return [s.outline, s.border, s.backgroundColor].join(' '); };
		const on = document.querySelector('#race .say.on');
		return { Words: on.querySelector('.tag').textContent.trim().length, Marks: on.querySelectorAll('.tag svg').length, Lit: edge('b'), Other: edge('a') };
	})()`, &found)
	if found.Words == 0 || found.Marks == 0 || found.Lit == found.Other {
		t.Errorf("in forced colours: %+v", found)
	}
}
