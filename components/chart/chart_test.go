package chart

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/a-h/templ"
	"github.com/google/go-cmp/cmp"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

const testLock = "resource:lock"

// twoWorkers is a figure of two actors with one path in real time.
func twoWorkers(steps ...figures.Step) *figures.Figure {
	f := &figures.Figure{ID: "job", Title: "A job", Resource: testLock, Actors: []figures.Actor{{Name: "A", Label: "worker A"}, {Name: "B", Label: "worker B"}}}
	f.Paths = []*figures.Path{{ID: "p", Label: "a path", Actor: "A", Steps: steps, Sample: &figures.Sample{Every: 25 * time.Millisecond}}}
	return f
}

func sent(actor, command string) figures.Step {
	return figures.Step{Does: figures.Send{Actor: actor, Command: expr.Command{Source: command}}}
}

// A script is a run made by hand: what was sent when, in ms, and what a server
// would have held meanwhile.
type script struct {
	result *figures.Result
	zero   int64 // ms before the path began
}

func render(t *testing.T, c templ.Component) *goquery.Document {
	t.Helper()
	var b strings.Builder
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func newScript() *script {
	const zero = 7
	return &script{zero: zero, result: &figures.Result{Asked: figures.Asked{Figure: "job", Path: "p"}, Judgement: figures.Judgement{Status: figures.Safe, Verdict: "Held."}, Recording: figures.Recording{StepsUS: zero * 1000}, Engine: sandbox.Engine{Name: "valkey", Version: "8.0.1"}}}
}

func (s *script) sent(ms float64, actor, command string, reply any) *script {
	_, isError := reply.(sandbox.Error)
	s.result.Trace = append(s.result.Trace, figures.Entry{AtUS: s.us(ms), Phase: figures.PhaseSteps, Actor: actor, Command: command, Reply: reply, Error: isError})
	return s
}

func (s *script) event(ms float64, actor, event string) *script {
	s.result.Trace = append(s.result.Trace, figures.Entry{AtUS: s.us(ms), Phase: figures.PhaseSteps, Actor: actor, Event: event})
	return s
}

func (s *script) us(ms float64) int64 { return s.zero*1000 + int64(ms*1000) }

// hold samples a key every 25 ms from one moment to another, its lease draining.
func (s *script) hold(from, to float64, token string, ttl int64) *script {
	for ms := from; ms < to; ms += 25 {
		key := figures.KeyState{Type: "string", Text: token, TTL: ttl}
		if ttl >= 0 {
			key.TTL = ttl - int64(ms-from)
		}
		if token == "" {
			key = figures.KeyState{Type: "none", TTL: -2}
		}
		s.result.Samples = append(s.result.Samples, figures.SamplePoint{AtUS: s.us(ms), Key: &key})
	}
	return s
}

func (s *script) chart(f *figures.Figure) *chart { return newChart(f, f.Paths[0], s.result, true) }

const (
	takeA   = "SET resource:lock a NX PX 300"
	takeB   = "SET resource:lock b NX PX 300"
	extendA = "EVAL extend.lua 1 resource:lock a 300"
	freeA   = "EVAL release.lua 1 resource:lock a"
)

// stretches writes what a chart read of the key, in ms: "1-100 a 300".
func stretches(c *chart) []string {
	var all []string
	for _, k := range c.keyed {
		text := fmt.Sprintf("%d-%d %s %d", k.From/1000, k.To/1000, k.State.Text, k.State.TTL)
		if missing(k.State) {
			text = fmt.Sprintf("%d-%d none", k.From/1000, k.To/1000)
		}
		if k.Lapsed {
			text += " lapsed"
		}
		all = append(all, text)
	}
	return all
}

func TestLeaseOfARun(t *testing.T) {
	f := twoWorkers(sent("A", takeA))
	for _, test := range []struct {
		name string
		run  *script
		want []string
	}{
		{"renewed, then released",
			newScript().sent(1, "A", takeA, "OK").hold(2, 100, "a", 299).
				sent(101, "A", extendA, int64(1)).hold(102, 200, "a", 299).
				sent(203, "A", freeA, int64(1)).hold(204, 260, "", 0),
			[]string{"1-101 a 300", "101-203 a 300", "203-254 none"}},
		{"lapsed, and taken again later",
			newScript().sent(1, "A", takeA, "OK").hold(2, 300, "a", 299).hold(302, 400, "", 0).
				sent(400, "B", takeB, "OK").hold(402, 500, "b", 298),
			[]string{"1-301 a 300", "301-400 none lapsed", "400-477 b 300"}},
		{"lapsed and taken again between two samples",
			newScript().sent(1, "A", takeA, "OK").hold(2, 300, "a", 299).
				sent(310, "B", takeB, "OK").hold(312, 400, "b", 298),
			[]string{"1-301 a 300", "301-310 none lapsed", "310-387 b 300"}},
		{"samples that come late are no change",
			newScript().sent(1, "A", takeA, "OK").hold(2, 60, "a", 299).hold(97, 140, "a", 215).hold(160, 200, "a", 141),
			[]string{"1-185 a 300"}},
		{"a refused renewal changes nothing",
			newScript().sent(1, "A", takeA, "OK").hold(2, 60, "a", 299).sent(61, "B", "EVAL extend.lua 1 resource:lock b 300", int64(0)).hold(77, 140, "a", 224),
			[]string{"1-127 a 300"}},
		{"a sample that missed the renewal before it",
			newScript().sent(1, "A", takeA, "OK").hold(2, 100, "a", 299).sent(101, "A", extendA, int64(1)).hold(101.5, 102, "a", 200).hold(126, 180, "a", 275),
			[]string{"1-101 a 300", "101-176 a 300"}},
		{"there before the path began, for ever",
			newScript().hold(3, 60, "x", -1),
			[]string{"0-53 x -1"}},
		{"reading a key doesn't change it",
			newScript().sent(1, "A", takeA, "OK").hold(2, 60, "a", 299).sent(70, "B", "GET resource:lock", "a").hold(77, 100, "a", 224),
			[]string{"1-77 a 300"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, stretches(test.run.chart(f))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// beliefs writes who believes it holds the key, in ms: "A 1-600", "both 320-600".
func beliefs(c *chart) []string {
	var all []string
	for _, t := range c.Tracks {
		for _, h := range t.Holds {
			all = append(all, fmt.Sprintf("%s %d-%d", t.Name, h.From/1000, h.To/1000))
		}
	}
	for _, s := range c.Both {
		all = append(all, fmt.Sprintf("both %d-%d", s.From/1000, s.To/1000))
	}
	return all
}

func TestWhoBelievesToHold(t *testing.T) {
	f := twoWorkers(sent("A", takeA), sent("B", takeB))
	f.Paths[0].Steps = append(f.Paths[0].Steps, figures.Step{Does: figures.Stop{Actor: "A"}})
	for _, test := range []struct {
		name string
		run  *script
		want []string
	}{
		{"a release that comes too late",
			newScript().sent(1, "A", takeA, "OK").sent(320, "B", takeB, "OK").sent(600, "A", freeA, int64(0)).sent(700, "B", "GET x", nil),
			[]string{"A 1-600", "B 320-700", "both 320-600"}},
		{"a renewal that is refused",
			newScript().sent(1, "A", takeA, "OK").sent(100, "A", extendA, int64(1)).sent(400, "A", extendA, int64(0)).sent(500, "B", takeB, "OK"),
			[]string{"A 1-400", "B 500-500"}},
		{"a refused acquire is no belief",
			newScript().sent(1, "A", takeA, "OK").sent(50, "B", takeB, nil).sent(60, "A", freeA, int64(1)),
			[]string{"A 1-60"}},
		{"a crash ends it",
			newScript().sent(1, "A", takeA, "OK").event(80, "A", "crash A").sent(100, "B", takeB, nil),
			[]string{"A 1-80"}},
		{"another's DEL tells the holder nothing",
			newScript().sent(1, "A", takeA, "OK").sent(50, "B", "DEL resource:lock", int64(1)).sent(60, "B", takeB, "OK").sent(90, "A", "GET x", nil),
			[]string{"A 1-90", "B 60-90", "both 60-90"}},
		{"an error reply grants nothing",
			newScript().sent(1, "A", takeA, sandbox.Error("WRONGTYPE no")).sent(50, "B", takeB, "OK"),
			[]string{"B 50-50"}},
		{"another key is another matter",
			newScript().sent(1, "A", "SET other a NX PX 300", "OK").sent(50, "B", takeB, nil),
			nil},
		{"a fence is minted with the lease",
			newScript().sent(1, "A", "EVAL grant.lua 2 resource:lock fence a 300", int64(33)).sent(50, "A", "EVAL fenced_write.lua 1 account 33 v", int64(0)).sent(60, "A", freeA, int64(1)),
			[]string{"A 1-60"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, beliefs(test.run.chart(f))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHowLongAPathTakes(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	at := func(n int, s figures.Step) figures.Step {
		s.Timed, s.At = true, ms(n)
		return s
	}
	every := func(from, to int, s figures.Step) figures.Step {
		s = at(from, s)
		send := s.Does.(figures.Send)
		send.Every, send.Until = ms(100), ms(to)
		s.Does = send
		return s
	}
	retry := func(s figures.Step) figures.Step {
		send := s.Does.(figures.Send)
		send.Retry = &figures.Retry{Every: ms(5), For: ms(2000)}
		s.Does = send
		return s
	}
	for _, test := range []struct {
		name  string
		steps []figures.Step
		want  string
	}{
		{"the last moment", []figures.Step{sent("A", takeA), at(750, sent("A", freeA))}, "0.8 s"},
		{"the last beat", []figures.Step{sent("A", takeA), every(100, 900, sent("A", extendA))}, "0.9 s"},
		{"a wait", []figures.Step{sent("A", takeA), {Does: figures.Wait{For: ms(300)}}}, "0.3 s"},
		{"the lapse of a lease", []figures.Step{sent("A", takeA), {Does: figures.Lapse{Key: expr.Plain(testLock)}}}, "0.3 s"},
		{"retries until the lease ends", []figures.Step{sent("A", takeA), retry(at(20, sent("B", takeB))), sent("B", "SET x 1")}, "0.3 s"},
		{"retries for a lease that was renewed", []figures.Step{sent("A", takeA), every(100, 500, sent("A", extendA)), retry(at(550, sent("B", takeB)))}, "0.8 s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Takes(&figures.Path{Steps: test.steps}); got != test.want {
				t.Errorf("takes %s, want %s", got, test.want)
			}
		})
	}
	if got := Takes(&figures.Path{Loads: []figures.Load{{Clients: 20}, {Clients: 5}}}); got != "a few seconds" {
		t.Errorf("a load takes %s", got)
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		us   int64
		want string
	}{
		{750_000, "0 100 ms 200 ms 300 ms 400 ms 500 ms 600 ms 700 ms"},
		{1_200_000, "0 200 ms 400 ms 600 ms 800 ms 1,000 ms 1,200 ms"},
		{4_000_000, "0 0.5 s 1 s 1.5 s 2 s 2.5 s 3 s 3.5 s 4 s"},
		{10_000_000, "0 1 s 2 s 3 s 4 s 5 s 6 s 7 s 8 s 9 s 10 s"},
		{400, "0 0.1 ms 0.2 ms 0.3 ms 0.4 ms 0.5 ms 0.6 ms 0.7 ms 0.8 ms 0.9 ms 1 ms"},
	} {
		c := &chart{path: &figures.Path{}, fig: &figures.Figure{}, Over: true, run: &figures.Result{Trace: []figures.Entry{{AtUS: test.us, Phase: figures.PhaseSteps}}}}
		c.measure()
		var got []string
		for _, tick := range c.Ticks {
			got = append(got, tick.Text)
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("ticks of %d µs: %s, want %s", test.us, s, test.want)
		}
	}
}

// TestTextsKeepApart puts many texts at random moments and looks whether two
// come to lie over one another, or leave their track, at any width.
func TestTextsKeepApart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"SET → OK", "1", "extend.lua → 1", "paused", "7 × SET → nil", "丢失的锁 → OK", "fenced_write.lua → 0"}
	for range 200 {
		tr := &track{Kind: trackKind(r.IntN(3))}
		c := &chart{Length: 750_000}
		for range r.IntN(25) {
			tr.Texts = append(tr.Texts, &words{At: r.Int64N(c.Length + 1), Text: names[r.IntN(len(names))], Rank: r.IntN(3)})
		}
		tr.arrange(c)
		for i, columns := range widths {
			type place struct {
				line     byte
				from, to float64
			}
			var placed []place
			for _, w := range tr.Texts {
				if w.Spot[i] == "" {
					continue
				}
				at, wide := float64(w.At)/float64(c.Length)*float64(columns), float64(cells(w.Text))
				p := place{w.Spot[i][0], at, at + wide}
				if strings.HasSuffix(w.Spot[i], "e") {
					p.from, p.to = at-wide, at
				}
				if p.from < -1 || p.to > float64(columns)+1 {
					t.Fatalf("%q leaves its track of %d: %v", w.Text, columns, p)
				}
				for _, o := range placed {
					if o.line == p.line && p.from < o.to && o.from < p.to {
						t.Fatalf("two texts lie over one another at %d columns: %v, %v", columns, o, p)
					}
				}
				placed = append(placed, p)
			}
		}
	}
}

// longRun is a run in which every kind of thing happens.
func longRun() (*figures.Figure, *script) {
	f := twoWorkers(sent("A", takeA), sent("B", takeB), figures.Step{Does: figures.Stop{Actor: "A"}})
	f.Paths[0].Steps[1].Timed, f.Paths[0].Steps[1].At = true, 700*time.Millisecond
	f.Paths[0].Sample.Values = []figures.Observation{
		{Name: "lease", Command: expr.Command{Source: "PTTL resource:lock"}},
		{Name: "account", Command: expr.Command{Source: "GET account"}},
	}
	s := newScript()
	s.sent(1, "A", takeA, "OK").hold(2, 100, "a", 299)
	s.sent(101, "A", extendA, int64(1)).hold(102, 400, "a", 299)
	s.event(150, "A", "stop A")
	for i := range 8 {
		s.sent(200+25*float64(i), "B", takeB, nil)
	}
	s.sent(410, "B", takeB, "OK").hold(412, 700, "b", 298)
	s.event(500, "A", "resume A")
	s.event(510, "A", `work: <b>writes & "leaves"</b>`)
	s.sent(520, "A", freeA, int64(0))
	s.event(600, "B", "crash B")
	for i := range s.result.Samples {
		s.result.Samples[i].Values = map[string]any{"lease": int64(1), "account": "A's balance"}
	}
	return f, s
}

func TestPictureOfARun(t *testing.T) {
	f, s := longRun()
	doc := render(t, Picture(f, f.Paths[0], s.result))
	part := doc.Find(`[data-part="timed"]`)
	img := part.Find(`[role="img"]`)
	for _, want := range []string{
		"Worker A believes it holds resource:lock from 1 ms to 520 ms.",
		"Worker A is paused from 150 ms to 500 ms.",
		"Worker B crashes at 600 ms.",
		"The lease lapses at 401 ms.",
		"More than one believes it holds the key from 410 ms to 520 ms.",
	} {
		if label, _ := img.Attr("aria-label"); !strings.Contains(label, want) {
			t.Errorf("the text alternative lacks %q: %s", want, label)
		}
	}
	var tracks []string
	part.Find(".track-name").Each(func(_ int, s *goquery.Selection) {
		tracks = append(tracks, strings.Join(strings.Fields(s.Text()), " "))
	})
	if diff := cmp.Diff([]string{"worker A", "worker B", "resource:lock lease", "account"}, tracks); diff != "" {
		t.Error(diff)
	}
	for selector, want := range map[string]int{
		`[data-track="A"] .hold`: 1, `[data-track="B"] .hold`: 1, `[data-track="A"] .pause`: 1,
		`[data-track="A"] .point.granted`: 2, `[data-track="A"] .point.refused`: 1, `[data-track="A"] .point.work`: 1,
		`[data-track="B"] .point.tries`: 1, `[data-track="B"] .point.crash`: 1,
		`[data-track="key"] .leases path`: 3, `[data-track="key"] .lapse`: 1,
		`[data-track="overlap"] .both`: 1, `[data-track="value:account"] .value-span`: 1,
		`input[type="range"][aria-label]`: 1, `.now-bar[aria-hidden="true"]`: 1,
	} {
		if got := part.Find(selector).Length(); got != want {
			t.Errorf("%s: %d, want %d", selector, got, want)
		}
	}
	if got, _ := part.Find("input").Attr("aria-valuetext"); got != "at 687 ms: held by worker B, 23 ms left, account A's balance" {
		t.Errorf("the slider says %q", got)
	}
	var rows []string
	part.Find(".moments tbody tr").Each(func(_ int, s *goquery.Selection) { rows = append(rows, cellsOf(s)) })
	want := []string{
		"1 worker A SET resource:lock a NX PX 300 → OK held by worker A 300 ms left",
		"101 worker A EVAL extend.lua 1 resource:lock a 300 → 1 held by worker A 300 ms left",
		"150 worker A was paused held by worker A 251 ms left",
		"200 worker B SET resource:lock b NX PX 300 → nil, 8 times until 375 ms held by worker A 201 ms left",
		"401 the lease of resource:lock lapsed no key",
		"410 worker B SET resource:lock b NX PX 300 → OK held by worker B 300 ms left",
		"500 worker A went on held by worker B 210 ms left",
		`510 worker A works: <b>writes & "leaves"</b> held by worker B 200 ms left`,
		"520 worker A EVAL release.lua 1 resource:lock a → 0 held by worker B 190 ms left",
		"600 worker B crashed: its connection was cut held by worker B 110 ms left",
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}
	if n := doc.Find("[style], [onclick], script").Length(); n > 0 {
		t.Errorf("%d elements that the policy of the site forbids", n)
	}
	if n := part.Find("b b, .moments td > b").Length(); n > 0 {
		t.Error("markup of an author's got through")
	}
}

// cellsOf is the text of a table's row, a blank between its cells.
func cellsOf(row *goquery.Selection) string {
	var all []string
	row.Children().Each(func(_ int, s *goquery.Selection) { all = append(all, strings.Fields(s.Text())...) })
	return strings.Join(all, " ")
}

// TestPictureGrows draws a run as it goes on, and compares what the page then
// shows with the picture of the finished run.
func TestPictureGrows(t *testing.T) {
	f, s := longRun()
	whole := s.result
	drawing := NewDrawing(f, f.Paths[0])
	page := map[string]string{}
	frames := 0
	draw := func(known *figures.Result) int {
		var b strings.Builder
		if err := drawing.Changed(t.Context(), &b, known); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), `data-part="timed"`) {
			frames++
			clear(page)
		}
		for _, m := range regexp.MustCompile(`(?s)<(svg|div)[^>]* data-track="([^"]*)"`).FindAllStringSubmatchIndex(b.String(), -1) {
			name := b.String()[m[4]:m[5]]
			page[name] = b.String()[m[0]:]
		}
		return b.Len()
	}
	known := &figures.Result{Recording: figures.Recording{StepsUS: whole.StepsUS}}
	draw(known)
	if draw(known) != 0 {
		t.Error("something is drawn again though nothing has changed")
	}
	samples := whole.Samples
	for _, e := range whole.Trace {
		for len(samples) > 0 && samples[0].AtUS < e.AtUS {
			known.Samples, samples = append(known.Samples, samples[0]), samples[1:]
			draw(known)
		}
		known.Trace = append(known.Trace, e)
		if draw(known) == 0 && !strings.HasPrefix(e.Command, takeB) {
			t.Errorf("%s%s changes nothing", e.Command, e.Event)
		}
	}
	if frames > 3 {
		t.Errorf("the whole picture is drawn %d times", frames)
	}
	if len(page) == 0 {
		t.Fatal("nothing is drawn")
	}
	c := newChart(f, f.Paths[0], whole, false)
	for _, tr := range c.Tracks {
		if tr.Kind != actorTrack {
			continue
		}
		var b strings.Builder
		if err := chartTrack(c, tr).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(page[tr.Name], b.String()) {
			t.Errorf("the track of %s isn't as that of the finished run:\n%s\n%s", tr.Name, page[tr.Name], b.String())
		}
	}
}

func TestLoadsOfARun(t *testing.T) {
	f := &figures.Figure{ID: "crowd", Title: "A crowd"}
	p := &figures.Path{ID: "p", Label: "a crowd", Loads: []figures.Load{{Name: "lock", Clients: 20, Times: 50}, {Name: "script", Clients: 20, Times: 50}}}
	f.Paths = []*figures.Path{p}
	counted := map[string]any{"sent": int64(6681), "took_ms": int64(710), "done": int64(998), "gave_up": int64(2), "longest_ms": int64(503)}
	known := &figures.Result{Asked: figures.Asked{Path: "p"}}
	rows := func(r *figures.Result, over bool) []string {
		doc := render(t, timed(f, p, newChart(f, p, r, over)))
		var all []string
		doc.Find(".loads tbody tr").Each(func(_ int, s *goquery.Selection) { all = append(all, cellsOf(s)) })
		return all
	}
	check := func(got []string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check(rows(nil, false), "lock 20 clients × 50 –", "script 20 clients × 50 –")
	check(rows(known, false), "lock 20 clients × 50 running", "script 20 clients × 50 –")
	known.Trace = []figures.Entry{{AtUS: 710_000, Phase: figures.PhaseSteps, Event: "load lock", Name: "lock", Reply: counted}}
	check(rows(known, false), "lock 20 clients × 50 6,681 1 ×2 rounds gave up 710 ms 1 ×longest wait 503 ms", "script 20 clients × 50 running")
	known.Values = map[string]any{"lock": counted, "script": map[string]any{"sent": int64(1000), "took_ms": int64(37), "done": int64(1000), "gave_up": int64(0), "longest_ms": int64(0)}}
	check(rows(known, true), "lock 20 clients × 50 6,681 6.7 ×2 rounds gave up 710 ms 19 ×longest wait 503 ms", "script 20 clients × 50 1,000 1 × 37 ms 1 ×")
}
