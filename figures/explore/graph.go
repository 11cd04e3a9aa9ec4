// Package explore runs every order in which a server could execute the commands
// of a path's programs. It finds the states level by level on databases that it
// is given, counts exactly, and runs any one schedule again.
package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// Budget is how long one exploration may take. Over it, or over maxStates, is an
// author's error.
const Budget = 5 * time.Second

const (
	maxStates = 60_000
	minLease  = 1500 // ms; a shorter one could lapse by itself while schedules run
)

// Databases is how many an exploration uses at once: the server runs one command
// at a time, so two are enough to keep it busy while replies are read.
const Databases = 2

// batch is how many histories go down one connection in one write. It is small
// enough that the commands of other readers get between them.
const batch = 64

// A state is a world that some schedule passes through. Schedules that lead to
// equal worlds share it; what may follow is the same for all of them.
type state struct {
	world   *world
	parent  *state
	by      move            // the move that first led here from parent
	command sandbox.Command // what that move sent
	sent    bool            // it sent something

	over    bool   // a schedule may end here
	bad     uint32 // conditions of always that don't hold here
	badEnd  uint32 // conditions of finally that don't hold for a schedule that ends here
	edges   []edge
	counted bool

	schedules int   // how many ways there are to go on from here to an end
	broken    []int // of those, how many break each condition; the last is any condition
	short     []int // transitions of the shortest that does; -1 where none does
	shortest  int   // transitions of the shortest way to an end
}

type edge struct {
	move move
	to   *state
}

// A graph is every world that the schedules of a path pass through.
type graph struct {
	*programs
	setup    []sandbox.Command
	root     *state
	states   int
	commands int // sent to the server
	complete bool
	depth    int            // transitions of the histories of the newest level
	earliest []int          // for each condition, the depth at which it first broke; 0 where it didn't
	unkept   figures.Faults // promised replies that didn't come, once for each step
}

// Every runs every schedule of a path, in databases that are lent for it, and
// judges what they showed. A path over the budget of states is a Fault; one over
// the budget of time comes back incomplete.
func Every(ctx context.Context, dbs []*sandbox.DB, fig *figures.Figure, path *figures.Path) (*figures.Result, error) {
	result := &figures.Result{Asked: figures.Asked{Figure: fig.ID, Path: path.ID}, Values: map[string]any{}, State: map[string]any{}}
	g, err := limited(ctx, dbs, fig, path)
	if err != nil {
		return nil, err
	}
	result.Explored = g.explored()
	result.Commands, result.Unkept = g.commands, g.unkept
	if g.complete { // else the connections were cut in mid-air, and no schedule is whole
		shown := g.example()
		replayed, err := replay(ctx, dbs[0], fig, path, moveNames(shown))
		if err != nil {
			return nil, err
		}
		result.Trace, result.State, result.Resource = replayed.Trace, replayed.State, replayed.Resource
		result.Explored.Example = replayed.Schedule
	}
	figures.Judge(result, path, exploredEnv(result.Explored))
	return result, nil
}

// limited builds the graph of a path within the budget of time.
func limited(ctx context.Context, dbs []*sandbox.DB, fig *figures.Figure, path *figures.Path) (*graph, error) {
	ctx, cancel := context.WithTimeout(ctx, Budget)
	defer cancel()
	return buildGraph(ctx, dbs, fig, path)
}

// exploredEnv is what the rules of a path with programs may read.
func exploredEnv(e *figures.Explored) map[string]any {
	violations, counterexamples := map[string]any{}, map[string]any{}
	for _, c := range e.Conditions {
		violations[c] = e.Violations[c]
		counterexamples[c] = nil
		if s, ok := e.Counterexamples[c]; ok {
			counterexamples[c] = s
		}
	}
	return map[string]any{"schedules": e.Schedules, "states": e.States, "violations": violations, "counterexamples": counterexamples}
}

// buildGraph finds every state, level by level: all histories that are one
// transition longer than the last ones go out together. Each is run whole, in
// a clean database, from the setup on.
func buildGraph(ctx context.Context, dbs []*sandbox.DB, fig *figures.Figure, path *figures.Path) (*graph, error) {
	setup, err := prepare(ctx, dbs[0], fig, path, time.Now())
	if err != nil {
		return nil, err
	}
	g := &graph{programs: newPrograms(path, setup.base), setup: setup.commands}
	w := g.start()
	g.saw(w, setup.looked)
	g.root = g.newState(w)
	g.states, g.complete, g.earliest = 1, true, make([]int, len(g.names))
	for level := []*state{g.root}; len(level) > 0; {
		next, err := g.grow(ctx, dbs, fig, level)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			g.complete = false
			break
		}
		if err != nil {
			return nil, err
		}
		level = next
		if g.states > maxStates {
			return nil, figures.Fault{
				File: fig.File, Line: path.Line,
				Message: fmt.Sprintf("path %q is over the budget of an exploration: more than %d states, and %d histories still open", path.ID, maxStates, len(level)),
				Hint:    "leave out a client, a step or an event",
			}
		}
	}
	g.count(g.root)
	return g, nil
}

func (g *graph) newState(w *world) *state {
	s := &state{world: w, over: g.over(w)}
	s.bad, s.badEnd = g.broken(w)
	return s
}

// A trial is one history to run: a state and a move from there.
type trial struct {
	from    *state
	move    move
	command sandbox.Command
	sends   bool
	replies []sandbox.Value // to the move, then to look, then the state
}

// grow runs every move from the states of one level, and gives the states of
// the next.
func (g *graph) grow(ctx context.Context, dbs []*sandbox.DB, fig *figures.Figure, level []*state) ([]*state, error) {
	var all, sending []*trial
	for _, s := range level {
		for _, m := range g.enabled(s.world) {
			t := &trial{from: s, move: m}
			t.command, _, t.sends = g.command(s.world, m)
			all = append(all, t)
			if t.sends {
				sending = append(sending, t)
			}
		}
	}
	if err := g.run(ctx, dbs, sending); err != nil {
		return nil, err
	}
	found := make(map[string]*state, len(all))
	var next []*state
	for _, t := range all {
		w, key, err := g.arrive(t, fig)
		if err != nil {
			return nil, err
		}
		g.checkPromise(t)
		s := found[key]
		if s == nil {
			s = g.newState(w)
			s.parent, s.by, s.command, s.sent = t.from, t.move, t.command, t.sends
			found[key] = s
			next = append(next, s)
		}
		t.from.edges = append(t.from.edges, edge{t.move, s})
	}
	g.states += len(next)
	g.depth++
	g.noteBroken(next)
	return next, nil
}

// noteBroken keeps the depth at which each condition breaks first.
func (g *graph) noteBroken(level []*state) {
	for i := range g.names {
		if g.earliest[i] == 0 && slices.ContainsFunc(level, func(s *state) bool { return (s.bad|s.badEnd)&(1<<i) != 0 }) {
			g.earliest[i] = g.depth
		}
	}
}

// run sends trials down the connections of all databases.
func (g *graph) run(ctx context.Context, dbs []*sandbox.DB, trials []*trial) error {
	if len(trials) == 0 {
		return nil
	}
	share := (len(trials) + len(dbs) - 1) / len(dbs)
	errs := make([]error, len(dbs))
	sent := make([]int, len(dbs))
	var wg sync.WaitGroup
	for i, db := range dbs {
		from, to := min(i*share, len(trials)), min((i+1)*share, len(trials))
		wg.Go(func() {
			for ; from < to && errs[i] == nil; from += batch {
				var n int
				n, errs[i] = g.send(ctx, db, trials[from:min(from+batch, to)])
				sent[i] += n
			}
		})
	}
	wg.Wait()
	for _, n := range sent {
		g.commands += n
	}
	return errors.Join(errs...)
}

// send runs some trials in one round trip: for each a clean database, the
// setup, the history so far, the move, and a look at what came of it.
func (g *graph) send(ctx context.Context, db *sandbox.DB, trials []*trial) (int, error) {
	look := g.look()
	var commands []sandbox.Command
	starts := make([]int, len(trials))
	for i, t := range trials {
		commands = append(commands, sandbox.Flush())
		commands = append(commands, g.setup...)
		commands = t.from.history(commands)
		starts[i] = len(commands)
		commands = append(commands, t.command)
		commands = append(commands, look...)
		commands = append(commands, sandbox.State())
	}
	replies, err := db.Do(ctx, commands)
	if err != nil {
		return 0, err
	}
	for i, t := range trials {
		t.replies = replies[starts[i] : starts[i]+1+len(look)+1]
	}
	return len(commands), nil
}

// history appends the commands that lead to a state.
func (s *state) history(commands []sandbox.Command) []sandbox.Command {
	if s.parent != nil {
		commands = s.parent.history(commands)
	}
	if s.sent {
		commands = append(commands, s.command)
	}
	return commands
}

// arrive gives the world that a trial led to, and its key. A move that sends
// nothing leaves the server as it was.
func (g *graph) arrive(t *trial, fig *figures.Figure) (*world, string, error) {
	if !t.sends {
		w := g.after(t.from.world, t.move, nil)
		w.fingerprint = t.from.world.fingerprint
		return w, g.key(w), nil
	}
	look := len(g.look())
	w := g.after(t.from.world, t.move, t.replies[0])
	g.saw(w, t.replies[1:1+look])
	print, lease, err := fingerprint(t.replies[1+look])
	if err != nil {
		return nil, "", err
	}
	if lease >= 0 && lease < minLease {
		return nil, "", figures.Fault{
			File: fig.File, Line: g.path.Line,
			Message: fmt.Sprintf("path %q runs every schedule under a lease of %d ms", g.path.ID, lease),
			Hint:    "there time is moved by hand, by `lapse`; give leases in programs at least 2000 ms",
		}
	}
	w.fingerprint = print
	return w, g.key(w), nil
}

// checkPromise notes a step whose reply isn't the promised one in some schedule.
func (g *graph) checkPromise(t *trial) {
	if !t.sends || t.move.actor < 0 {
		return
	}
	s := g.path.Programs[t.move.actor].Steps[t.from.world.actors[t.move.actor].next]
	if s.Promise == nil || s.Promise.Matches(t.replies[0]) || slices.ContainsFunc(g.unkept, func(f figures.Fault) bool { return f.Line == s.Line }) {
		return
	}
	g.unkept = append(g.unkept, figures.Fault{Line: s.Line, Message: fmt.Sprintf("the reply to %s is %s in some schedule, and %s is promised", s.Does.(figures.Send).Command.Source, expr.Print(t.replies[0]), s.Promise)})
}

// fingerprint reads the reply to sandbox.State.
func fingerprint(v sandbox.Value) (print string, lease int64, err error) {
	parts, ok := v.([]any)
	if !ok || len(parts) != 3 {
		return "", 0, fmt.Errorf("fingerprint of a state: %v", v)
	}
	lease, _ = parts[2].(int64)
	return expr.Print(parts[0]), lease, nil
}

// count finds, for every state, how many schedules go on from it, and how many
// of them break what.
func (g *graph) count(s *state) {
	if s.counted {
		return
	}
	s.counted = true
	conditions := len(g.names)
	s.broken = make([]int, conditions+1)
	s.short = make([]int, conditions+1)
	for i := range s.short {
		s.short[i] = -1
	}
	s.shortest = -1
	if s.over {
		s.schedules, s.shortest = 1, 0
		for i := range s.broken {
			if breaks(s.badEnd, i, conditions) {
				s.broken[i], s.short[i] = 1, 0
			}
		}
	}
	for _, e := range s.edges {
		g.count(e.to)
		s.schedules += e.to.schedules
		s.shortest = least(s.shortest, e.to.shortest)
		for i := range s.broken {
			s.broken[i] += e.to.broken[i]
			s.short[i] = least(s.short[i], e.to.short[i])
		}
	}
	for i := range s.broken {
		if breaks(s.bad, i, conditions) && s != g.root {
			s.broken[i], s.short[i] = s.schedules, s.shortest
		}
	}
}

// breaks tells whether condition i is among the broken ones; the one past the
// last stands for any of them.
func breaks(bits uint32, i, conditions int) bool {
	if i == conditions {
		return bits != 0
	}
	return bits&(1<<i) != 0
}

// least is the smaller of a and one transition more than b; -1 is none.
func least(a, b int) int {
	if b < 0 {
		return a
	}
	if a < 0 {
		return b + 1
	}
	return min(a, b+1)
}

// find gives the shortest schedule that breaks condition i; of equals the
// first, since edges stand in the order of the contract.
func (g *graph) find(i int) []move {
	var moves []move
	s := g.root
	broken := false
	for {
		broken = broken || s != g.root && breaks(s.bad, i, len(g.names))
		left := s.short[i]
		if broken {
			left = s.shortest
		}
		if left == 0 {
			return moves
		}
		for _, e := range s.edges {
			to := e.to.short[i]
			if broken {
				to = e.to.shortest
			}
			if to == left-1 {
				moves, s = append(moves, e.move), e.to
				break
			}
		}
	}
}

// first is the first of all schedules.
func (g *graph) first() []move {
	var moves []move
	s := g.root
	for !s.over && len(s.edges) > 0 {
		moves, s = append(moves, s.edges[0].move), s.edges[0].to
	}
	return moves
}

// example is the schedule that a result shows: the shortest counterexample of
// the first condition that has one, or else the first schedule.
func (g *graph) example() []move {
	for i := range g.names {
		if g.root.short[i] >= 0 {
			return g.find(i)
		}
	}
	return g.first()
}

func (g *graph) explored() *figures.Explored {
	e := &figures.Explored{
		Schedules:       g.root.schedules,
		States:          g.states,
		Violations:      map[string]int{},
		Counterexamples: map[string]string{},
		Conditions:      g.names,
		Complete:        g.complete,
		Cells:           g.cells(),
		Lengths:         map[string]int{},
		Earliest:        map[string]int{},
	}
	for i, name := range g.names {
		e.Violations[name] = g.root.broken[i]
		if g.root.short[i] >= 0 {
			e.Counterexamples[name] = schedule(g.find(i))
			e.Lengths[name] = g.root.short[i]
			e.Earliest[name] = g.earliest[i]
		}
	}
	for _, program := range g.path.Programs {
		e.Clients = append(e.Clients, program.Actor)
	}
	return e
}
