package card

import (
	"slices"
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
)

// maxAcross is how many moments stand side by side. Where a path may have more,
// time runs downwards at any width.
const maxAcross = 14

// A timeline is one schedule laid out in lanes: one for each actor, and one for the
// protected key.
type timeline struct {
	Actors  []string
	Key     string // the protected key; empty where there is none
	Start   figures.KeyState
	Before  string // what it holds before the first moment
	Moments []moment
	Blank   int // moments that other schedules of the path may have more
	spans   []span
}

// A moment is one entry of a run in its place.
type moment struct {
	figures.Entry
	Label string // its number
	Row   int    // the lane of who acted; -1 for none
	Kind  string // command, work, lapse, crash, other
	Rails []rail // of each actor, in order
	Two   bool   // more than one is inside
	First bool   // the first of those in which they are

	Wide     int // moments that its text may take before the lane's next
	Held     string
	Changed  bool // the key holds something else than before
	HeldWide int
}

// A rail is the part of an actor's lane at one moment.
type rail struct {
	In, From, To bool // inside; it begins here; it ends here
	Acts         bool
	Gone         bool // crashed before
}

// A span is a time that an actor, or several, spend inside.
type span struct {
	actors   []string
	from, to int // steps, from 1
}

// newTimeline lays a run out.
func newTimeline(f *figures.Figure, p *figures.Path, r *figures.Result) *timeline {
	t := &timeline{Actors: lanesOf(p)}
	for _, e := range r.Trace {
		if e.Phase == figures.PhaseSteps {
			t.Moments = append(t.Moments, moment{Entry: e})
		}
	}
	if f.Resource != "" && r.Resource != nil {
		t.Key, t.Start = f.Resource, r.Resource.Before
	}
	t.place()
	t.inside()
	t.key()
	t.widths()
	if longest := longest(p); longest <= maxAcross {
		t.Blank = max(0, longest-len(t.Moments))
	}
	return t
}

// lanesOf are the actors that have one.
func lanesOf(p *figures.Path) []string {
	var names []string
	for _, g := range p.Programs {
		names = append(names, g.Actor)
	}
	return names
}

// longest is how many transitions a schedule of a path may have at most.
func longest(p *figures.Path) int {
	n := 0
	for _, g := range p.Programs {
		n += len(g.Steps)
	}
	for _, e := range p.Events {
		if what, _ := e.Words(); what == "lapse" { // a crash saves at least one transition
			n += e.Times
		}
	}
	return n
}

func (t *timeline) place() {
	for i := range t.Moments {
		m := &t.Moments[i]
		m.Row = slices.Index(t.Actors, m.Actor)
		kind, _, _ := strings.Cut(m.Event, " ")
		switch {
		case m.Command != "":
			m.Kind = "command"
		case kind == "lapse", kind == "crash":
			m.Kind = kind
		case strings.TrimSuffix(kind, ":") == "work":
			m.Kind = "work"
		default:
			m.Kind = "other"
		}
		m.Label = strconv.Itoa(i + 1)
	}
}

// inside finds who is inside at each moment. An actor is, from the moment that
// let it in to the one that it left by.
func (t *timeline) inside() {
	gone := map[string]bool{}
	var before []string
	open := map[string]int{}
	for i := range t.Moments {
		m := &t.Moments[i]
		m.Rails = make([]rail, len(t.Actors))
		n := 0
		for j, actor := range t.Actors {
			was, is := slices.Contains(before, actor), slices.Contains(m.Inside, actor)
			m.Rails[j] = rail{In: was || is, From: is && !was, To: was && !is, Acts: m.Row == j, Gone: gone[actor]}
			if m.Rails[j].In {
				n++
			}
			if is && !was {
				open[actor] = i + 1
			}
			if was && !is {
				t.spans = append(t.spans, span{[]string{actor}, open[actor], i + 1})
				delete(open, actor)
			}
		}
		m.Two = n > 1
		m.First = m.Two && (i == 0 || !t.Moments[i-1].Two)
		if m.Kind == "crash" {
			gone[m.Actor] = true
		}
		before = m.Inside
	}
	for j, actor := range t.Actors {
		if from, ok := open[actor]; ok {
			t.spans = append(t.spans, span{[]string{actor}, from, len(t.Moments)})
			t.Moments[len(t.Moments)-1].Rails[j].To = false // still inside
		}
	}
}

// key writes what the protected key holds, where that changes.
func (t *timeline) key() {
	if t.Key == "" {
		return
	}
	last := heldText(t.Start)
	t.Before = last
	for i := range t.Moments {
		m := &t.Moments[i]
		now := last
		if m.Entry.Key != nil {
			now = heldText(*m.Entry.Key)
		}
		m.Held, m.Changed = now, now != last
		last = now
	}
}

// heldText is what a key holds, as short as a lane needs it.
func heldText(k figures.KeyState) string {
	if text := say.Key(k); text != "no key" {
		return text
	}
	return "none"
}

// widths finds how many moments a text may take before it meets another.
func (t *timeline) widths() {
	for i := range t.Moments {
		m := &t.Moments[i]
		m.Wide, m.HeldWide = 1, 1
		for j := i + 1; j < len(t.Moments) && t.Moments[j].Row != m.Row && t.Moments[j].Kind != "crash" && t.Moments[j].Kind != "lapse"; j++ {
			m.Wide++
		}
		for j := i + 1; j < len(t.Moments) && !t.Moments[j].Changed; j++ {
			m.HeldWide++
		}
		m.Wide, m.HeldWide = min(m.Wide, 4), min(m.HeldWide, 8)
	}
}

// down tells whether time runs downwards at any width.
func (t *timeline) down(p *figures.Path) bool {
	return max(len(t.Moments), longest(p)) > maxAcross
}

// text is the timeline in words, for those who don't see it.
func (t *timeline) text(f *figures.Figure, p *figures.Path) string {
	var b strings.Builder
	b.WriteString("Timeline: " + say.Count(len(t.Moments), "step") + " of " + joinAnd(labels(f, t.Actors)) + ".")
	for _, s := range t.spans {
		b.WriteString(" " + say.Sentence(joinAnd(labels(f, s.actors))) + " is inside from step " + strconv.Itoa(s.from) + " to " + strconv.Itoa(s.to) + ".")
	}
	for i := 0; i < len(t.Moments); i++ {
		if !t.Moments[i].Two {
			continue
		}
		from := i
		for i+1 < len(t.Moments) && t.Moments[i+1].Two {
			i++
		}
		b.WriteString(" More than one is inside " + fromTo(from+1, i+1) + ".")
	}
	for _, m := range t.Moments {
		switch m.Kind {
		case "lapse", "crash":
			b.WriteString(" Step " + m.Label + ": " + say.Happened(f, m.Entry) + ".")
		}
		if len(m.Breaks) > 0 {
			b.WriteString(" Step " + m.Label + " breaks " + joinAnd(m.Breaks) + ".")
		}
	}
	b.WriteString(" Every step stands in the table under “What ran”.")
	return b.String()
}

func fromTo(from, to int) string {
	if from == to {
		return "at step " + strconv.Itoa(from)
	}
	return "from step " + strconv.Itoa(from) + " to " + strconv.Itoa(to)
}

func labels(f *figures.Figure, actors []string) []string {
	all := make([]string, len(actors))
	for i, a := range actors {
		all[i] = f.Label(a)
	}
	return all
}

// short is a moment in the few letters that its place has room for.
func (m moment) short() string {
	switch m.Kind {
	case "command":
		return strings.TrimSuffix(say.Command(m.Command), ".lua")
	case "work":
		return "works"
	}
	return ""
}

// whole is a moment in full.
func (m moment) whole(f *figures.Figure) string {
	if m.Command == "" {
		return say.Happened(f, m.Entry)
	}
	return f.Label(m.Actor) + ": " + m.Command + " → " + printReply(m.Reply)
}

// mark is what an event is called across the lanes.
func (m moment) mark() string {
	switch m.Kind {
	case "lapse", "crash":
		return m.Kind
	case "other":
		kind, _, _ := strings.Cut(m.Event, " ")
		return kind
	}
	return ""
}

// classes of a moment: what happened in it.
func (m moment) classes() string {
	names := []string{"at", "at-" + m.Kind}
	if m.Two {
		names = append(names, "at-two")
	}
	if m.Row >= 0 && m.Rails[m.Row].In {
		names = append(names, "at-in")
	}
	if len(m.Breaks) > 0 {
		names = append(names, "at-breaks")
	}
	return strings.Join(names, " ")
}

func (r rail) classes(row int) string {
	names := []string{"rail", rowClass(row)}
	for _, c := range []struct {
		on   bool
		name string
	}{{r.In, "rail-in"}, {r.From, "rail-from"}, {r.To, "rail-to"}, {r.Acts, "rail-acts"}, {r.Gone, "rail-gone"}} {
		if c.on {
			names = append(names, c.name)
		}
	}
	return strings.Join(names, " ")
}

// rowClass puts something into a row of the timeline: 1 has the marks of
// events, 2 the overlaps, then come the lanes, the key, and the numbers.
func rowClass(n int) string { return "row-" + strconv.Itoa(n) }

func laneRow(lane int) int { return 3 + lane }

func (t *timeline) keyRow() int    { return laneRow(len(t.Actors)) }
func (t *timeline) numberRow() int { return t.keyRow() + 1 }

// tableID is the id of what ran in a figure, as a table.
func tableID(f *figures.Figure) string { return f.ID + ".ran" }

// shown is the schedule that a result's trace shows; nil for a single run.
func shown(r *figures.Result) *figures.Replay {
	switch {
	case r == nil:
		return nil
	case r.Schedule != nil:
		return r.Schedule
	case r.Explored != nil:
		return r.Explored.Example
	}
	return nil
}

// shownName says which schedule a timeline shows.
func shownName(r *figures.Result, s *figures.Replay) string {
	e := explorationOf(r)
	if e != nil && s.Schedule != "" {
		for _, name := range e.Conditions {
			if e.Counterexamples[name] == s.Schedule {
				return "The shortest schedule that breaks " + name
			}
		}
	}
	switch {
	case s.Schedule == "":
		return "Nothing has happened yet"
	case r.Explored != nil:
		return "The first schedule"
	case !s.Complete:
		return "A beginning of " + say.Count(s.Steps, "step")
	}
	return "A schedule of " + say.Count(s.Steps, "step")
}

// verdictOf says what a schedule shows, in a sentence.
func verdictOf(p *figures.Path, r *figures.Result, s *figures.Replay) string {
	switch {
	case s.Why != "":
		return s.Why
	case !s.Complete:
		return "Nothing is broken so far."
	case len(p.Always)+len(p.Finally) == 0:
		return "This schedule runs to its end."
	}
	var names []string
	for _, c := range slices.Concat(p.Always, p.Finally) {
		names = append(names, c.Name)
	}
	return "This schedule keeps " + joinAnd(names) + "."
}

func statusOf(s *figures.Replay) figures.Status {
	switch {
	case len(s.Broken) > 0:
		return figures.Broken
	case s.Complete:
		return figures.Safe
	}
	return figures.Unjudged
}
