package explore

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// A world is a path's programs at one moment of a schedule: how far each actor
// has come, what it was answered, who is inside, and what the server was last
// seen to hold. Worlds are values: a move makes a new one.
type world struct {
	actors []actorState
	used   []uint8 // how often each event has happened
	inside uint32  // bit i: actor i is between enter and leave
	seen   map[string]any
	leased []bool // for each key that an event can lapse: it has a lease

	fingerprint string // the server's, of all that the database holds
}

type actorState struct {
	next  int // index of the next step; len(steps) where none is left
	bound map[string]any
}

// A move is one transition: of an actor, or of an event.
type move struct {
	name  string // as in a schedule: "A", "lapse", "crash:A"
	actor int    // index of the program; -1 for an event
	event int    // index of the event; -1 for an actor
}

// programs is a path's programs made ready to be run in any order.
type programs struct {
	path     *figures.Path
	base     map[string]any // what the setup bound
	moves    []move         // all that can ever happen, in the order of the contract
	keys     []string       // keys that events lapse
	fixed    [][]sandbox.Command
	needed   map[string]bool // "A.got" and "got": the replies that anything reads
	always   int             // the first of the conditions that are judged after each transition
	names    []string        // of the conditions: always, then finally
	pathSeen []sandbox.Command
}

func newPrograms(path *figures.Path, base map[string]any) *programs {
	p := &programs{path: path, base: base, needed: map[string]bool{}, always: len(path.Always)}
	for i, program := range path.Programs {
		p.moves = append(p.moves, move{name: program.Actor, actor: i, event: -1})
		fixed := make([]sandbox.Command, len(program.Steps))
		for j, s := range program.Steps {
			send, ok := s.Does.(figures.Send)
			if !ok {
				continue
			}
			for _, n := range send.Command.Names() {
				p.needed[n.Root], p.needed[n.Root+"."+n.Member] = true, true
			}
			if isFixed(send.Command) {
				args, _ := send.Command.Fill(map[string]any{"self": program.Actor})
				fixed[j] = sandbox.Cmd(args...)
			}
		}
		p.fixed = append(p.fixed, fixed)
	}
	for i, ev := range path.Events {
		p.moves = append(p.moves, move{name: ev.Name, actor: -1, event: i})
		if lapse, ok := ev.Does.(figures.Lapse); ok && !slices.Contains(p.keys, lapse.Key.Source) {
			p.keys = append(p.keys, lapse.Key.Source)
		}
		if ev.If != nil {
			p.need(ev.If)
		}
	}
	for _, c := range slices.Concat(path.Always, path.Finally) {
		p.names = append(p.names, c.Name)
		p.need(c.Expr)
	}
	for _, o := range path.Observe {
		args, _ := o.Command.Fill(base)
		p.pathSeen = append(p.pathSeen, sandbox.Cmd(args...))
	}
	for _, key := range p.keys {
		p.pathSeen = append(p.pathSeen, sandbox.Cmd("PTTL", key))
	}
	return p
}

func (p *programs) need(e *expr.Expr) {
	for _, n := range e.Names {
		p.needed[n.Root+"."+n.Member] = true
		if n.Member == "" {
			p.needed[n.Root] = true
		}
	}
}

// isFixed tells whether a command is the same in every schedule.
func isFixed(c expr.Command) bool {
	return !slices.ContainsFunc(c.Names(), func(n expr.Name) bool { return n.Root != "self" })
}

// start is the world before the first transition.
func (p *programs) start() *world {
	w := &world{actors: make([]actorState, len(p.path.Programs)), used: make([]uint8, len(p.path.Events)), leased: make([]bool, len(p.keys))}
	for i, program := range p.path.Programs {
		if program.Enter {
			w.inside |= 1 << i
		}
	}
	return w
}

// look reads what the server holds: the observations, then the leases.
func (p *programs) look() []sandbox.Command { return p.pathSeen }

// saw takes in the replies to look.
func (p *programs) saw(w *world, replies []sandbox.Value) {
	w.seen = make(map[string]any, len(p.path.Observe))
	for i, o := range p.path.Observe {
		w.seen[o.Name] = replies[i]
	}
	w.leased = make([]bool, len(p.keys))
	for i := range p.keys {
		left, _ := replies[len(p.path.Observe)+i].(int64)
		w.leased[i] = left >= 0
	}
}

// env is what conditions and events may read.
func (p *programs) env(w *world) map[string]any {
	env := make(map[string]any, len(p.base)+len(w.seen)+len(w.actors)+2)
	for k, v := range p.base {
		env[k] = v
	}
	for k, v := range w.seen {
		env[k] = v
	}
	insiders := p.insiders(w)
	env["inside"], env["insiders"] = len(insiders), insiders
	for i, program := range p.path.Programs {
		env[program.Actor] = w.actors[i].bound
	}
	return env
}

func (p *programs) insiders(w *world) []string {
	names := make([]string, 0, bits.OnesCount32(w.inside))
	for i, program := range p.path.Programs {
		if w.inside&(1<<i) != 0 {
			names = append(names, program.Actor)
		}
	}
	return names
}

// enabled are the moves that may happen next.
func (p *programs) enabled(w *world) []move {
	var all []move
	var env map[string]any
	for _, m := range p.moves {
		if m.actor >= 0 {
			if w.actors[m.actor].next < len(p.path.Programs[m.actor].Steps) {
				all = append(all, m)
			}
			continue
		}
		ev := p.path.Events[m.event]
		if int(w.used[m.event]) >= ev.Times {
			continue
		}
		switch does := ev.Does.(type) {
		case figures.Lapse:
			if !w.leased[slices.Index(p.keys, does.Key.Source)] {
				continue
			}
		case figures.Crash:
			i := p.program(does.Actor)
			if a := w.actors[i]; a.next == 0 || a.next >= len(p.path.Programs[i].Steps) {
				continue
			}
		}
		if ev.If != nil {
			if env == nil {
				env = p.env(w)
			}
			if !ev.If.Holds(env) {
				continue
			}
		}
		all = append(all, m)
	}
	return all
}

func (p *programs) program(actor string) int {
	return slices.IndexFunc(p.path.Programs, func(pr figures.Program) bool { return pr.Actor == actor })
}

// over tells whether nothing but events can happen any more: a schedule may
// end here.
func (p *programs) over(w *world) bool {
	for i, a := range w.actors {
		if a.next < len(p.path.Programs[i].Steps) {
			return false
		}
	}
	return true
}

// command is what a move sends; ok is false where it sends nothing.
func (p *programs) command(w *world, m move) (c sandbox.Command, line string, ok bool) {
	if m.event >= 0 {
		if lapse, ok := p.path.Events[m.event].Does.(figures.Lapse); ok {
			return sandbox.Lapse(lapse.Key.Source), "", true
		}
		return c, "", false
	}
	at := w.actors[m.actor].next
	s := p.path.Programs[m.actor].Steps[at]
	send, sends := s.Does.(figures.Send)
	if !sends {
		return c, "", false
	}
	if isFixed(send.Command) {
		return p.fixed[m.actor][at], "", true
	}
	args, line := send.Command.Fill(p.commandEnv(w, m.actor))
	return sandbox.Cmd(args...), line, true
}

// commandEnv is what an actor's command may read: its own replies by their
// bare names, those of others as B.got, and its own name as self.
func (p *programs) commandEnv(w *world, actor int) map[string]any {
	env := p.env(w)
	for k, v := range w.actors[actor].bound {
		env[k] = v
	}
	env["self"] = p.path.Programs[actor].Actor
	return env
}

// line is the command of a move as a reader sees it.
func (p *programs) line(w *world, m move) string {
	send := p.path.Programs[m.actor].Steps[w.actors[m.actor].next].Does.(figures.Send)
	_, line := send.Command.Fill(p.commandEnv(w, m.actor))
	return line
}

// after is the world that a move leads to, given the reply to its command.
func (p *programs) after(w *world, m move, reply sandbox.Value) *world {
	n := &world{actors: slices.Clone(w.actors), used: w.used, inside: w.inside, seen: w.seen, leased: w.leased}
	if m.event >= 0 {
		n.used = slices.Clone(w.used)
		n.used[m.event]++
		if crash, ok := p.path.Events[m.event].Does.(figures.Crash); ok {
			i := p.program(crash.Actor)
			n.actors[i].next = len(p.path.Programs[i].Steps)
			n.inside &^= 1 << i
		}
		return n
	}
	program := p.path.Programs[m.actor]
	a := &n.actors[m.actor]
	s := program.Steps[a.next]
	a.next++
	if s.As != "" && (p.needed[program.Actor+"."+s.As] || p.needed[s.As] || p.needed[program.Actor]) {
		bound := make(map[string]any, len(a.bound)+1)
		for k, v := range a.bound {
			bound[k] = v
		}
		bound[s.As] = reply
		a.bound = bound
	}
	if s.Stop && figures.Failed(reply) {
		a.next = len(program.Steps)
		n.inside &^= 1 << m.actor
		return n
	}
	if s.Enter {
		n.inside |= 1 << m.actor
	}
	if s.Leave {
		n.inside &^= 1 << m.actor
	}
	return n
}

// broken are the conditions that don't hold, as bits in the order of names:
// those of always, and, at the end of a schedule, those of finally.
func (p *programs) broken(w *world) (always, finally uint32) {
	if len(p.names) == 0 {
		return 0, 0
	}
	env := p.env(w)
	for i, c := range p.path.Always {
		if !c.Expr.Holds(env) {
			always |= 1 << i
		}
	}
	if p.over(w) {
		for i, c := range p.path.Finally {
			if !c.Expr.Holds(env) {
				finally |= 1 << (p.always + i)
			}
		}
	}
	return always, finally
}

// key tells equal worlds from different ones.
func (p *programs) key(w *world) string {
	var b strings.Builder
	for _, a := range w.actors {
		b.WriteByte(byte(a.next))
		if len(a.bound) > 0 {
			// fmt writes maps in the order of their keys; %#v tells "1" from 1.
			fmt.Fprintf(&b, "%#v", a.bound)
		}
		b.WriteByte('|')
	}
	b.Write(w.used)
	fmt.Fprintf(&b, "|%x|%s", w.inside, w.fingerprint)
	return b.String()
}

// schedule writes moves as FIGURES.md does.
func schedule(moves []move) string {
	names := make([]string, len(moves))
	for i, m := range moves {
		names[i] = m.name
	}
	return strings.Join(names, ".")
}

// A ScheduleError is a schedule that can't happen.
type ScheduleError struct {
	Step     int      // from 1: the transition at fault
	name     string   // what was asked for
	Possible []string // what was possible there
}

func (e *ScheduleError) Error() string {
	if len(e.Possible) == 0 {
		return fmt.Sprintf("step %d, %q: nothing can happen any more there", e.Step, e.name)
	}
	return fmt.Sprintf("step %d, %q: possible there is %s", e.Step, e.name, strings.Join(e.Possible, ", "))
}

// moveNames are the moves as they are written in schedules.
func moveNames(moves []move) []string {
	names := make([]string, len(moves))
	for i, m := range moves {
		names[i] = m.name
	}
	return names
}

// splitSchedule takes a schedule apart. Keys of lapses may hold dots, so names
// are matched, longest first, rather than split.
func (p *programs) splitSchedule(text string) []string {
	var all []string
	for text != "" {
		best := ""
		for _, m := range p.moves {
			if rest, ok := strings.CutPrefix(text, m.name); ok && (rest == "" || rest[0] == '.') && len(m.name) > len(best) {
				best = m.name
			}
		}
		if best == "" {
			best, _, _ = strings.Cut(text, ".")
		}
		all = append(all, best)
		text = strings.TrimPrefix(strings.TrimPrefix(text, best), ".")
	}
	return all
}
