package components

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"

	"lockstep/figures"
	"lockstep/sandbox"
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
	Full   int64 // ms: the longest lease, the full height of a lease's drawing
	Ticks  []tick
	Tracks []*track
	Both   []stretch // more than one believes to hold the key
	Rows   []row

	keyed   []keyStretch
	holders map[string]string // token -> actor
}

// A tick is a mark on the axis.
type tick struct {
	At    int64
	Text  string
	Minor bool // its text is left out where there is little room
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

// words are a text in a track. Where there is no room for it, it is left out;
// how much room there is depends on the width of the page.
type words struct {
	At   int64
	Text string
	Rank int // the lower, the sooner it gets its place
	Kind string
	Spot [len(widths)]string // its line ("0" or "1"), with "e" where it ends at its moment; "" for none
}

// widths are the three widths that a track may have, in characters of its
// texts. The style sheet chooses among them.
var widths = [...]int{75, 46, 36}

// A keyStretch is a time in which the protected key stayed as it was, its lease
// draining.
type keyStretch struct {
	From, To int64
	State    figures.KeyState // at From
	Lapsed   bool             // the lease before it ran out
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

// ---- The clock

// at is the time of an entry on the path's own clock. What was done before the
// path began counts as its beginning.
func (c *chart) at(us int64) int64 { return max(0, us-c.Zero) }

func (c *chart) measure() {
	likely, _ := expected(c.path)
	full := int64(0)
	for _, ms := range leaseHints(c.path) {
		full = max(full, ms)
	}
	if c.run != nil {
		for _, e := range c.run.Trace {
			if e.Phase == figures.PhaseSteps {
				c.End = max(c.End, c.at(e.AtUS))
			}
		}
		for _, s := range c.run.Samples {
			c.End = max(c.End, c.at(s.AtUS))
			if s.Key != nil {
				full = max(full, s.Key.TTL)
			}
		}
	}
	c.Full = max(full, 1)
	c.Length = round(likely.Microseconds())
	switch {
	case c.Over && (c.End > c.Length || c.End < c.Length*4/5):
		c.Length = max(c.End, 1000)
	case c.End > c.Length:
		c.Length = round(c.End + c.End/5)
	}
	step := stepOf(c.Length)
	for at := int64(0); at <= c.Length; at += step {
		c.Ticks = append(c.Ticks, tick{At: at, Text: clock(at, step), Minor: len(c.Ticks)%2 == 1})
	}
}

// stepOf is a round time of which five to ten fill an axis.
func stepOf(length int64) int64 {
	step := int64(math.Pow(10, math.Floor(math.Log10(float64(max(length, 1000))))))
	for _, part := range []int64{10, 5, 2} {
		if length/(step/part) >= 5 && length/(step/part) <= 10 {
			return step / part
		}
	}
	return step
}

// round is the next time that looks well at the end of an axis.
func round(us int64) int64 {
	half := max(stepOf(us)/2, 1)
	return (us + half - 1) / half * half
}

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

// clock writes a time of the axis.
func clock(us, step int64) string {
	switch {
	case us == 0:
		return "0"
	case step < 500_000:
		return group(us/1000) + " ms"
	}
	return strconv.FormatFloat(float64(us)/1e6, 'f', -1, 64) + " s"
}

// whole writes a time in whole milliseconds.
func whole(us int64) string { return group((us+500)/1000) + " ms" }

// edge is where what still goes on is drawn to. While a run goes on that is the
// end of the axis: the page uncovers it as time passes.
func (c *chart) edge() int64 {
	if c.Over {
		return c.End
	}
	return c.Length
}

// share is a time as a part of the axis, for an attribute of SVG.
func (c *chart) share(us int64) string { return percent(float64(us) / float64(c.Length)) }

func (c *chart) wide(s stretch) string { return percent(float64(s.To-s.From) / float64(c.Length)) }

func percent(x float64) string {
	x = min(max(x, 0), 1)
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(100*x, 'f', 2, 64), "0"), ".") + "%"
}

// ---- How long a path takes

// expected is how long a path's steps will take, as far as its text tells.
// False where it doesn't: a load runs as fast as the machine does.
func expected(p *figures.Path) (time.Duration, bool) {
	if len(p.Loads) > 0 {
		return 2 * time.Second, false
	}
	leases := map[string]time.Duration{} // when each ends
	for _, s := range p.Setup {
		if key, ms := leaseIn(s.Command.Source); ms > 0 {
			leases[key] = time.Duration(ms) * time.Millisecond
		}
	}
	var now, end time.Duration
	for _, s := range p.Steps {
		if s.Timed {
			now = s.At
		}
		key, ms := leaseIn(s.Command.Source)
		if key == "" {
			key = lockOf(s.Command.Source)
		}
		switch {
		case s.Kind == figures.Wait:
			now += s.For
		case s.Kind == figures.Lapse:
			now = max(now, leases[s.Key.Source])
		case s.Retry != nil && leases[key] > now:
			now = min(leases[key], now+s.Retry.For)
		}
		at := now
		if s.Every > 0 {
			at = max(now, s.Until)
		}
		if ms > 0 && leases[key] <= at || s.Every > 0 {
			leases[key] = at + time.Duration(ms)*time.Millisecond
		}
		end = max(end, at)
	}
	return max(end, 50*time.Millisecond), true
}

// leaseIn finds the lease that a command gives to a key, in milliseconds.
func leaseIn(line string) (key string, ms int64) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return "", 0
	}
	number := func(i int) int64 {
		if i >= len(words) {
			return 0
		}
		n, _ := strconv.ParseInt(words[i], 10, 64)
		return n
	}
	switch verb := strings.ToUpper(words[0]); verb {
	case "SET":
		for i, w := range words {
			switch strings.ToUpper(w) {
			case "PX":
				return words[1], number(i + 1)
			case "EX":
				return words[1], 1000 * number(i+1)
			}
		}
	case "PEXPIRE":
		return words[1], number(2)
	case "EXPIRE":
		return words[1], 1000 * number(2)
	case "EVAL":
		if len(words) > 5 {
			return words[3], number(len(words) - 1)
		}
	}
	return "", 0
}

// leaseHints are the leases of the protected key that a path's text names.
func leaseHints(p *figures.Path) []int64 {
	var all []int64
	for _, s := range slices.Concat(p.Setup, p.Steps) {
		if _, ms := leaseIn(s.Command.Source); ms > 0 && s.Kind == figures.Send {
			all = append(all, ms)
		}
	}
	return all
}

// takes says how long a path takes, for the link that starts it.
func takes(p *figures.Path) string {
	likely, known := expected(p)
	if !known {
		clients := 0
		for _, l := range p.Loads {
			clients = max(clients, l.Clients)
		}
		return "a few seconds, " + count(clients, "client")
	}
	return "runs " + seconds(likely)
}

// seconds writes a duration as a reader would say it: "0.8 s", "2 s".
func seconds(d time.Duration) string {
	return strconv.FormatFloat(math.Ceil(d.Seconds()*10-0.001)/10, 'f', -1, 64) + " s"
}

// ---- Who believes to hold what

// A part is what a command does to a lock.
type part int

const (
	noPart part = iota
	acquires
	renews
	releases
)

// scriptParts tell what a script does to its first key, by how its name begins
// or ends.
var scriptParts = []struct {
	stem string
	does part
}{
	{"extend", renews}, {"renew", renews}, {"holds", renews},
	{"release", releases}, {"unlock", releases},
	{"grant", acquires}, {"acquire", acquires}, {"lock", acquires},
}

// partOf tells what a command does to which key, and with which token.
func partOf(line string) (does part, key, token string) {
	words, err := sandbox.Parse(line)
	if err != nil || len(words) < 2 {
		return noPart, "", ""
	}
	word := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	has := func(option string) bool {
		return slices.ContainsFunc(words[min(3, len(words)):], func(w string) bool { return strings.EqualFold(w, option) })
	}
	switch strings.ToUpper(words[0]) {
	case "SET":
		switch {
		case has("NX"):
			return acquires, words[1], word(2)
		case has("XX"), has("IFEQ"):
			return renews, words[1], word(2)
		}
	case "SETNX":
		return acquires, words[1], word(2)
	case "DEL", "UNLINK", "DELIFEQ":
		return releases, words[1], word(2)
	case "EXPIRE", "PEXPIRE":
		return renews, words[1], ""
	case "EVAL", "EVAL_RO":
		keys, err := strconv.Atoi(word(2))
		if err != nil || keys < 1 || len(words) < 3+keys {
			return noPart, "", ""
		}
		name, key, token := strings.TrimSuffix(words[1], ".lua"), words[3], word(3+keys)
		for _, known := range scriptParts {
			if strings.HasPrefix(name, known.stem) || strings.HasSuffix(name, "_"+known.stem) {
				return known.does, key, token
			}
		}
	}
	return noPart, "", ""
}

// lockOf is the key of a command, as its author wrote it.
func lockOf(line string) string {
	_, key, _ := partOf(line)
	return key
}

// answered tells whether a reply grants what was asked for.
func answered(e figures.Entry) bool {
	switch v := e.Reply.(type) {
	case nil, sandbox.Error:
		return false
	case int64:
		return v != 0
	}
	return !e.Error
}

// tokens learns whose each token is, from the commands that took a lease.
func (c *chart) tokens() {
	if c.run == nil {
		return
	}
	for _, e := range c.run.Trace {
		if does, _, token := partOf(e.Command); does == acquires && token != "" && answered(e) {
			c.holders[token] = e.Actor
		}
	}
}

// believe finds who believes to hold the protected key, and when: from the
// reply that granted it to the actor's own release, or to a reply that tells it
// otherwise. Nobody else's command ends a belief.
func (c *chart) believe() {
	if c.run == nil {
		return
	}
	since := map[string]int64{} // "actor key" -> from
	end := func(actor, key string, at int64, open bool) {
		from, ok := since[actor+" "+key]
		if !ok {
			return
		}
		delete(since, actor+" "+key)
		if t := c.track(actor); t != nil {
			t.Holds = append(t.Holds, stretch{From: from, To: at, Open: open})
		}
	}
	for _, e := range c.run.Trace {
		if e.Phase == figures.PhaseObserve {
			continue
		}
		at := c.at(e.AtUS)
		if actor, ok := strings.CutPrefix(e.Event, "crash "); ok {
			for k := range since {
				if who, key, _ := strings.Cut(k, " "); who == actor {
					end(who, key, at, false)
				}
			}
			continue
		}
		does, key, token := partOf(e.Command)
		if does == noPart || c.fig.Resource != "" && key != c.fig.Resource {
			continue
		}
		switch {
		case does == acquires && answered(e), does == renews && token != "" && answered(e):
			if _, ok := since[e.Actor+" "+key]; !ok {
				since[e.Actor+" "+key] = at
			}
		case does == releases, does == renews && !answered(e):
			end(e.Actor, key, at, false)
		}
	}
	for k := range since {
		actor, key, _ := strings.Cut(k, " ")
		end(actor, key, c.edge(), true)
	}
	for _, t := range c.Tracks {
		slices.SortFunc(t.Holds, func(a, b stretch) int { return cmp.Compare(a.From, b.From) })
	}
	c.overlap()
}

// overlap finds when more than one believes to hold the protected key.
func (c *chart) overlap() {
	if c.fig.Resource == "" {
		return
	}
	type edge struct {
		at int64
		by int
	}
	var edges []edge
	for _, t := range c.Tracks {
		for _, h := range t.Holds {
			edges = append(edges, edge{h.From, 1}, edge{h.To, -1})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	inside, from := 0, int64(0)
	for _, e := range edges {
		was := inside
		inside += e.by
		switch {
		case was < 2 && inside == 2:
			from = e.at
		case was == 2 && inside < 2 && e.at > from:
			c.Both = append(c.Both, stretch{From: from, To: e.at})
		}
	}
}

// ---- The protected key

// readKey makes stretches of the samples: times in which the key held the same
// and its lease drained with the clock.
func (c *chart) readKey() {
	if c.run == nil {
		return
	}
	before := int64(-1)
	for _, s := range c.run.Samples {
		if s.Key == nil {
			continue
		}
		at, now := c.at(s.AtUS), *s.Key
		if len(c.keyed) == 0 {
			from := int64(0) // it was so when the path began
			if e := c.cause(-1, at); e != nil {
				from = min(at, c.at(e.AtUS))
			}
			c.keyed = append(c.keyed, keyStretch{From: from, State: now})
			c.keyed[0].State.TTL = older(now.TTL, at-from)
		} else if last := &c.keyed[len(c.keyed)-1]; !last.goesOn(at, now, c.cause(before, at)) {
			c.turn(last, before, at, now)
		}
		before = at
	}
	if n := len(c.keyed); n > 0 {
		last := &c.keyed[n-1]
		last.To = max(c.edge(), last.From)
		if !c.Over {
			last.To = min(last.To, last.ends())
		}
	}
}

// older is a lease as it was so many microseconds before.
func older(ttl, us int64) int64 {
	if ttl < 0 {
		return ttl
	}
	return ttl + us/1000
}

// ends is when the lease of a stretch runs out by the clock.
func (k *keyStretch) ends() int64 {
	if k.State.TTL < 0 {
		return math.MaxInt64
	}
	return k.From + 1000*k.State.TTL
}

// left is the lease of a stretch at a moment of it.
func (k *keyStretch) left(at int64) int64 {
	if k.State.TTL < 0 {
		return k.State.TTL
	}
	return max(0, (k.ends()-at)/1000)
}

// Tolerances of a lease against the clock, in ms: a sample may come late, and a
// machine may be busy.
const (
	slack     = 3  // where some command may have changed it
	wideSlack = 25 // where none was sent
)

// goesOn tells whether the key is as the stretch foretells.
func (k *keyStretch) goesOn(at int64, now figures.KeyState, cause *figures.Entry) bool {
	if now.Type != k.State.Type || now.Text != k.State.Text || (now.TTL < 0) != (k.State.TTL < 0) {
		return false
	}
	if now.TTL < 0 {
		return now.TTL == k.State.TTL
	}
	differs := now.TTL - k.left(at)
	if cause != nil {
		return differs <= slack && differs >= -wideSlack
	}
	return differs <= wideSlack && differs >= -wideSlack
}

// skew is by how much the clocks of two connections may disagree about which
// of two replies was read first.
const skew = 3000 // µs

// cause finds the last command between two samples that may have changed the
// protected key.
func (c *chart) cause(before, at int64) *figures.Entry {
	var found *figures.Entry
	for i, e := range c.run.Trace {
		if t := e.AtUS - c.Zero; e.Phase == figures.PhaseSteps && t > before-skew && t <= at+skew && touches(e, c.fig.Resource) && answered(e) {
			found = &c.run.Trace[i]
		}
	}
	return found
}

// touches tells whether a command names a key.
func touches(e figures.Entry, key string) bool {
	words, err := sandbox.Parse(e.Command)
	return err == nil && len(words) > 1 && slices.Contains(words[1:], key)
}

// turn ends a stretch where the key changed, and begins the next. What changed
// it is looked for in the trace; else the lease ran out, or the sample is all
// that is known.
func (c *chart) turn(last *keyStretch, before, at int64, now figures.KeyState) {
	cause, turned := c.cause(before, at), at
	if cause != nil {
		turned = max(last.From, min(at, c.at(cause.AtUS)))
	}
	lapse := last.ends()
	none := now.Type == "none" || now.Type == ""
	lapsed := false
	switch {
	case none && (cause == nil || lapse <= turned):
		turned, lapsed = min(at, max(lapse, before)), last.State.TTL >= 0
	case lapse < turned && last.State.Text != now.Text:
		// Gone and taken again between two samples.
		last.To = max(lapse, before)
		c.keyed = append(c.keyed, keyStretch{From: last.To, State: figures.KeyState{Type: "none", TTL: -2}, Lapsed: true})
		last = &c.keyed[len(c.keyed)-1]
	}
	last.To = turned
	state := now
	state.TTL = older(now.TTL, at-turned)
	c.keyed = append(c.keyed, keyStretch{From: turned, State: state, Lapsed: lapsed})
}

// stands is the state of the protected key at a moment.
func (c *chart) stands(at int64) (held string, left int64) {
	for i, k := range slices.Backward(c.keyed) {
		if k.From <= at {
			return c.held(k.State), c.keyed[i].left(at)
		}
	}
	return "", -2
}

// held says who holds the key, or else what it holds.
func (c *chart) held(k figures.KeyState) string {
	if k.Type == "none" || k.Type == "" {
		return "no key"
	}
	if actor := c.holders[k.Text]; actor != "" && k.Type == "string" {
		return "held by " + c.fig.Label(actor)
	}
	return "holds " + clip(keyText(k), 40)
}

// holder is held for the little room of a track.
func (c *chart) holder(k figures.KeyState) string {
	if actor := c.holders[k.Text]; actor != "" && k.Type == "string" {
		return c.fig.Label(actor)
	}
	return clip(keyText(k), 18)
}

// clip shortens a text.
func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// ---- The tracks

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
				for _, step := range append([]figures.Step{s}, s.Race...) {
					if step.Actor != "" && !slices.Contains(names, step.Actor) {
						names = append(names, step.Actor)
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
		if a.Command == "" || b.Command != a.Command || figures.Print(b.Reply) != figures.Print(a.Reply) || b.AtUS-mine[i+n-1].AtUS > c.Length/near {
			break
		}
	}
	return n
}

// add puts an actor's entries on its track.
func (t *track) add(c *chart, mine []figures.Entry) {
	paused := int64(-1)
	last := "" // the command before
	for i := 0; i < len(mine); i++ {
		e := mine[i]
		at := c.at(e.AtUS)
		kind, rest, _ := strings.Cut(e.Event, " ")
		switch {
		case e.Command != "":
			n := c.runOf(mine, i)
			p := point{From: at, To: at, Kind: "refused", Title: whole(at) + ": " + e.Command + " → " + figures.Print(e.Reply)}
			if answered(e) {
				p.Kind = "granted"
			}
			w := &words{At: at, Text: shortCommand(e.Command) + " → " + clip(shortReply(e.Reply), 16), Kind: p.Kind}
			if e.Command == last {
				w.Text, w.Rank = clip(shortReply(e.Reply), 10), 2
			}
			if n >= 3 {
				p.To, p.Kind = c.at(mine[i+n-1].AtUS), "tries "+p.Kind
				p.Title = strconv.Itoa(n) + " times " + e.Command + " → " + figures.Print(e.Reply)
				w.Text, w.Rank = strconv.Itoa(n)+" × "+shortCommand(e.Command)+" → "+clip(shortReply(e.Reply), 16), 1
				i += n - 1
			}
			if last = e.Command; n >= 3 {
				last = "" // what comes after many is told in full
			}
			t.Points, t.Texts = append(t.Points, p), append(t.Texts, w)
		case kind == "stop":
			paused = at
		case kind == "resume" && paused >= 0:
			t.Pauses = append(t.Pauses, stretch{From: paused, To: at, Text: "paused"})
			paused = -1
		case kind == "crash":
			if paused >= 0 {
				t.Pauses = append(t.Pauses, stretch{From: paused, To: at, Text: "paused"})
				paused = -1
			}
			t.Gone = at
			t.Points = append(t.Points, point{From: at, To: at, Kind: "crash", Title: whole(at) + ": crashed, its connection was cut"})
			t.Texts = append(t.Texts, &words{At: at, Text: "crashes", Kind: "crash"})
		case kind == "work" || kind == "work:":
			t.Points = append(t.Points, point{From: at, To: at, Kind: "work", Title: whole(at) + ": " + eventWords(e, c.fig)})
			t.Texts = append(t.Texts, &words{At: at, Text: clip(cmp.Or(rest, "works"), 28), Kind: "work", Rank: 1})
		}
	}
	if paused >= 0 {
		t.Pauses = append(t.Pauses, stretch{From: paused, To: c.edge(), Open: true, Text: "paused"})
	}
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
	for i, k := range c.keyed {
		none := k.State.Type == "none" || k.State.Type == ""
		if !none {
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
			text := clip(shortReply(v), 24)
			if v == nil {
				text = ""
			}
			if n := len(t.Values); n > 0 {
				t.Values[n-1].To = at
				if t.Values[n-1].Text == text {
					continue
				}
			}
			t.Values = append(t.Values, stretch{From: at, To: at, Text: text})
		}
		for _, v := range t.Values {
			if v.Text != "" {
				t.Texts = append(t.Texts, &words{At: v.From, Text: v.Text, Kind: "value"})
			}
		}
	}
}

// isLease tells whether a sampled value is the lease of the protected key.
func (c *chart) isLease(o figures.Observation) bool {
	words := strings.Fields(o.Command.Source)
	return len(words) == 2 && (strings.EqualFold(words[0], "PTTL") || strings.EqualFold(words[0], "TTL")) && words[1] == c.fig.Resource
}

// arrange gives each text of a track its place at each width, the ones that
// matter most first.
func (t *track) arrange(c *chart) {
	lines := 1
	if t.Kind == actorTrack {
		lines = 2
	}
	order := slices.Clone(t.Texts)
	slices.SortStableFunc(order, func(a, b *words) int { return a.Rank - b.Rank })
	for i, columns := range widths {
		type taken struct{ from, to float64 }
		used := make([][]taken, lines)
		for _, w := range order {
			at, wide := float64(w.At)/float64(c.Length)*float64(columns), float64(cells(w.Text))
			for _, spot := range []struct {
				line int
				end  string
				from float64
			}{{0, "", at}, {1, "", at}, {0, "e", at - wide}, {1, "e", at - wide}} {
				if spot.line >= lines || spot.from < -0.5 || spot.from+wide > float64(columns)+0.5 {
					continue
				}
				free := !slices.ContainsFunc(used[spot.line], func(u taken) bool {
					return spot.from < u.to+1 && u.from < spot.from+wide+1
				})
				if !free {
					continue
				}
				used[spot.line] = append(used[spot.line], taken{spot.from, spot.from + wide})
				w.Spot[i] = strconv.Itoa(spot.line) + spot.end
				break
			}
		}
	}
}

// cells is how many places a text takes in a fixed-width font. Letters of the
// far east take two.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x1100 {
			n++
		}
	}
	return n
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

// ---- In words

// tell writes the chart as rows: everything that happened, and how the
// protected key stood after it.
func (c *chart) tell() {
	if c.run == nil {
		return
	}
	c.Rows = c.blocks()
	if c.track("key") != nil {
		for i, k := range c.keyed {
			if k.Lapsed {
				c.Rows = append(c.Rows, row{At: k.From, What: "the lease of " + c.fig.Resource + " lapsed"})
			} else if i == 0 || c.cause(k.From-1, k.From) == nil {
				c.Rows = append(c.Rows, row{At: k.From, What: "the key is read"})
			}
		}
	}
	for _, t := range c.Tracks {
		for i, v := range t.Values {
			if i > 0 {
				c.Rows = append(c.Rows, row{At: v.From, What: t.Label + " is " + cmp.Or(v.Text, "nil")})
			}
		}
	}
	slices.SortStableFunc(c.Rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.Who, b.Who))
	})
	for i := range c.Rows {
		r := &c.Rows[i]
		r.Held, r.Left = c.stands(r.At)
		r.More = c.more(r.At)
	}
}

// more says what else was sampled at a moment.
func (c *chart) more(at int64) string {
	var all []string
	for _, t := range c.Tracks {
		for _, v := range slices.Backward(t.Values) {
			if v.From <= at {
				all = append(all, t.Label+" "+cmp.Or(v.Text, "nil"))
				break
			}
		}
	}
	return strings.Join(all, ", ")
}

// blocks are the entries of the steps as rows, equal ones in a row as one.
func (c *chart) blocks() []row {
	var rows []row
	by := map[string][]figures.Entry{}
	for _, e := range c.run.Trace {
		if e.Phase == figures.PhaseSteps {
			by[e.Actor] = append(by[e.Actor], e)
		}
	}
	for actor, mine := range by {
		who := ""
		if actor != "" {
			who = c.fig.Label(actor)
		}
		for i := 0; i < len(mine); i++ {
			e := mine[i]
			r := row{At: c.at(e.AtUS), Who: who}
			if e.Command == "" {
				if strings.HasPrefix(e.Event, "lapse ") && c.track("key") != nil {
					continue // the samples tell it, with its moment
				}
				r.What = eventWords(e, c.fig)
				rows = append(rows, r)
				continue
			}
			r.What, r.Code, r.Then = e.Command, true, shortReply(e.Reply)
			if n := c.runOf(mine, i); n >= 3 {
				r.Then += ", " + strconv.Itoa(n) + " times until " + whole(c.at(mine[i+n-1].AtUS))
				i += n - 1
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// left says how much of a lease is left, in whole milliseconds.
func left(ms int64) string {
	switch {
	case ms == -1:
		return "no expiry"
	case ms < 0:
		return ""
	}
	return group(ms) + " ms left"
}

// now is the last moment in words: of a run under way, the last at which
// anything happened.
func (c *chart) now() row {
	n := len(c.Rows)
	if n == 0 {
		return row{Left: -2}
	}
	r := c.Rows[n-1]
	if c.Over {
		r.At = c.End
		r.Held, r.Left = c.stands(r.At)
		r.More = c.more(r.At)
	}
	return r
}

// says is how things stand at a moment, lease aside.
func (r row) says() string {
	return strings.Join(slices.DeleteFunc([]string{r.Held, r.More}, func(s string) bool { return s == "" }), "; ")
}

// sentence is a moment in full.
func (r row) sentence() string {
	parts := []string{r.Held, left(r.Left), r.More}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// last is what happened last at a moment.
func (r row) last() string {
	text := r.What
	if r.Code {
		text += " → " + r.Then
	}
	if r.Who != "" {
		text = r.Who + ": " + text
	}
	return text
}

// alternative is the chart in a few sentences, for those who don't see it.
func (c *chart) alternative() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Time line of %s.", whole(c.End))
	for _, t := range c.Tracks {
		for _, h := range t.Holds {
			fmt.Fprintf(&b, " %s believes to hold %s from %s to %s.", sentence(t.Label), cmp.Or(c.fig.Resource, "the lock"), whole(h.From), whole(h.To))
		}
		for _, p := range t.Pauses {
			fmt.Fprintf(&b, " %s is paused from %s to %s.", sentence(t.Label), whole(p.From), whole(p.To))
		}
		if t.Gone > 0 {
			fmt.Fprintf(&b, " %s crashes at %s.", sentence(t.Label), whole(t.Gone))
		}
		for _, at := range t.Lapses {
			fmt.Fprintf(&b, " The lease lapses at %s.", whole(at))
		}
	}
	for _, s := range c.Both {
		fmt.Fprintf(&b, " More than one believes to hold it from %s to %s.", whole(s.From), whole(s.To))
	}
	b.WriteString(" Every moment stands in the table below.")
	return b.String()
}

// ---- Loads

// A tally is what the clients of one load did together.
type tally struct {
	Load     figures.Load
	Done     bool
	Sent     int64
	Took     int64 // ms
	GaveUp   int64
	Longest  int64 // ms
	ofSent   float64
	ofTook   float64
	leastOf  int64 // commands of the load that sent the fewest
	fastest  int64 // ms of the fastest load
	Underway bool
}

// tallies are the loads of a path, as far as they have run.
func tallies(p *figures.Path, r *figures.Result, over bool) []tally {
	all := make([]tally, len(p.Loads))
	var mostSent, mostTook, leastSent, fastest int64
	for i, l := range p.Loads {
		t := &all[i]
		t.Load = l
		values := loaded(r, l.Name)
		if values == nil {
			t.Underway = r != nil && !over && (i == 0 || all[i-1].Done)
			continue
		}
		t.Done = true
		t.Sent, t.Took, t.GaveUp, t.Longest = whole64(values["sent"]), whole64(values["took_ms"]), whole64(values["gave_up"]), whole64(values["longest_ms"])
		mostSent, mostTook = max(mostSent, t.Sent), max(mostTook, t.Took)
		if leastSent == 0 || t.Sent < leastSent {
			leastSent = t.Sent
		}
		if fastest == 0 || t.Took < fastest {
			fastest = max(t.Took, 1)
		}
	}
	for i := range all {
		t := &all[i]
		t.leastOf, t.fastest = leastSent, fastest
		if mostSent > 0 {
			t.ofSent = float64(t.Sent) / float64(mostSent)
		}
		if mostTook > 0 {
			t.ofTook = float64(t.Took) / float64(mostTook)
		}
	}
	return all
}

// loaded is what a run counted for one load.
func loaded(r *figures.Result, name string) map[string]any {
	if r == nil {
		return nil
	}
	if values, ok := r.Values[name].(map[string]any); ok {
		return values
	}
	for _, e := range r.Trace {
		if values, ok := e.Reply.(map[string]any); ok && e.Name == name {
			return values
		}
	}
	return nil
}

func whole64(v any) int64 {
	n, _ := v.(int64)
	return n
}

// times writes a ratio: "37 ×", "1.4 ×".
func times(n, of int64) string {
	if of <= 0 {
		return ""
	}
	ratio := float64(n) / float64(of)
	digits := 0
	if ratio < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(ratio, 'f', digits, 64) + " ×"
}

// ---- What the templates ask

// firstTimed is the path whose empty picture a figure shows while it has none
// to show: p, where that is one in real time, or else the figure's first.
func firstTimed(f *figures.Figure, p *figures.Path) *figures.Path {
	if p != nil && p.Timed() {
		return p
	}
	if i := slices.IndexFunc(f.Paths, (*figures.Path).Timed); i >= 0 {
		return f.Paths[i]
	}
	return nil
}

// timedAttrs mark the link of a path in real time, for the script.
func timedAttrs(p *figures.Path) templ.Attributes {
	if !p.Timed() {
		return nil
	}
	return templ.Attributes{"data-timed": takes(p)}
}

// timedFigure tells whether any path of a figure runs in real time.
func timedFigure(f *figures.Figure) bool { return slices.ContainsFunc(f.Paths, (*figures.Path).Timed) }

func trackClass(k trackKind) string {
	return [...]string{"actor", "key", "value"}[k]
}

// alternativeOf is the text alternative of a chart, run or not.
func alternativeOf(c *chart) string {
	if c.run == nil {
		return "An empty time line: nothing has run yet."
	}
	return c.alternative()
}

// bothWords say how many believe to hold the key.
func bothWords(c *chart) string {
	holding := 0
	for _, t := range c.Tracks {
		if len(t.Holds) > 0 {
			holding++
		}
	}
	if holding == 2 {
		return "both believe to hold it"
	}
	return "more than one believes to hold it"
}

// bothAt is where these words stand: at the beginning, or at the end where
// there is no room before the axis ends.
func bothAt(c *chart, s stretch) int64 {
	if s.From*3 > c.Length*2 {
		return s.To
	}
	return s.From
}

// until is the i-th value's span up to the next.
func until(c *chart, values []stretch, i int) stretch {
	s := values[i]
	s.To = c.edge()
	if i+1 < len(values) {
		s.To = values[i+1].From
	}
	return s
}

// railEnd is where an actor's line ends: at its crash.
func railEnd(c *chart, t *track) string {
	if t.Gone > 0 {
		return c.share(t.Gone)
	}
	return "100%"
}

// shown tells whether a text has a place at any width.
func (w *words) shown() bool { return w.Spot != [len(widths)]string{} }

// pauses tells whether a path stops any of its actors.
func pauses(p *figures.Path) bool {
	return slices.ContainsFunc(p.Steps, func(s figures.Step) bool { return s.Kind == figures.Stop })
}

// ---- While it runs

// A Drawing is the picture of a run in real time while it goes on.
type Drawing struct {
	fig   *figures.Figure
	path  *figures.Path
	shown map[string]string // the tracks that the page shows
}

// NewDrawing begins the picture of a run.
func NewDrawing(f *figures.Figure, p *figures.Path) *Drawing {
	return &Drawing{fig: f, path: p, shown: map[string]string{}}
}

// Changed writes what has changed in the picture since the last call, as
// elements that take the place of those with the same data-part or data-track.
// The result holds what is known so far.
func (d *Drawing) Changed(ctx context.Context, w io.Writer, r *figures.Result) error {
	c := newChart(d.fig, d.path, r, false)
	frame := fmt.Sprint(c.Length, c.Zero, c.Full)
	if frame != d.shown[""] {
		if err := timed(d.fig, d.path, c).Render(ctx, w); err != nil {
			return err
		}
	}
	for _, part := range c.parts() {
		var b bytes.Buffer
		if err := part.drawn.Render(ctx, &b); err != nil {
			return err
		}
		if frame == d.shown[""] && d.shown[part.name] != b.String() {
			if _, err := w.Write(b.Bytes()); err != nil {
				return err
			}
		}
		d.shown[part.name] = b.String()
	}
	d.shown[""] = frame
	return nil
}

// A chartPart is a part of a chart that changes while a run goes on.
type chartPart struct {
	name  string
	drawn templ.Component
}

// parts are the parts of a chart that change, by the names they have in the page.
func (c *chart) parts() []chartPart {
	if len(c.path.Loads) > 0 {
		return []chartPart{{"loads", loadTable(c)}}
	}
	all := []chartPart{{"overlap", chartGrid(c)}, {"now", chartNow(c)}}
	for _, t := range c.Tracks {
		all = append(all, chartPart{t.Name, chartTrack(c, t)})
	}
	return all
}
