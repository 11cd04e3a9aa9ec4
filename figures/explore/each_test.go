package explore

import (
	"context"
	"fmt"
	"slices"

	"lockstep/figures"
	"lockstep/sandbox"
)

// maxEach is how many schedules Each runs whole.
const maxEach = 20_000

// Each runs every schedule of a path from its start to its end, each in a
// clean database, and judges it by what the server then answered: nothing is
// taken over from another schedule. It is the proof that merging states loses
// nothing; Every is the fast way.
//
// Which schedules there are is learnt by the way of Every first. A reply that
// differs from what was learnt there is an error.
func Each(ctx context.Context, dbs []*sandbox.DB, fig *figures.Figure, path *figures.Path) (*figures.Explored, error) {
	g, err := limited(ctx, dbs, fig, path)
	if err != nil {
		return nil, err
	}
	if g.root.schedules > maxEach {
		return nil, fmt.Errorf("path %q has %d schedules; %d are run one by one", path.ID, g.root.schedules, maxEach)
	}
	return g.each(ctx, dbs[0], maxEach)
}

// each runs the first n schedules, some in one round trip.
func (g *graph) each(ctx context.Context, db *sandbox.DB, n int) (*figures.Explored, error) {
	e := &figures.Explored{Violations: map[string]int{}, Counterexamples: map[string]string{}, Conditions: g.names, Complete: true}
	for _, name := range g.names {
		e.Violations[name] = 0
	}
	shortest := map[string]int{}
	var waiting [][]*state
	var failed error
	send := func() {
		outcomes, err := g.runWhole(ctx, db, waiting)
		if failed = err; err != nil {
			return
		}
		for i, broken := range outcomes {
			e.Schedules++
			moves := movesOf(waiting[i])
			for _, name := range g.bitNames(broken) {
				e.Violations[name]++
				if n, ok := shortest[name]; !ok || len(moves) < n {
					shortest[name], e.Counterexamples[name] = len(moves), schedule(moves)
				}
			}
		}
		waiting = waiting[:0]
	}
	g.eachSchedule(n, func(along []*state) {
		if failed != nil {
			return
		}
		if waiting = append(waiting, slices.Clone(along)); len(waiting) == batch {
			send()
		}
	})
	if failed == nil {
		send()
	}
	return e, failed
}

// eachSchedule visits the first n schedules in the order of the contract, each
// as the states that it passes through.
func (g *graph) eachSchedule(n int, visit func(along []*state)) {
	var walk func(s *state, along []*state)
	walk = func(s *state, along []*state) {
		if s.over && n > 0 {
			n--
			visit(along)
		}
		for _, next := range s.edges {
			if n == 0 {
				return
			}
			// One world may be reached by several moves: what was sent is the
			// edge's own, so a copy carries it.
			step := *next.to
			step.by = next.move
			step.command, _, step.sent = g.command(s.world, next.move)
			walk(next.to, append(along, &step))
		}
	}
	walk(g.root, nil)
}

func movesOf(along []*state) []move {
	moves := make([]move, len(along))
	for i, s := range along {
		moves[i] = s.by
	}
	return moves
}

// runWhole runs schedules from their start, and gives the conditions that each
// broke.
func (g *graph) runWhole(ctx context.Context, db *sandbox.DB, schedules [][]*state) ([]uint32, error) {
	look := g.look()
	var commands []sandbox.Command
	for _, along := range schedules {
		commands = append(commands, sandbox.Flush())
		commands = append(commands, g.setup...)
		commands = append(commands, look...)
		for _, s := range along {
			if s.sent {
				commands = append(append(commands, s.command), look...)
			}
		}
	}
	if len(commands) == 0 {
		return nil, nil
	}
	replies, err := db.Do(ctx, commands)
	if err != nil {
		return nil, err
	}
	outcomes := make([]uint32, len(schedules))
	at := 0
	take := func(n int) []sandbox.Value {
		at += n
		return replies[at-n : at]
	}
	for i, along := range schedules {
		take(1 + len(g.setup))
		w := g.start()
		g.saw(w, take(len(look)))
		for _, s := range along {
			var reply sandbox.Value
			var looked []sandbox.Value
			if s.sent {
				reply, looked = take(1)[0], take(len(look))
			}
			if w = g.after(w, s.by, reply); s.sent {
				g.saw(w, looked)
			}
			if !g.sameCourse(w, s.world) {
				return nil, fmt.Errorf("schedule %s came out differently the second time, at %s", schedule(movesOf(along)), s.by.name)
			}
			always, finally := g.programs.broken(w)
			outcomes[i] |= always
			if s == along[len(along)-1] {
				outcomes[i] |= finally
			}
		}
	}
	return outcomes, nil
}

// sameCourse tells whether two worlds allow the same moves of the actors.
func (g *graph) sameCourse(a, b *world) bool {
	for i := range a.actors {
		if a.actors[i].next != b.actors[i].next {
			return false
		}
	}
	return a.inside == b.inside
}
