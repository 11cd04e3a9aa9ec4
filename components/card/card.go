// Package card draws a figure of the course as a card: its paths to point at, what
// they reach for, and what a run of one showed. Of a figure that runs every
// schedule that is also a map of them, any one in lanes, and the scheduler.
package card

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"lockstep/components/chart"
	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/sandbox"
)

// A Run is the path that a page was asked to show (?run=figure.path), and what
// came of it. Where there is no Result, the recorded verdict is shown, with the
// Trouble that kept the path from running. The zero value asks for none.
type Run struct {
	Figure  *figures.Figure
	Path    *figures.Path
	Result  *figures.Result
	Trouble string // a sentence for the reader
}

// Of narrows a run to a figure: what another figure showed isn't its business.
func (r Run) Of(f *figures.Figure) Run {
	if r.Figure != f {
		return Run{}
	}
	return r
}

// runURL is the address that shows a path's verdict in its page.
func runURL(f *figures.Figure, p *figures.Path) string {
	return "?run=" + f.ID + "." + p.ID + "#" + f.ID
}

// scheduleURL is the address that shows one schedule of a path.
func scheduleURL(f *figures.Figure, p *figures.Path, schedule string) string {
	return "?run=" + f.ID + "." + p.ID + "&schedule=" + inQuery.Replace(schedule) + "#" + f.ID
}

// inQuery writes a schedule into an address so that it can still be read there.
var inQuery = strings.NewReplacer("%", "%25", "&", "%26", "#", "%23", "+", "%2B", " ", "%20", "{", "%7B", "}", "%7D")

// saidID is the id of a path's recorded verdict, which describes its link. The
// dots keep it apart from the anchors of authors.
func saidID(f *figures.Figure, p *figures.Path) string { return f.ID + "." + p.ID + ".said" }

// wireBox is the drawing area of n wires, each a hundred units high. It is
// stretched over the rows, whatever their height.
func wireBox(n int) string { return "0 0 100 " + strconv.Itoa(100*n) }

// wire is the i-th of n lines: straight from the middle of its row, so that a
// label can sit on it, then bent to where all of them meet the key.
func wire(i, n int) string {
	from, to := 100*i+50, 50*n
	return fmt.Sprintf("M0 %dH62C84 %d 78 %d 100 %d", from, from, to, to)
}

// kind is what a figure's caption says of it.
func kind(f *figures.Figure) string {
	switch {
	case f.Explores():
		return "every schedule"
	case f.Timed():
		return "live, in real time"
	case f.Topology.Several():
		return fmt.Sprintf("live, on %d servers", len(f.Topology.Nodes()))
	}
	return "live"
}

// actorOf is the label of the actor that a path lights up, or the names of all
// that race in it or run in every order; empty where the path's own label says
// it already.
func actorOf(f *figures.Figure, p *figures.Path) string {
	var together []string
	for _, program := range p.Programs {
		together = append(together, program.Actor)
	}
	for _, s := range p.Steps {
		race, _ := s.Does.(figures.Race)
		for _, r := range race.Steps {
			if !slices.Contains(together, r.Actor()) {
				together = append(together, r.Actor())
			}
		}
	}
	if len(together) > 1 {
		return strings.Join(together, ", ")
	}
	label := f.Label(p.Actor)
	if strings.Contains(strings.ToLower(p.Label), strings.ToLower(label)) {
		return ""
	}
	return label
}

// timed marks the link of a path in real time, for the script.
func timed(p *figures.Path) templ.Attributes {
	if !p.Timed() {
		return nil
	}
	return templ.Attributes{"data-timed": chart.Takes(p)}
}

var expression = regexp.MustCompile(`\{\{.*?\}\}`)

// recorded is the status of a path's recorded verdict: that of the rule whose
// text it is. Where the texts leave a doubt it is Unjudged.
func recorded(p *figures.Path) figures.Status {
	status := figures.Unjudged
	for _, rule := range p.Verdicts {
		var pattern strings.Builder
		pattern.WriteString("^(?s:")
		for i, text := range expression.Split(rule.Text.Source, -1) {
			if i > 0 {
				pattern.WriteString(".+")
			}
			pattern.WriteString(regexp.QuoteMeta(text))
		}
		pattern.WriteString(")$")
		re, err := regexp.Compile(pattern.String())
		if err != nil || !re.MatchString(p.Static) {
			continue
		}
		if status != figures.Unjudged && status != rule.Status {
			return figures.Unjudged
		}
		status = rule.Status
	}
	return status
}

// sourceWords says where a verdict comes from and what it cost.
func sourceWords(r *figures.Result) string {
	from := "live · " + say.Engine(r.Engine)
	if r.Engine.Simulated() {
		from = say.Server(r.Engine)
	}
	if r.Store != nil {
		from += " · " + say.Engine(*r.Store)
	}
	return from + " · " + say.Count(r.Commands, "command") + " · " + ms(r.TookUS) + " ms"
}

// recordedWords say that a verdict is the recorded one, and why where a run was
// asked for.
func recordedWords(p *figures.Path, r Run) string {
	if r.Path == p && r.Result == nil && r.Trouble != "" {
		return "recorded · " + r.Trouble
	}
	return "recorded"
}

// announcement is a run in words that make sense alone, for the page's live
// region: who, what, how it ended, and who says so.
func announcement(f *figures.Figure, p *figures.Path, r *figures.Result) string {
	who := p.Label
	if actor := actorOf(f, p); actor != "" {
		who = actor + ", " + p.Label
	}
	if r.Schedule != nil && r.Schedule.Schedule != "" {
		who += ", schedule " + r.Schedule.Schedule
	}
	status := r.Status.String()
	if r.Status == figures.Unjudged {
		status = unjudged(r)
	}
	by := "Live, " + say.Engine(r.Engine) + "."
	if r.Engine.Simulated() {
		by = "Simulated, not Valkey."
	}
	return say.Sentence(who) + ": " + status + ". " + stop(r.Verdict) + " " + by
}

// stop ends a text with a full stop, unless it ends as a sentence does.
func stop(s string) string {
	if s == "" || strings.ContainsAny(s[len(s)-1:], ".!?") || strings.HasSuffix(s, "。") {
		return s
	}
	return s + "."
}

// A block is the part of a trace that belongs to one phase.
type block struct {
	Phase   figures.Phase
	Title   string
	Entries []figures.Entry
}

// blocks cuts a trace by phase.
func blocks(trace []figures.Entry) []block {
	titles := map[figures.Phase]string{
		figures.PhaseSetup:   "Setup",
		figures.PhaseSteps:   "Steps",
		figures.PhaseObserve: "Read afterwards",
	}
	var all []block
	for _, e := range trace {
		if len(all) == 0 || all[len(all)-1].Phase != e.Phase {
			all = append(all, block{Phase: e.Phase, Title: titles[e.Phase]})
		}
		last := &all[len(all)-1]
		last.Entries = append(last.Entries, e)
	}
	return all
}

// sameKey tells whether a key holds the same before and after, leases aside.
func sameKey(c *figures.Change) bool {
	return c.Before.Type == c.After.Type && c.Before.Text == c.After.Text
}

// said is a path's recorded verdict.
func said(p *figures.Path) string {
	return cmp.Or(p.Static, "No verdict is recorded for this path.")
}

// idle is what a readout says before anything was pointed at.
func idle(f *figures.Figure) string {
	return cmp.Or(f.Idle, "Point at a path to run it.")
}

// runID is the path that a page was asked to show.
func runID(r Run) string {
	if r.Path == nil {
		return ""
	}
	return r.Path.ID
}

// litBy says what lights a figure up: a live verdict, or the recorded one.
func litBy(r Run) string {
	switch {
	case r.Path == nil:
		return ""
	case r.Result == nil:
		return "recorded"
	}
	return "live"
}

// litStatus is the status in whose colour a figure is lit.
func litStatus(r Run) string {
	switch {
	case r.Path == nil:
		return ""
	case r.Result == nil:
		return recorded(r.Path).String()
	}
	return r.Result.Status.String()
}

// boxStatus is the status that a path's box wears: of a run, if it had one.
func boxStatus(p *figures.Path, r Run) string {
	if r.Path != p || r.Result == nil {
		return ""
	}
	return r.Result.Status.String()
}

// serverName is the server in a drawing that has no key.
func serverName(e sandbox.Engine) string {
	return cmp.Or(say.Server(e), "Valkey")
}
