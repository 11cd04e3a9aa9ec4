// Package figures is the nouns of the figure language: a figure, its paths and
// steps, programs and events, and what a run of a path shows. It also judges a
// result by the rules of its path.
//
// Package read makes figures of YAML, run runs them, explore runs every order.
package figures

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/figures/expr"
)

// A Figure is a drawing whose paths run on a real server.
type Figure struct {
	ID       string
	Title    string
	Idle     string  // what the readout says before anything was pointed at
	Actors   []Actor // in drawing order
	Resource string  // the key drawn as the protected thing; may be empty
	Topology Topology
	Setup    []Step // runs before each path
	Paths    []*Path
	File     string // where it stands, for faults
	Line     int
}

// An Actor is one client of the server.
type Actor struct {
	Name  string // as in the steps: a capital letter, then letters, digits or _
	Label string // what readers see
}

// A Path is one thing to point at: a single run, or programs of which every
// schedule is run.
type Path struct {
	ID       string
	Label    string
	Actor    string   // the actor that lights up
	Needs    []string // commands that the server must have
	Setup    []Step   // the figure's, then the path's own
	Steps    []Step
	Programs []Program // set in place of Steps
	Events   []Event
	Always   []Condition // judged after every transition
	Finally  []Condition // judged at the end of a schedule
	Sample   *Sample     // what is read along the way of a path in real time
	Loads    []Load      // set in place of Steps: many clients at once
	Observe  []Observation
	Verdicts []Rule    // the path's own, then the figure's
	Static   string    // the verdict where nothing can run; may be empty
	Exercise *Exercise // what the path asks of readers; nil for most
	Line     int
}

// Explores tells whether every schedule of the path is run.
func (p *Path) Explores() bool { return len(p.Programs) > 0 }

// Timed tells whether the path runs in real time, so that watching it is worth
// a reader's while.
func (p *Path) Timed() bool {
	return p.Sample != nil || len(p.Loads) > 0 || slices.ContainsFunc(p.Steps, func(s Step) bool {
		if s.Timed {
			return true
		}
		switch does := s.Does.(type) {
		case Send:
			return does.Every > 0 || does.Retry != nil
		case Stop, Resume:
			return true
		}
		return false
	})
}

// Explores tells whether every schedule of any path is run.
func (f *Figure) Explores() bool { return slices.ContainsFunc(f.Paths, (*Path).Explores) }

// Timed tells whether any path runs in real time.
func (f *Figure) Timed() bool { return slices.ContainsFunc(f.Paths, (*Path).Timed) }

// MaxWait bounds all waits of a path without times together.
const MaxWait = 2 * time.Second

// A Topology is the servers on which a figure's paths run. The zero value is
// the one sandbox server.
type Topology struct {
	Replicas    int // a primary with so many replicas
	Independent int // so many servers that know nothing of each other
}

// Several tells whether the figure needs servers of its own.
func (t Topology) Several() bool { return t.Replicas+t.Independent > 0 }

// Nodes are the names of the servers, as steps use them.
func (t Topology) Nodes() []string {
	var names []string
	if t.Replicas > 0 {
		names = append(names, "primary", "replica", "replica2")[:1+t.Replicas]
	}
	for i := range t.Independent {
		names = append(names, "n"+strconv.Itoa(i+1))
	}
	return names
}

// Path finds a path by its id.
func (f *Figure) Path(id string) (*Path, bool) {
	for _, p := range f.Paths {
		if p.ID == id {
			return p, true
		}
	}
	return nil, false
}

// Label gives the reader's name of an actor: its label, or else its name.
func (f *Figure) Label(actor string) string {
	for _, a := range f.Actors {
		if a.Name == actor && a.Label != "" {
			return a.Label
		}
	}
	return actor
}

// A Sample is values that are read again and again while a path runs.
type Sample struct {
	Every  time.Duration
	Values []Observation
}

// A Load is many clients that do the same at once.
type Load struct {
	Name    string
	Clients int
	Times   int // how often each does the steps
	Steps   []Instruction
}

// A Program is what one actor does in a path of which every schedule is run.
type Program struct {
	Actor string
	Steps []Instruction
	Enter bool // the mark "enter" stands before the first transition
}

// An Event may happen between any two transitions, or not at all.
type Event struct {
	Does  Kind       // Lapse or Crash
	Name  string     // as it stands in a schedule: "lapse", "lapse:KEY", "crash:NAME"
	If    *expr.Expr // nil: any time
	Times int        // how often at most
	Line  int
}

// Words are what happens, and to what or whom: "lapse", "resource:lock".
func (e Event) Words() (what, whom string) {
	what, whom, _ = strings.Cut(e.Does.event(), " ")
	return what, whom
}

// A Condition is a promise that a path makes.
type Condition struct {
	Name string
	Expr *expr.Expr
	Line int
}

// An Observation is a value read after the steps.
type Observation struct {
	Name     string
	Target   string
	Command  expr.Command
	Received string // in place of a command: the actor whose commands the server counted
	Line     int
}

// A Rule is a verdict and when it holds.
type Rule struct {
	When   *expr.Expr // nil: always
	Status Status
	Text   expr.Template
	Line   int
}

// maxLoads is how long the clients of all loads of a path may take together.
const maxLoads = 5 * time.Second

// Length is how long a path in real time takes by its own clock.
func (path *Path) Length() time.Duration {
	if len(path.Loads) > 0 {
		return maxLoads
	}
	var end time.Duration
	for _, s := range path.Steps {
		at := s.At
		switch does := s.Does.(type) {
		case Send:
			at = max(at, does.Until)
			if does.Retry != nil {
				at += does.Retry.For
			}
		case Wait:
			at += does.For
		}
		end = max(end, at)
	}
	return end
}
