package card

import (
	"slices"
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// maxEntries is how many entries of a run a sequence shows, and maxLanes how
// many actors; what is longer or wider has its table.
const (
	maxEntries = 40
	maxLanes   = 8
)

// A sequence is a single run as who sent what, in order: a lane for each actor,
// half of them on either side of the server's.
type sequence struct {
	Actors []string // from left to right
	Server int      // the server's lane, from 1
	Name   string   // what its lane is called
	Setup  []exchange
	Steps  []exchange
}

// An exchange is one row of a sequence: a command and its reply, or an event.
type exchange struct {
	figures.Entry
	Lane  int   // whose it is, from 1; 0 for nobody's
	First bool  // the first of a race
	Gone  []int // lanes whose actors have crashed before
}

// newSequence lays a run out; nil where it has no such picture.
func newSequence(f *figures.Figure, r *figures.Result) *sequence {
	s := &sequence{Name: say.Server(r.Engine)}
	if n := len(f.Topology.Nodes()); n > 1 {
		s.Name = strconv.Itoa(n) + " servers"
	}
	var entries []figures.Entry
	for _, e := range r.Trace {
		if e.Phase != figures.PhaseObserve {
			entries = append(entries, e)
		}
	}
	s.seat(f, entries)
	if len(s.Actors) == 0 || len(s.Actors) > maxLanes || len(entries) > maxEntries {
		return nil
	}
	var gone []int
	race := 0
	for _, e := range entries {
		x := exchange{Entry: e, Lane: s.lane(e.Actor), First: e.Race > 0 && e.Race != race, Gone: slices.Clone(gone)}
		race = e.Race
		if e.Phase == figures.PhaseSetup {
			s.Setup = append(s.Setup, x)
		} else {
			s.Steps = append(s.Steps, x)
		}
		if x.event() == "crash" && x.Lane > 0 {
			gone = append(gone, x.Lane)
		}
	}
	return s
}

// seat gives lanes to the actors that take part, in the figure's order, and the
// server the one in the middle.
func (s *sequence) seat(f *figures.Figure, entries []figures.Entry) {
	takesPart := func(name string) bool {
		return slices.ContainsFunc(entries, func(e figures.Entry) bool { return e.Actor == name })
	}
	for _, a := range f.Actors {
		if takesPart(a.Name) {
			s.Actors = append(s.Actors, a.Name)
		}
	}
	for _, e := range entries {
		if e.Actor != "" && !slices.Contains(s.Actors, e.Actor) {
			s.Actors = append(s.Actors, e.Actor)
		}
	}
	s.Server = (len(s.Actors)+1)/2 + 1
}

// lane is an actor's, from 1; 0 for none.
func (s *sequence) lane(actor string) int {
	i := slices.Index(s.Actors, actor) + 1
	if i >= s.Server {
		i++
	}
	return i
}

// lanes says how many there are, as a class.
func (s *sequence) lanes() string {
	return "seq-" + strconv.Itoa(len(s.Actors)+1) + " seq-server-" + strconv.Itoa(s.Server)
}

// between puts something into the lanes from one to another, whichever is first.
func between(a, b int) string {
	return "from-" + strconv.Itoa(min(a, b)) + " to-" + strconv.Itoa(max(a, b))
}

// event is the word that says what happened; empty for a command.
func (x exchange) event() string {
	kind, _, _ := strings.Cut(x.Event, " ")
	return strings.TrimSuffix(kind, ":")
}

// sent is the command as its arrow has it: a script by its name, without the
// count of its keys. What doesn't fit the arrow is cut off by the style sheet;
// the table has it whole.
func (x exchange) sent() string {
	command := x.Command
	args, err := sandbox.Parse(command)
	if err == nil && len(args) > 2 && strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") && strings.HasSuffix(args[1], ".lua") {
		command = strings.Join(append([]string{strings.TrimSuffix(args[1], ".lua")}, args[3:]...), " ")
	}
	return strings.Join(strings.Fields(command), " ")
}

// answered is the reply, whole.
func (x exchange) answered() string {
	if items, ok := x.Reply.([]any); ok && len(items) == 0 {
		return "empty"
	}
	return expr.Print(x.Reply)
}
