package card

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// wordsOf are the texts of a selection, a blank between any two elements.
func wordsOf(s *goquery.Selection) string {
	var all []string
	var walk func(_ int, s *goquery.Selection)
	walk = func(_ int, s *goquery.Selection) {
		if goquery.NodeName(s) == "#text" {
			all = append(all, strings.Fields(s.Text())...)
		}
		s.Contents().Each(walk)
	}
	s.Each(walk)
	return strings.Join(all, " ")
}

var valkey = sandbox.Engine{Name: "valkey", Version: "8.0.1", Mode: sandbox.Managed}

// decode reads the plan of a map as the page's script does.
func decode(t *testing.T, text string) []figures.Cell {
	t.Helper()
	var plan struct {
		Moves []string
		Cells string
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^(\d+)(\D*?):(\w+)(?:/(\d+)/(\d+))?$`)
	var cells []figures.Cell
	var moves []string
	for _, code := range strings.Split(plan.Cells, " ") {
		m := form.FindStringSubmatch(code)
		if m == nil {
			t.Fatalf("code %q", code)
		}
		same, _ := strconv.Atoi(m[1])
		moves = slices.Clone(moves[:same])
		for _, r := range m[2] {
			n := int(r - 'a')
			if r >= 0x100 {
				n = int(r - 0x100)
			}
			moves = append(moves, plan.Moves[n])
		}
		bits, _ := strconv.ParseUint(m[3], 36, 32)
		c := figures.Cell{Schedule: strings.Join(moves, "."), Schedules: 1, Breaks: uint32(bits)}
		if m[5] != "" {
			c.Broken, _ = strconv.Atoi(m[4])
			c.Schedules, _ = strconv.Atoi(m[5])
		} else if bits != 0 {
			c.Broken = 1
		}
		cells = append(cells, c)
	}
	return cells
}

func TestMapPlan(t *testing.T) {
	two := scheduling("f", 3, "resource:lock", "exclusion", "newest")
	eight := scheduling("f", 8, "resource:lock", "exclusion")
	dotted := scheduling("f", 2, "emq:{a.b}:lock", "exclusion")
	for _, p := range dotted.Paths {
		p.Events = append(p.Events, figures.Event{Does: figures.Lapse{Key: expr.Plain("a.b")}, Name: "lapse:a.b", Times: 1}, figures.Event{Does: figures.Lapse{Key: expr.Plain("a")}, Name: "lapse:a", Times: 1})
	}
	withKey := sampleMap(dotted, 12, valkey)
	for i := range withKey.Explored.Cells {
		c := &withKey.Explored.Cells[i]
		c.Schedule = "A.lapse:a.b.lapse:a." + c.Schedule
	}
	many := scheduling("f", 30, "k", "exclusion")
	for i, g := range many.Paths[0].Programs {
		many.Paths[0].Programs[i].Actor = "W" + strconv.Itoa(i+1)
		_ = g
	}
	for _, test := range []struct {
		name string
		f    *figures.Figure
		r    *figures.Result
	}{
		{"324 cells", two, sampleMap(two, 324, valkey)},
		{"1500 cells", eight, sampleMap(eight, 1500, valkey)},
		{"one cell", two, sampleMap(two, 1, valkey)},
		{"shared beginnings", eight, sampleShared(eight, 900, valkey)},
		{"keys with dots", dotted, withKey},
		{"more than 26 moves", many, sampleMap(many, 700, valkey)},
	} {
		t.Run(test.name, func(t *testing.T) {
			doc := render(t, Verdict(test.f, test.r))
			plan, ok := doc.Find(".orders-map").Attr("data-plan")
			if !ok {
				t.Fatal("no plan")
			}
			got := decode(t, plan)
			if len(got) != len(test.r.Explored.Cells) {
				t.Fatalf("%d cells, want %d", len(got), len(test.r.Explored.Cells))
			}
			for i, want := range test.r.Explored.Cells {
				want.Condition, want.Group = 0, 0
				if got[i] != want {
					t.Fatalf("cell %d is %+v, want %+v", i, got[i], want)
				}
			}
		})
	}
}

// TestFragmentWeight: what a pointer fetches when it rests on a path stays
// light, however many schedules there are.
func TestFragmentWeight(t *testing.T) {
	f := scheduling("every-release", 4, "resource:lock", "exclusion", "newest")
	for name, r := range map[string]*figures.Result{
		"324":    sampleMap(f, 324, valkey),
		"1500":   sampleMap(f, 1500, valkey),
		"shared": sampleShared(f, 1500, valkey),
		"one":    samplePicked(f, valkey),
	} {
		var b strings.Builder
		if err := Verdict(f, r).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, b.Len())
		if b.Len() > 40_000 {
			t.Errorf("the fragment of %s is %d bytes", name, b.Len())
		}
		if strings.Contains(b.String(), "<noscript") || strings.Contains(b.String(), " style=") || strings.Contains(b.String(), "<script") {
			t.Errorf("the fragment of %s has what a fragment can do without", name)
		}
	}
}

// TestMapRows: rows are beginnings, in the order of the contract, as long in one
// path of a figure as in the others.
func TestMapRows(t *testing.T) {
	f := scheduling("f", 3, "resource:lock", "exclusion")
	blind, checked := sampleMap(f, 324, valkey), sampleMap(f, 270, valkey)
	alone := newOrderMap(f.Paths[0], blind.Explored, nil)
	if n := len(alone.groups); n > maxGroups || n < 2 {
		t.Errorf("%d rows", n)
	}
	known := map[string]*figures.Explored{f.Paths[0].ID: blind.Explored, f.Paths[1].ID: checked.Explored}
	a, b := newOrderMap(f.Paths[0], blind.Explored, known), newOrderMap(f.Paths[1], checked.Explored, known)
	if a.depth != b.depth || len(a.groups) != len(b.groups) {
		t.Fatalf("rows differ: %d and %d", len(a.groups), len(b.groups))
	}
	cells := 0
	for i, g := range a.groups {
		if g.Label != b.groups[i].Label || g.Room != b.groups[i].Room {
			t.Errorf("row %d is %q with room for %d, and %q with room for %d", i, g.Label, g.Room, b.groups[i].Label, b.groups[i].Room)
		}
		if g.Room < len(g.Cells) || g.Room < len(b.groups[i].Cells) {
			t.Errorf("row %q has room for %d only", g.Label, g.Room)
		}
		for _, c := range g.Cells {
			cells++
			if c.Schedule != g.Label && !strings.HasPrefix(c.Schedule, g.Label+".") {
				t.Errorf("%s stands in row %s", c.Schedule, g.Label)
			}
			if c.Number != cells {
				t.Errorf("%s is number %d, want %d", c.Schedule, c.Number, cells)
			}
		}
	}
	if cells != 324 {
		t.Errorf("%d cells in rows", cells)
	}
}

// TestMapWithoutScript: a whole page has the cells as links, where they aren't
// too many.
func TestMapWithoutScript(t *testing.T) {
	f := scheduling("every-release", 3, "resource:lock", "exclusion")
	r := sampleMap(f, 324, valkey)
	links := func(r *figures.Result) *goquery.Document {
		doc := render(t, Figure(f, Stage{Page: "/gallery", Number: 2, Engine: valkey, Run: Run{Figure: f, Path: f.Paths[0], Result: r}}))
		inner, err := goquery.NewDocumentFromReader(strings.NewReader(doc.Find("noscript").Text()))
		if err != nil {
			t.Fatal(err)
		}
		return inner
	}
	doc := links(r)
	cells := doc.Find("a.cell")
	if cells.Length() != 324 {
		t.Fatalf("%d links", cells.Length())
	}
	first := cells.First()
	if got, want := first.AttrOr("href", ""), "?run=every-release.blind-del&schedule="+r.Explored.Cells[0].Schedule+"#every-release"; got != want {
		t.Errorf("href %s, want %s", got, want)
	}
	for i, c := range r.Explored.Cells {
		name := cells.Eq(i).AttrOr("aria-label", "")
		want := fmt.Sprintf("Schedule %d of 324, %s, breaks nothing", i+1, c.Schedule)
		if c.Broken > 0 {
			want = fmt.Sprintf("Schedule %d of 324, %s, breaks exclusion", i+1, c.Schedule)
		}
		if name != want {
			t.Fatalf("cell is called %q, want %q", name, want)
		}
		if cells.Eq(i).HasClass("cell-kept") == (c.Broken > 0) {
			t.Errorf("%s is marked %q", c.Schedule, cells.Eq(i).AttrOr("class", ""))
		}
	}
	if n := links(sampleMap(f, 401, valkey)).Find("a.cell").Length(); n != 0 {
		t.Errorf("%d links for 401 schedules", n)
	}
	// The page's address with one schedule has the map as well, once it is known.
	picked := samplePicked(f, valkey)
	if n := links(picked).Find("a.cell").Length(); n != 0 {
		t.Errorf("%d links without an exploration", n)
	}
	picked.Known = map[string]*figures.Explored{picked.Path: r.Explored}
	if n := links(picked).Find("a.cell").Length(); n != 324 {
		t.Errorf("%d links beside a schedule", n)
	}
}

func TestSharedNames(t *testing.T) {
	f := scheduling("f", 3, "resource:lock", "exclusion", "newest")
	e := &figures.Explored{Schedules: 1000, Conditions: []string{"exclusion", "newest"}, Cells: []figures.Cell{
		{Schedule: "A.A", Schedules: 324, Broken: 36, Breaks: 3},
		{Schedule: "A.B", Schedules: 1676, Condition: -1},
	}}
	m := newOrderMap(f.Paths[0], e, nil)
	var names []string
	for _, g := range m.groups {
		for _, c := range g.Cells {
			names = append(names, m.name(c))
		}
	}
	want := []string{
		"Beginning 1 of 2, A.A, 36 of 324 schedules break exclusion and newest",
		"Beginning 2 of 2, A.B, none of 1,676 schedules breaks anything",
	}
	if !slices.Equal(names, want) {
		t.Errorf("names are %q", names)
	}
}

func TestExploredWords(t *testing.T) {
	f := scheduling("every-release", 3, "resource:lock", "exclusion")
	p := f.Paths[0]
	say := func(change func(*figures.Explored)) string {
		e := &figures.Explored{Schedules: 324, Total: 324, States: 181, Complete: true, Conditions: []string{"exclusion"},
			Violations: map[string]int{"exclusion": 36}, Counterexamples: map[string]string{"exclusion": "A.lapse.B"},
			Cells: []figures.Cell{{Schedules: 324, Broken: 36}}}
		change(e)
		return wordsOf(render(t, exploredWords(f, p, &figures.Result{Asked: figures.Asked{Path: p.ID}, Exploration: figures.Exploration{Explored: e}})).Find("body"))
	}
	for _, test := range []struct {
		name   string
		change func(*figures.Explored)
		want   string
	}{
		{"all", func(*figures.Explored) {}, "explored 324 of 324 schedules through 181 states exclusion broken in 36 shortest: A.lapse.B 288 break nothing Time is moved by hand: a lapse is a step that makes the server expire the key now; nothing waits."},
		{"none breaks", func(e *figures.Explored) {
			e.Violations, e.Counterexamples, e.Cells[0].Broken = map[string]int{"exclusion": 0}, nil, 0
		}, "explored 324 of 324 schedules through 181 states exclusion holds in every schedule Time is moved by hand: a lapse is a step that makes the server expire the key now; nothing waits."},
		{"cut off", func(e *figures.Explored) { e.Complete, e.Schedules, e.Total = false, 120, 324 }, "cut off: explored 120 of 324 schedules"},
		{"cut off, nobody knows of how many", func(e *figures.Explored) {
			e.Complete, e.Total, e.Violations = false, 0, map[string]int{}
		}, "cut off: explored 324 schedules, and there are more, through 181 states exclusion held in all that ran"},
	} {
		if got := say(test.change); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
	}
	p.Events = nil
	if got := say(func(*figures.Explored) {}); !strings.HasSuffix(got, "Time is moved by hand; nothing waits.") {
		t.Errorf("without a lapse: %s", got)
	}
}

// TestTimeline draws the lost-lock deletion: who is inside when, where two are,
// what the key holds, and which step breaks.
func TestTimeline(t *testing.T) {
	f := scheduling("every-release", 3, "resource:lock", "exclusion")
	r := sampleMap(f, 324, valkey)
	doc := render(t, Verdict(f, r))
	lanes := doc.Find(".shown .lanes")
	if got := wordsOf(lanes.Find(".lane-label")); got != "client A client B client C" {
		t.Errorf("lanes are %q", got)
	}
	columns := lanes.Find(".at:not(.at-start, .at-blank)")
	if columns.Length() != 10 {
		t.Fatalf("%d moments", columns.Length())
	}
	inside := func(lane int) string {
		var b strings.Builder
		columns.Each(func(_ int, s *goquery.Selection) {
			rail := s.Find("i.rail").Eq(lane)
			switch {
			case rail.HasClass("rail-from"):
				b.WriteByte('[')
			case rail.HasClass("rail-to"):
				b.WriteByte(']')
			case rail.HasClass("rail-in"):
				b.WriteByte('=')
			default:
				b.WriteByte('.')
			}
		})
		return b.String()
	}
	for lane, want := range []string{"[]........", "...[==]...", ".....[==]."} {
		if got := inside(lane); got != want {
			t.Errorf("lane %d is %s, want %s", lane, got, want)
		}
	}
	var two, held, short []string
	columns.Each(func(i int, s *goquery.Selection) {
		if s.HasClass("at-two") {
			two = append(two, strconv.Itoa(i+1))
		}
		held = append(held, wordsOf(s.Find(".held")))
		short = append(short, wordsOf(s.Find(".at-short, .at-reply, .at-mark")))
	})
	if got := strings.Join(two, " "); got != "6 7" {
		t.Errorf("two are inside at %s", got)
	}
	if got := strings.Join(held, "|"); got != `"A"||none|"B"|none|"C"||none||` {
		t.Errorf("the key holds %s", got)
	}
	if got := strings.Join(short, "|"); got != "SET → OK|works|lapse|SET → OK|DEL → 1|SET → OK|works|DEL → 1|works|DEL → 0" {
		t.Errorf("steps are %s", got)
	}
	if got := wordsOf(columns.Find(".at-clash")); got != "two inside" {
		t.Errorf("the overlap says %q", got)
	}
	breaks := lanes.Find(".at-breaks")
	if breaks.Length() != 1 || wordsOf(breaks.Find(".at-number")) != "6" || wordsOf(breaks.Find(".at-broken")) != "breaks exclusion" {
		t.Errorf("the breaking step is %q", wordsOf(breaks))
	}
	if got := wordsOf(doc.Find(".shown-says")); !strings.HasPrefix(got, "Step 6 breaks exclusion: client C is answered OK") {
		t.Errorf("it says %q", got)
	}
	if got := wordsOf(doc.Find(".shown-head b")); got != "The shortest schedule that breaks exclusion" {
		t.Errorf("it is called %q", got)
	}
	label := lanes.AttrOr("aria-label", "")
	for _, want := range []string{"10 steps of client A, client B and client C", "Client B is inside from step 4 to 7.", "More than one is inside from step 6 to 7.", "Step 3: the lease of resource:lock lapsed.", "Step 6 breaks exclusion."} {
		if !strings.Contains(label, want) {
			t.Errorf("in words it lacks %q: %s", want, label)
		}
	}
	// Its table is in the same figure, and named.
	page := render(t, Figure(f, Stage{Page: "/gallery", Number: 1, Engine: valkey, Run: Run{Figure: f, Path: f.Paths[0], Result: r}}))
	id := page.Find(".shown .lanes").AttrOr("aria-details", "")
	if page.Find(`[id="`+id+`"] table`).Length() == 0 {
		t.Errorf("no table at %q", id)
	}
}

func TestTimelineOfHardRuns(t *testing.T) {
	eight := scheduling("f", 8, "emq:{orders:europe:priority}:job:JOB01JQ8Z3T5V6W7X8Y9Z0:lock", "exclusion")
	r := sampleMap(eight, 60, valkey)
	doc := render(t, Verdict(eight, r))
	lanes := doc.Find(".shown .lanes")
	if !lanes.HasClass("lanes-down") {
		t.Error("a path of 25 transitions stands side by side")
	}
	if n := lanes.Find(".at:not(.at-start)").First().Find("i.rail").Length(); n != 8 {
		t.Errorf("%d lanes", n)
	}
	if got := wordsOf(lanes.Find(".at-long").First()); got != "SET emq:{orders:europe:priority}:job:JOB01JQ8Z3T5V6W7X8Y9Z0:lock A NX PX 30000" {
		t.Errorf("the command reads %q", got)
	}

	crash := scheduling("f", 2, "resource:lock", "mortal")
	r = sampleReplay(crash, valkey)
	r.Trace = []figures.Entry{r.Trace[0], {Phase: figures.PhaseSteps, Actor: "A", Event: "crash A", Key: r.Trace[0].Key, Breaks: []string{"mortal"}}, r.Trace[3]}
	doc = render(t, Verdict(crash, r))
	at := doc.Find(".lanes .at:not(.at-start)")
	if !at.Eq(1).HasClass("at-crash") || wordsOf(at.Eq(1).Find(".at-mark")) != "crash" {
		t.Errorf("the crash is %q", wordsOf(at.Eq(1)))
	}
	if rail := at.Eq(1).Find("i.rail").First(); !rail.HasClass("rail-to") || rail.Find("svg").Length() != 1 {
		t.Error("A's lane doesn't end with the crash")
	}
	if rail := at.Eq(2).Find("i.rail").First(); !rail.HasClass("rail-gone") || rail.HasClass("rail-in") {
		t.Error("A's lane goes on after the crash")
	}

	// Who is still inside at the end isn't shown as having left.
	r = samplePicked(crash, valkey)
	doc = render(t, Verdict(crash, r))
	if last := doc.Find(".lanes .at:not(.at-start, .at-blank)").Last().Find("i.rail").Eq(1); !last.HasClass("rail-in") || last.HasClass("rail-to") {
		t.Errorf("B's lane ends as %q", last.AttrOr("class", ""))
	}

	// Nothing has happened yet.
	r = samplePicked(crash, valkey)
	r.Trace, r.Schedule = nil, &figures.Replay{}
	if doc := render(t, Verdict(crash, r)); doc.Find(".shown .lanes").Length() != 0 || wordsOf(doc.Find(".shown-head")) != "Nothing has happened yet" {
		t.Errorf("the start shows %q", wordsOf(doc.Find(".shown")))
	}
}

func TestScheduler(t *testing.T) {
	f := scheduling("every-release", 3, "resource:lock", "exclusion")
	p := f.Paths[0]
	known := sampleMap(f, 324, valkey).Explored

	idle := render(t, Figure(f, Stage{Page: "/gallery", Number: 1, Engine: valkey})).Find(".scheduler")
	if got := hrefs(idle.Find("a.pick")); !slices.Equal(got, []string{"?run=every-release.blind-del&schedule=#every-release", "?run=every-release.token-checked&schedule=#every-release"}) {
		t.Errorf("one may start at %q", got)
	}

	r := samplePicked(f, valkey)
	s := render(t, Verdict(f, r)).Find(".scheduler")
	if got, want := hrefs(s.Find("a.pick")), []string{
		"?run=every-release.blind-del&schedule=A.A.lapse.B.A.C.B#every-release",
		"?run=every-release.blind-del&schedule=A.A.lapse.B.A.C.C#every-release",
	}; !slices.Equal(got, want) {
		t.Errorf("next are %q", got)
	}
	if got := wordsOf(s.Find("a.pick")); got != "client B works client C works" {
		t.Errorf("they are called %q", got)
	}
	if got := wordsOf(s.Find(".pick-not")); got != "client A at its end lapse not now" {
		t.Errorf("what can't happen: %q", got)
	}
	if got := hrefs(s.Find(`a[data-pick="undo"], a[data-pick="over"], a[data-pick="all"]`)); !slices.Equal(got, []string{
		"?run=every-release.blind-del&schedule=A.A.lapse.B.A#every-release",
		"?run=every-release.blind-del&schedule=#every-release",
		"?run=every-release.blind-del#every-release",
	}) {
		t.Errorf("back leads to %q", got)
	}
	if got := wordsOf(s.Find(".effects")); got != `resource:lock no key → "C" inside client B and client C exclusion broken at step 6` {
		t.Errorf("the effect is %q", got)
	}
	if got := s.Find(".picked a").Length(); got != 6 {
		t.Errorf("%d picks", got)
	}

	for schedule, want := range map[string]string{
		"":            "4 schedules go on from here; 2 of them break something.",
		"A":           "2 schedules go on from here; all of them break something.",
		"AB":          "1 schedule goes on from here; none breaks anything.",
		"A.B.lapse":   "1 schedule goes on from here; it breaks something.",
		"A.B.lapse.C": "", // more than the map knows
	} {
		r := samplePicked(f, valkey)
		r.Schedule.Schedule = schedule
		r.Known = map[string]*figures.Explored{p.ID: {Complete: true, Cells: []figures.Cell{
			{Schedule: "A.B.lapse", Schedules: 1, Broken: 1}, {Schedule: "A.C.lapse", Schedules: 1, Broken: 1}, {Schedule: "AB.C", Schedules: 1}, {Schedule: "B", Schedules: 1},
		}}}
		if got := goesOn(p, r); got != want {
			t.Errorf("after %q: %s", schedule, got)
		}
	}

	for _, test := range []struct {
		name   string
		change func(*figures.Result)
		want   string
	}{
		{"as early as can be", func(*figures.Result) {}, "You broke exclusion. It took you 6 transitions, and no order does it sooner."},
		{"late", func(r *figures.Result) { r.Schedule.Earliest = 4 }, "You broke exclusion. It took you 6 transitions; it can be done with 4."},
		{"nobody knows", func(r *figures.Result) { r.Schedule.Earliest, r.Schedule.Shortest = 0, 0 }, "You broke exclusion."},
		{"complete and long", func(r *figures.Result) { r.Schedule.Complete, r.Schedule.Steps = true, 12 }, "You broke exclusion. Yours: 12 transitions; the shortest: 10."},
		{"complete and short", func(r *figures.Result) { r.Schedule.Complete, r.Schedule.Steps = true, 10 }, "You broke exclusion. Yours: 10 transitions, and none is shorter."},
		{"nothing broken", func(r *figures.Result) { r.Schedule.Broken = nil }, "Find an order that breaks exclusion."},
		{"nothing broken, at the end", func(r *figures.Result) { r.Schedule.Broken, r.Schedule.Complete = nil, true }, "This one breaks nothing."},
		{"nothing can break", func(r *figures.Result) {
			r.Schedule.Broken = nil
			e := *known
			e.Cells, e.Schedules = []figures.Cell{{Schedule: "A", Schedules: 270}}, 270
			r.Known = map[string]*figures.Explored{p.ID: &e}
		}, "No order breaks anything: all 270 were run."},
	} {
		r := samplePicked(f, valkey)
		test.change(r)
		if got := found(p, r, r.Schedule); got != test.want {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

func hrefs(s *goquery.Selection) []string {
	return s.Map(func(_ int, s *goquery.Selection) string { return s.AttrOr("href", "") })
}

// TestReplayKeepsMap: one schedule's fragment brings neither map nor words, so
// that those of its path stay.
func TestReplayKeepsMap(t *testing.T) {
	f := scheduling("every-release", 3, "resource:lock", "exclusion")
	parts := func(r *figures.Result) []string {
		names := map[string]bool{}
		render(t, Verdict(f, r)).Find("[data-part]").Each(func(_ int, s *goquery.Selection) { names[s.AttrOr("data-part", "")] = true })
		return slices.Sorted(maps.Keys(names))
	}
	if got, want := parts(samplePicked(f, valkey)), []string{"key", "ran", "readout", "scheduler", "timeline", "wire"}; !slices.Equal(got, want) {
		t.Errorf("a schedule brings %q", got)
	}
	if got, want := parts(sampleMap(f, 44, valkey)), []string{"explored", "key", "map", "ran", "readout", "scheduler", "timeline", "wire"}; !slices.Equal(got, want) {
		t.Errorf("an exploration brings %q", got)
	}
}
