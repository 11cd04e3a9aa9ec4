// Package figures is the nouns of the figure language: a figure, its paths and
// steps, programs and events, and what a run of a path shows. It also judges a
// result by the rules of its path.
//
// Package read makes figures of YAML, run runs them, explore runs every order.
package figures

import (
	"slices"
	"strconv"
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
	Verdicts []Rule // the path's own, then the figure's
	Static   string // the verdict where nothing can run; may be empty
	Line     int
}

// Explores tells whether every schedule of the path is run.
func (p *Path) Explores() bool { return len(p.Programs) > 0 }

// Timed tells whether the path runs in real time, so that watching it is worth
// a reader's while.
func (p *Path) Timed() bool {
	return p.Sample != nil || len(p.Loads) > 0 || slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Timed || s.Every > 0 || s.Retry != nil || s.Kind == Stop || s.Kind == Resume
	})
}

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

// A StepKind is what a step does.
type StepKind int

// The kinds of a step, by their main key.
const (
	Send    StepKind = iota // NAME: COMMAND
	Lapse                   // lapse: KEY
	Wait                    // wait: 20ms
	Crash                   // crash: NAME
	Race                    // race: [steps]
	Work                    // NAME: work
	Stop                    // stop: NAME
	Resume                  // resume: NAME
	Cut                     // cut: REPLICA
	Sync                    // sync: REPLICA
	Kill                    // kill: NODE
	Promote                 // promote: NODE
	Down                    // down: NODE
	Up                      // up: NODE
)

// A Step is one thing that happens in a path.
type Step struct {
	Kind    StepKind
	Actor   string // who sends, works, crashes, stops or resumes
	Target  string // the server of the topology, "all", or "sql"; of a fault: the server that it strikes
	Command expr.Command
	Key     expr.Template // of a lapse
	For     time.Duration // of a wait
	Race    []Step
	Text    string        // of work: what is done, for the reader
	As      string        // what the reply is called
	Promise *expr.Promise // what the author promises that the reply is
	Note    string        // shown in the trace
	Stop    bool          // in a program: "else: stop"
	Enter   bool          // in a program: the mark "enter" follows this transition
	Leave   bool          // in a program: the mark "leave" follows it
	Line    int
	Timed   bool          // it waits for At
	At      time.Duration // counted from the start of the steps
	Every   time.Duration // it is repeated
	Until   time.Duration // until then; 0: to the end of the path
	Retry   *Retry
}

// A Retry repeats a step until its reply is neither nil, 0 nor an error.
type Retry struct {
	Every  time.Duration
	Jitter time.Duration // up to so much more, at random
	For    time.Duration // then it gives up
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
	Steps   []Step
	Line    int
}

// A Program is what one actor does in a path of which every schedule is run.
type Program struct {
	Actor string
	Steps []Step
	Enter bool // the mark "enter" stands before the first transition
	Line  int
}

// An Event may happen between any two transitions, or not at all.
type Event struct {
	Kind  StepKind   // Lapse or Crash
	Key   string     // of a lapse
	Actor string     // of a crash
	Name  string     // as it stands in a schedule: "lapse", "lapse:KEY", "crash:NAME"
	If    *expr.Expr // nil: any time
	Times int        // how often at most
	Line  int
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

// length is how long a path in real time takes by its own clock.
func (path *Path) Length() time.Duration {
	if len(path.Loads) > 0 {
		return maxLoads
	}
	var end time.Duration
	for _, s := range path.Steps {
		at := max(s.At, s.Until)
		if s.Retry != nil {
			at += s.Retry.For
		}
		if s.Kind == Wait {
			at += s.For
		}
		end = max(end, at)
	}
	return end
}
