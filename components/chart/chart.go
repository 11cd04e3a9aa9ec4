// Package chart draws a run in real time on one clock: who did what, how the protected
// key stood with its lease, what was sampled, and what the clients of loads sent.
package chart

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/figures/expr"
)

// A chart is a run in real time on one clock: a track for each actor, one for
// the protected key with its lease, one for each value that was sampled.
//
// Times are microseconds from the start of the path. Everything in it comes
// from the trace and the samples, so a chart of the first half of a run is the
// first half of its chart: this is how a run is drawn while it goes on.
type chart struct {
	fig  *figures.Figure
	path *figures.Path
	run  *figures.Result // nil where nothing ran

	Over   bool  // the run has ended
	End    int64 // what has happened so far
	Length int64 // of the axis
	Zero   int64 // when the path began, on the clock of the entries
	Leased bool  // the protected key has a lease, at least at times
	Full   int64 // ms: the longest lease, the full height of a lease's drawing
	Ticks  []tick
	Tracks []*track
	Both   []stretch // more than one believes it holds the key
	Rows   []row

	keyed   []keyStretch
	holders map[string]string // token -> actor
}

// A track is what one actor did, or what one key or value was.
type track struct {
	Name   string // in the page: an actor's name, "key", "value:NAME"
	Kind   trackKind
	Label  string
	Code   bool // the label is one of a key or a name
	Below  string
	Holds  []stretch
	Pauses []stretch
	Points []point
	Texts  []*words
	Leases []leaseShape
	Lapses []int64
	Values []stretch
	Gone   int64 // when the actor crashed; 0 where it didn't
}

type trackKind int

const (
	actorTrack trackKind = iota
	keyTrack
	valueTrack
)

// A stretch is a span of time.
type stretch struct {
	From, To int64
	Open     bool // still going on at the end
	Text     string
}

// A point is something that happened at one moment, or many equal commands one
// closely after the other.
type point struct {
	From, To int64
	Kind     string // granted, refused, work, crash, tries
	Title    string
}

// A keyStretch is a time in which the protected key stayed as it was, its lease
// draining.
type keyStretch struct {
	From, To int64
	State    figures.KeyState // at From
	Lapsed   bool             // the lease before it ran out
	Cause    *figures.Entry   // what made it so, where that is known
}

// A leaseShape is the drawing of one keyStretch.
type leaseShape struct {
	stretch
	Left0, Left1 int64 // ms at both ends
	Forever      bool
}

// A row is one moment of a run in words.
type row struct {
	At   int64
	Who  string
	What string
	Code bool // What is a command
	Then string
	Held string // how the protected key stands after it
	Left int64  // ms of its lease; -1 none, -2 no key
	More string // what was sampled besides
}

// newChart lays a run out. Where r is nil it is the empty chart of a path.
func newChart(f *figures.Figure, p *figures.Path, r *figures.Result, over bool) *chart {
	c := &chart{fig: f, path: p, run: r, Over: over, holders: map[string]string{}}
	if r != nil {
		c.Zero = r.StepsUS
	}
	c.measure()
	c.tokens()
	c.readKey()
	c.addActors()
	c.addKey()
	c.addValues()
	c.believe()
	for _, t := range c.Tracks {
		t.arrange(c)
	}
	c.tell()
	return c
}

// at is the time of an entry on the path's own clock. What was done before the
// path began counts as its beginning.
func (c *chart) at(us int64) int64 { return max(0, us-c.Zero) }

// stall is the longest time in which nothing was heard of the run, where it is
// too long for a machine that had the time for it; 0 where there is none.
func (c *chart) stall() int64 {
	if c.run == nil || !c.Over {
		return 0
	}
	every := int64(25_000)
	if c.path.Sample != nil {
		every = c.path.Sample.Every.Microseconds()
	}
	worst := int64(0)
	for i := 1; i < len(c.run.Samples); i++ {
		worst = max(worst, c.run.Samples[i].AtUS-c.run.Samples[i-1].AtUS-every)
	}
	if worst < max(100_000, c.Length/10, 2*every) {
		return 0
	}
	return worst
}

func (c *chart) track(name string) *track {
	for _, t := range c.Tracks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// maxShared is up to how many actors all paths of a figure show the same
// tracks, so that one can be compared with the other.
const maxShared = 4

// cast are the actors that have a track.
func (c *chart) cast() []string {
	acting := func(paths []*figures.Path) []string {
		var names []string
		for _, p := range paths {
			for _, s := range p.Steps {
				race, _ := s.Does.(figures.Race)
				for _, step := range append([]figures.Step{s}, race.Steps...) {
					if actor := step.Actor(); actor != "" && !slices.Contains(names, actor) {
						names = append(names, actor)
					}
				}
			}
		}
		place := func(name string) int {
			return slices.IndexFunc(c.fig.Actors, func(a figures.Actor) bool { return a.Name == name })
		}
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(uint(place(a)), uint(place(b))), strings.Compare(a, b))
		})
		return names
	}
	var timed []*figures.Path
	for _, p := range c.fig.Paths {
		if p.Timed() && len(p.Loads) == 0 {
			timed = append(timed, p)
		}
	}
	if all := acting(timed); len(all) <= maxShared {
		return all
	}
	return acting([]*figures.Path{c.path})
}

func (c *chart) addActors() {
	for _, name := range c.cast() {
		label := c.fig.Label(name)
		c.Tracks = append(c.Tracks, &track{Name: name, Kind: actorTrack, Label: label})
	}
	if c.run == nil {
		return
	}
	for _, t := range c.Tracks {
		var mine []figures.Entry
		for _, e := range c.run.Trace {
			if e.Phase == figures.PhaseSteps && e.Actor == t.Name {
				mine = append(mine, e)
			}
		}
		t.add(c, mine)
	}
}

// near is how close equal commands must follow one another to be drawn as one:
// a twentieth of the axis.
const near = 20

// runOf counts the equal commands with equal replies that follow one another
// closely from the i-th entry on.
func (c *chart) runOf(mine []figures.Entry, i int) int {
	n := 1
	for ; i+n < len(mine); n++ {
		a, b := mine[i], mine[i+n]
		if a.Command == "" || b.Command != a.Command || expr.Print(b.Reply) != expr.Print(a.Reply) || b.AtUS-mine[i+n-1].AtUS > c.Length/near {
			break
		}
	}
	return n
}

// add puts an actor's entries on its track.
func (t *track) add(c *chart, mine []figures.Entry) {
	paused := int64(-1)
	resume := func(at int64, open bool) {
		if paused >= 0 {
			t.Pauses = append(t.Pauses, stretch{From: paused, To: at, Open: open, Text: "paused"})
		}
		paused = -1
	}
	last := figures.Entry{} // the command before
	for i := 0; i < len(mine); i++ {
		e := mine[i]
		at := c.at(e.AtUS)
		kind, rest, _ := strings.Cut(e.Event, " ")
		switch {
		case e.Command != "":
			n := c.runOf(mine, i)
			p := point{From: at, To: at, Kind: "refused", Title: whole(at) + ": " + e.Command + " → " + expr.Print(e.Reply)}
			if answered(e) {
				p.Kind = "granted"
			}
			w := &words{At: at, Text: say.Command(e.Command) + " → " + clip(say.Reply(e.Reply), 16), Kind: p.Kind}
			repeated := e.Command == last.Command && last.Command != ""
			if repeated {
				w.Text, w.Rank = clip(say.Reply(e.Reply), 10), 2
			}
			if n >= 3 {
				p.To, p.Kind = c.at(mine[i+n-1].AtUS), "tries "+p.Kind
				p.Title = strconv.Itoa(n) + " times " + e.Command + " → " + expr.Print(e.Reply)
				w.Text, w.Rank = strconv.Itoa(n)+" × "+say.Command(e.Command)+" → "+clip(say.Reply(e.Reply), 16), 1
				i += n - 1
			}
			t.Points = append(t.Points, p)
			if n >= 3 || !repeated || answered(e) || expr.Print(e.Reply) != expr.Print(last.Reply) {
				t.Texts = append(t.Texts, w) // a refusal is told once
			}
			if last = e; n >= 3 {
				last = figures.Entry{} // what comes after many is told in full
			}
		case kind == "stop":
			paused = at
		case kind == "resume":
			resume(at, false)
		case kind == "crash":
			resume(at, false)
			t.Gone = at
			t.Points = append(t.Points, point{From: at, To: at, Kind: "crash", Title: whole(at) + ": crashed, its connection was cut"})
			t.Texts = append(t.Texts, &words{At: at, Text: "crashes", Kind: "crash"})
		case kind == "work" || kind == "work:":
			t.Points = append(t.Points, point{From: at, To: at, Kind: "work", Title: whole(at) + ": " + say.Did(c.fig, e)})
			t.Texts = append(t.Texts, &words{At: at, Text: clip(cmp.Or(rest, "works"), 28), Kind: "work", Rank: 1})
		}
	}
	resume(c.edge(), true)
	for _, p := range t.Pauses {
		t.Texts = append(t.Texts, &words{At: p.From, Text: p.Text, Kind: "pause", Rank: 1})
	}
}

// samplesKey tells whether the samples of a path show its protected key.
func (c *chart) samplesKey() bool { return c.fig.Resource != "" && len(c.path.Loads) == 0 }

func (c *chart) addKey() {
	if !c.samplesKey() {
		return
	}
	t := &track{Name: "key", Kind: keyTrack, Label: c.fig.Resource, Code: true, Below: "lease"}
	c.Tracks = append(c.Tracks, t)
	if !c.Leased {
		t.Kind, t.Below = valueTrack, ""
		for _, k := range c.keyed {
			v := stretch{From: k.From, To: k.To, Text: c.holder(k.State)}
			if missing(k.State) {
				v.Text = ""
			}
			t.addValue(v)
		}
		return
	}
	for i, k := range c.keyed {
		if !missing(k.State) {
			t.Leases = append(t.Leases, leaseShape{
				stretch: stretch{From: k.From, To: k.To}, Left0: max(k.State.TTL, 0), Left1: k.left(k.To), Forever: k.State.TTL == -1,
			})
			if i == 0 || c.keyed[i-1].State.Text != k.State.Text || c.keyed[i-1].State.Type != k.State.Type {
				t.Texts = append(t.Texts, &words{At: k.From, Text: c.holder(k.State), Kind: "holder"})
			}
		}
		if k.Lapsed {
			t.Lapses = append(t.Lapses, k.From)
			t.Texts = append(t.Texts, &words{At: k.From, Text: "lapsed", Kind: "lapse", Rank: 1})
		}
	}
}

// addValues gives each sampled value a track, but for the lease of the
// protected key, which has one.
func (c *chart) addValues() {
	if c.path.Sample == nil {
		return
	}
	for _, o := range c.path.Sample.Values {
		if c.isLease(o) {
			continue
		}
		t := &track{Name: "value:" + o.Name, Kind: valueTrack, Label: o.Name, Code: true}
		c.Tracks = append(c.Tracks, t)
		if c.run == nil {
			continue
		}
		for _, s := range c.run.Samples {
			at, v := c.at(s.AtUS), s.Values[o.Name]
			text := clip(say.Reply(v), 24)
			if v == nil {
				text = ""
			}
			t.addValue(stretch{From: at, To: at, Text: text})
		}
	}
}

// addValue goes on with a value, or begins the next.
func (t *track) addValue(v stretch) {
	if n := len(t.Values); n > 0 && t.Values[n-1].Text == v.Text {
		t.Values[n-1].To = v.To
		return
	}
	t.Values = append(t.Values, v)
	if v.Text != "" {
		t.Texts = append(t.Texts, &words{At: v.From, Text: v.Text, Kind: "value"})
	}
}

// isLease tells whether a sampled value is the lease of the protected key.
func (c *chart) isLease(o figures.Observation) bool {
	words := strings.Fields(o.Command.Source)
	return len(words) == 2 && (strings.EqualFold(words[0], "PTTL") || strings.EqualFold(words[0], "TTL")) && words[1] == c.fig.Resource
}

// classes of a text: its place at each width, and what kind it is.
func (w *words) classes() string {
	names := []string{"w-" + w.Kind}
	for i, spot := range w.Spot {
		if spot != "" {
			names = append(names, string("abc"[i])+spot)
		}
	}
	return strings.Join(names, " ")
}

// outline is the drawing of leases: their heights are the time left.
func (c *chart) outline(l leaseShape) string {
	x := func(us int64) string { return strconv.FormatInt(us*1000/c.Length, 10) }
	y := func(ms int64) string { return strconv.FormatInt(100-100*min(ms, c.Full)/c.Full, 10) }
	if l.Forever {
		return "M" + x(l.From) + " 100V0H" + x(l.To) + "V100"
	}
	return "M" + x(l.From) + " 100V" + y(l.Left0) + "L" + x(l.To) + " " + y(l.Left1) + "V100"
}
