package explore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// maxSchedule is the longest schedule that can be asked for, in bytes.
const maxSchedule = 2000

// Replay runs one schedule of a path with programs, or a beginning of one, and
// lists what may happen next. A schedule that can't happen is a ScheduleError.
// known is what is known of the path from its exploration; it may be nil.
func Replay(ctx context.Context, db *sandbox.DB, fig *figures.Figure, path *figures.Path, text string, known *figures.Explored) (*figures.Result, error) {
	if !path.Explores() || len(text) > maxSchedule {
		return nil, &ScheduleError{Step: 1, name: text}
	}
	result, err := replay(ctx, db, fig, path, newPrograms(path, nil).splitSchedule(text))
	if err == nil && known != nil {
		measure(result.Schedule, known)
	}
	return result, err
}

// measure holds a schedule against the shortest ones that break what it breaks,
// or anything where it breaks nothing.
func measure(s *figures.Replay, known *figures.Explored) {
	conditions := s.Broken
	if len(conditions) == 0 {
		conditions = known.Conditions
	}
	for _, c := range conditions {
		n := known.Lengths[c]
		if n > 0 && (s.Shortest == 0 || n < s.Shortest) {
			s.Shortest = n
		}
		if n = known.Earliest[c]; n > 0 && (s.Earliest == 0 || n < s.Earliest) {
			s.Earliest = n
		}
	}
}

// prepared is a path with programs whose setup has run once.
type prepared struct {
	base     map[string]any    // what the setup bound
	commands []sandbox.Command // as they were sent
	trace    []figures.Entry
	looked   []sandbox.Value // what the server then holds: see programs.look
}

// prepare runs the setup of a path with programs in an empty database. A lapse
// in it is made, not waited for.
func prepare(ctx context.Context, db *sandbox.DB, fig *figures.Figure, path *figures.Path, start time.Time) (*prepared, error) {
	p := &prepared{base: map[string]any{}}
	if _, err := db.Do(ctx, []sandbox.Command{sandbox.Flush()}); err != nil {
		return nil, err
	}
	for _, s := range path.Setup {
		e := figures.Entry{Phase: figures.PhaseSetup, Actor: s.Actor(), Note: s.Note, Name: s.As}
		var command sandbox.Command
		lapse, lapses := s.Does.(figures.Lapse)
		if lapses {
			key := lapse.Key.Fill(p.base)
			command, e.Event = sandbox.Lapse(key), "lapse "+key
		} else {
			var args []string
			args, e.Command = s.Does.(figures.Send).Command.Fill(p.base)
			command = sandbox.Cmd(args...)
		}
		replies, err := db.Do(ctx, []sandbox.Command{command})
		if err != nil {
			return nil, err
		}
		reply := replies[0]
		if lapses {
			if reply == int64(-1) {
				return nil, figures.Fault{File: fig.File, Line: s.Line, Message: "lapse: " + lapse.Key.Source + " holds no lease", Hint: "it has no expiry; set it with PX"}
			}
		} else {
			e.Reply = reply
			_, e.Error = reply.(sandbox.Error)
		}
		if s.As != "" {
			p.base[s.As] = reply
		}
		e.AtUS = time.Since(start).Microseconds()
		p.commands = append(p.commands, command)
		p.trace = append(p.trace, e)
	}
	if look := newPrograms(path, p.base).look(); len(look) > 0 {
		var err error
		if p.looked, err = db.Do(ctx, look); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// replay runs a schedule step by step, looking at the server after each.
func replay(ctx context.Context, db *sandbox.DB, fig *figures.Figure, path *figures.Path, names []string) (*figures.Result, error) {
	start := time.Now()
	setup, err := prepare(ctx, db, fig, path, start)
	if err != nil {
		return nil, err
	}
	p := &replayer{
		programs: newPrograms(path, setup.base), fig: fig, db: db, begun: start,
		result: &figures.Result{
			Asked: figures.Asked{Figure: fig.ID, Path: path.ID}, Values: map[string]any{}, State: map[string]any{},
			Trace: setup.trace, Commands: len(setup.commands),
		},
	}
	w := p.start()
	p.saw(w, setup.looked)
	if err := p.peek(ctx); err != nil {
		return nil, err
	}
	p.before = p.key
	var broken uint32
	for i, name := range names {
		moves := p.enabled(w)
		at := slices.IndexFunc(moves, func(m move) bool { return m.name == name })
		if at < 0 {
			return nil, &ScheduleError{Step: i + 1, name: name, Possible: moveNames(moves)}
		}
		if w, err = p.step(ctx, w, moves[at], &broken); err != nil {
			return nil, err
		}
	}
	p.finish(w, names, broken)
	if fig.Resource != "" {
		p.result.Resource = &figures.Change{Key: fig.Resource, Before: p.before, After: p.key}
	}
	return p.result, nil
}

// A replayer runs one schedule.
type replayer struct {
	*programs
	fig    *figures.Figure
	db     *sandbox.DB
	begun  time.Time
	result *figures.Result
	before figures.KeyState // the protected key before the first step
	key    figures.KeyState // and as it was last seen
}

// step makes one move and looks at what came of it, in one round trip.
func (p *replayer) step(ctx context.Context, w *world, m move, broken *uint32) (*world, error) {
	e := figures.Entry{Phase: figures.PhaseSteps}
	if m.actor >= 0 {
		s := p.path.Programs[m.actor].Steps[w.actors[m.actor].next]
		e.Actor, e.Note, e.Name = m.name, s.Note, s.As
		if _, sends := s.Does.(figures.Send); sends {
			e.Command = p.line(w, m)
		} else {
			e.Event = s.Event()
		}
	} else {
		ev := figures.Step{Does: p.path.Events[m.event].Does}
		e.Event, e.Actor = ev.Event(), ev.Actor()
	}
	command, _, sends := p.command(w, m)
	var reply sandbox.Value
	var replies []sandbox.Value
	if sends {
		commands := append([]sandbox.Command{command}, p.look()...)
		if p.fig.Resource != "" {
			commands = append(commands, sandbox.Peek(p.fig.Resource))
		}
		var err error
		if replies, err = p.db.Do(ctx, commands); err != nil {
			return nil, err
		}
		reply = replies[0]
		if p.fig.Resource != "" {
			p.key = figures.KeyOf(replies[len(replies)-1])
		}
	}
	next := p.after(w, m, reply)
	if sends {
		p.saw(next, replies[1:])
	}
	if e.Command != "" {
		e.Reply = reply
		_, e.Error = reply.(sandbox.Error)
		p.result.Commands++
	}
	e.AtUS = time.Since(p.begun).Microseconds()
	e.Inside = p.insiders(next)
	if p.fig.Resource != "" {
		key := p.key
		e.Key = &key
	}
	always, _ := p.broken(next)
	e.Breaks = p.bitNames(always &^ *broken)
	*broken |= always
	p.result.Trace = append(p.result.Trace, e)
	return next, nil
}

func (p *replayer) peek(ctx context.Context) error {
	if p.fig.Resource == "" {
		return nil
	}
	replies, err := p.db.Do(ctx, []sandbox.Command{sandbox.Peek(p.fig.Resource)})
	if err != nil {
		return err
	}
	p.key = figures.KeyOf(replies[0])
	return nil
}

// finish says what the schedule came to.
func (p *replayer) finish(w *world, names []string, broken uint32) {
	r := p.result
	_, finally := p.programs.broken(w)
	if len(r.Trace) > 0 && finally != 0 {
		last := &r.Trace[len(r.Trace)-1]
		last.Breaks = append(last.Breaks, p.bitNames(finally)...)
	}
	moves := p.enabled(w)
	r.Next = moveNames(moves)
	r.Schedule = &figures.Replay{
		Schedule: strings.Join(names, "."),
		Complete: p.over(w),
		Broken:   p.bitNames(broken | finally),
		Inside:   p.insiders(w),
		Steps:    len(names),
	}
	for _, o := range p.path.Observe {
		r.State[o.Name] = w.seen[o.Name]
	}
	for i, program := range p.path.Programs {
		for name, v := range w.actors[i].bound {
			r.Values[program.Actor+"."+name] = v
		}
	}
	r.TookUS = time.Since(p.begun).Microseconds()
	p.judge(w, moves)
}

// judge words what a schedule showed, from the conditions alone.
func (p *replayer) judge(w *world, moves []move) {
	r := p.result
	switch {
	case len(r.Schedule.Broken) > 0:
		r.Status = figures.Broken
		r.Verdict = p.whatBroke()
		r.Schedule.Why = r.Verdict
	case r.Schedule.Complete:
		r.Status = figures.Safe
		r.Verdict = "This schedule breaks nothing."
		if len(p.names) > 0 {
			r.Verdict = "This schedule keeps " + and(p.names) + "."
		}
	default:
		r.Verdict = "Nothing is broken so far. Next may be " + or(moveNames(moves)) + "."
	}
}

// whatBroke points at the step that broke the first condition, and says what
// stood there.
func (p *replayer) whatBroke() string {
	var steps []figures.Entry
	for _, e := range p.result.Trace {
		if e.Phase == figures.PhaseSteps {
			steps = append(steps, e)
		}
	}
	at := slices.IndexFunc(steps, func(e figures.Entry) bool { return len(e.Breaks) > 0 })
	if at < 0 {
		return "It breaks " + and(p.result.Schedule.Broken) + " before its first step."
	}
	e := steps[at]
	var b strings.Builder
	fmt.Fprintf(&b, "Step %d breaks %s: %s", at+1, and(e.Breaks), p.happened(e))
	if len(e.Inside) > 1 {
		fmt.Fprintf(&b, ", and now %s are inside together", and(p.labels(e.Inside)))
	}
	b.WriteString(".")
	switch {
	case e.Key != nil && len(e.Inside) > 1 && slices.Contains(strings.Fields(e.Command), p.fig.Resource):
		b.WriteString(p.gaveWay(steps, at))
	case len(e.Inside) > 1:
		b.WriteString(p.lapsed(steps, at))
	case e.Key != nil && at == len(steps)-1 && p.result.Schedule.Complete && e.Key.Type != "none":
		fmt.Fprintf(&b, " At the end %s holds %s", p.fig.Resource, quoted(*e.Key))
		if e.Key.TTL == -1 {
			b.WriteString(", with no expiry")
		}
		b.WriteString(".")
	}
	return b.String()
}

// happened words one entry of a schedule.
func (p *replayer) happened(e figures.Entry) string {
	kind, rest, _ := strings.Cut(e.Event, " ")
	switch {
	case e.Command != "":
		return fmt.Sprintf("%s is answered %s to %s", p.fig.Label(e.Actor), expr.Print(e.Reply), e.Command)
	case kind == "lapse":
		return "the lease of " + rest + " lapses"
	case kind == "crash":
		return p.fig.Label(rest) + " crashes"
	}
	return p.fig.Label(e.Actor) + " works"
}

// gaveWay says what had become of the protected key, so that one more actor
// could get in: its last change under somebody who was inside and still is.
func (p *replayer) gaveWay(steps []figures.Entry, at int) string {
	for i := at; i >= 0; i-- {
		before, inside := p.before, []string(nil)
		if i > 0 {
			before, inside = *steps[i-1].Key, steps[i-1].Inside
		}
		e, after := steps[i], *steps[i].Key
		held := still(inside, steps[at].Inside, e.Actor)
		if len(held) == 0 || before.Type != "string" || after.Type == before.Type && after.Text == before.Text {
			continue
		}
		during := p.during(held)
		switch {
		case i == at:
			return fmt.Sprintf(" It took the place of %s in %s.", quoted(before), p.fig.Resource)
		case e.Command == "":
			return fmt.Sprintf(" The lease of %s had lapsed at step %d, %s", p.fig.Resource, i+1, during)
		case after.Type == "none":
			return fmt.Sprintf(" Step %d, %s by %s, had removed %s from %s %s", i+1, e.Command, p.fig.Label(e.Actor), quoted(before), p.fig.Resource, during)
		}
		return fmt.Sprintf(" Step %d, %s by %s, had overwritten %s in %s %s", i+1, e.Command, p.fig.Label(e.Actor), quoted(before), p.fig.Resource, during)
	}
	return ""
}

// lapsed says which lease, of a key that the step at names, had run out under
// somebody who was inside and still is.
func (p *replayer) lapsed(steps []figures.Entry, at int) string {
	for i := at - 1; i > 0; i-- {
		key, ok := strings.CutPrefix(steps[i].Event, "lapse ")
		held := still(steps[i].Inside, steps[at].Inside, steps[at].Actor)
		if ok && len(held) > 0 && slices.Contains(strings.Fields(steps[at].Command), key) {
			return fmt.Sprintf(" The lease of %s had lapsed at step %d, %s", key, i+1, p.during(held))
		}
	}
	return ""
}

// still are those of inside who are inside later too, one actor aside.
func still(inside, later []string, aside string) []string {
	return slices.DeleteFunc(slices.Clone(inside), func(a string) bool { return a == aside || !slices.Contains(later, a) })
}

func (p *replayer) during(held []string) string {
	if len(held) == 1 {
		return fmt.Sprintf("while %s was inside.", p.fig.Label(held[0]))
	}
	return fmt.Sprintf("while %s were inside.", and(p.labels(held)))
}

// quoted is what a key holds, as a sentence names it.
func quoted(k figures.KeyState) string {
	if k.Type == "string" {
		return strconv.Quote(k.Text)
	}
	return k.Text
}

func (p *replayer) labels(actors []string) []string {
	labels := make([]string, len(actors))
	for i, a := range actors {
		labels[i] = p.fig.Label(a)
	}
	return labels
}

// and joins words as a sentence does.
func and(words []string) string { return join(words, " and ") }

func or(words []string) string { return join(words, " or ") }

func join(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + last + words[len(words)-1]
}

// bitNames are the conditions whose bits are set.
func (p *programs) bitNames(bits uint32) []string {
	names := []string{}
	for i, name := range p.names {
		if bits&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
