// Package figures knows what a live figure is: it reads one from YAML, runs its
// paths on the sandbox, and judges what the server answered.
package figures

import "time"

// A Figure is a drawing whose paths run on a real server.
type Figure struct {
	ID       string
	Title    string
	Idle     string  // what the readout says before anything was pointed at
	Actors   []Actor // in drawing order
	Resource string  // the key drawn as the protected thing; may be empty
	Topology string  // figures.md, section 4; empty for the one sandbox server
	Setup    []Step  // runs before each path
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
	Observe  []Observation
	Verdicts []Rule // the path's own, then the figure's
	Static   string // the verdict where nothing can run; may be empty
	Line     int
}

// Explores tells whether every schedule of the path is run.
func (p *Path) Explores() bool { return len(p.Programs) > 0 }

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
	Send  StepKind = iota // NAME: COMMAND
	Lapse                 // lapse: KEY
	Wait                  // wait: 20ms
	Crash                 // crash: NAME
	Race                  // race: [steps]
	Work                  // NAME: work
)

// A Step is one thing that happens in a path.
type Step struct {
	Kind    StepKind
	Actor   string // who sends, works or crashes
	Command Command
	Key     Template      // of a lapse
	For     time.Duration // of a wait
	Race    []Step
	Text    string // of work: what is done, for the reader
	As      string // what the reply is called
	Promise *Value // what the author promises that the reply is
	Note    string // shown in the trace
	Stop    bool   // in a program: "else: stop"
	Enter   bool   // in a program: the mark "enter" follows this transition
	Leave   bool   // in a program: the mark "leave" follows it
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
	Kind  StepKind // Lapse or Crash
	Key   string   // of a lapse
	Actor string   // of a crash
	Name  string   // as it stands in a schedule: "lapse", "lapse:KEY", "crash:NAME"
	If    *Expr    // nil: any time
	Times int      // how often at most
	Line  int
}

// A Condition is a promise that a path makes.
type Condition struct {
	Name string
	Expr *Expr
	Line int
}

// An Observation is a value read after the steps.
type Observation struct {
	Name     string
	Command  Command
	Received string // in place of a command: the actor whose commands the server counted
	Line     int
}

// A Rule is a verdict and when it holds.
type Rule struct {
	When   *Expr // nil: always
	Status Status
	Text   Template
	Line   int
}

// A Value is what an author wrote for a reply: nil, or text that is compared
// with the reply as it prints, or a list of them.
type Value struct {
	Nil    bool
	Text   string
	List   []Value
	IsList bool
}
