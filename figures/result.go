package figures

import (
	"encoding/json"
	"time"

	"lockstep/sandbox"
)

// A Status is the kind of a verdict, as it is written in a figure. Empty means
// that no rule of the figure fits what the server answered.
type Status string

// The statuses of FIGURES.md, section 1.
const (
	Unjudged Status = ""
	Granted  Status = "granted"
	Refused  Status = "refused"
	Safe     Status = "safe"
	Broken   Status = "broken"
	Deadlock Status = "deadlock"

	// Late is no rule's: the machine was too busy for a run by the clock.
	Late Status = "late"
)

// Statuses are the ones that a rule may name.
func Statuses() []Status { return []Status{Granted, Refused, Safe, Broken, Deadlock} }

// String gives the status as it is written in a figure; "" for Unjudged.
func (s Status) String() string { return string(s) }

// A Result is what one run of a path showed. Its JSON is the contract of
// FIGURES.md, section 5.
type Result struct {
	Asked
	Judgement
	Engine   sandbox.Engine  `json:"engine"`
	Store    *sandbox.Engine `json:"store,omitempty"`    // the SQL store, where the path speaks to one
	Values   map[string]any  `json:"values"`             // replies kept with "as"
	State    map[string]any  `json:"state"`              // what "observe" read
	Resource *Change         `json:"resource,omitempty"` // the protected key, read by the site
	Trace    []Entry         `json:"trace"`
	Exploration
	Replayed
	Recording
	Commands int   `json:"commands"`
	TookUS   int64 `json:"took_us"`

	// Ended is when a run had read the last of it, by this machine's clock; zero
	// where every order was run. Moments in what was read are counted from it.
	Ended time.Time `json:"-"`
}

// Asked is which path a result is of.
type Asked struct {
	Dive   string `json:"dive"`
	Figure string `json:"figure"`
	Path   string `json:"path"`
}

// A Judgement is what the rules of a path made of a run.
type Judgement struct {
	Status  Status `json:"status"`
	Verdict string `json:"verdict"`

	// Pattern is a regular expression that the verdict of every equal run
	// matches: the verdict, with what an author marked as varying left open.
	Pattern string `json:"-"`
}

// An Exploration is the part of a result that only paths with programs have.
type Exploration struct {
	Explored *Explored `json:"explored,omitempty"` // where every schedule was run

	// Known is what the last complete exploration of the figure's paths showed,
	// by path. It may lack any of them.
	Known map[string]*Explored `json:"-"`

	// Unkept are the promised replies that didn't come in some schedule.
	Unkept Faults `json:"-"`
}

// Replayed is the part of a result for which one schedule was asked.
type Replayed struct {
	Schedule *Replay  `json:"schedule,omitempty"`
	Next     []string `json:"next,omitempty"` // what may happen after it
}

// A Recording is the part of a result that only paths in real time have.
type Recording struct {
	Samples []SamplePoint `json:"samples,omitempty"`
	StepsUS int64         `json:"steps_us,omitempty"` // when the steps began
}

// A Phase is the part of a run to which an entry of its trace belongs.
type Phase string

// The phases of a run, in order.
const (
	PhaseSetup   Phase = "setup"
	PhaseSteps   Phase = "steps"
	PhaseObserve Phase = "observe"
)

// An Entry is one command with its reply, or one event.
type Entry struct {
	AtUS    int64         `json:"at_us"` // when the reply was read, from the start of the run
	Phase   Phase         `json:"phase"`
	Actor   string        `json:"actor,omitempty"`   // empty for what the site did
	Target  string        `json:"target,omitempty"`  // the server of the topology, "all" or "sql"
	Command string        `json:"command,omitempty"` // as it was sent, names filled in
	Reply   sandbox.Value `json:"reply"`             // nil, a number, text or an array
	Error   bool          `json:"error,omitempty"`   // the reply is an error reply
	Event   string        `json:"event,omitempty"`   // "lapse resource:lock", "wait 20ms", "crash A", "work: …"
	Name    string        `json:"as,omitempty"`      // what the reply is called in expressions
	Note    string        `json:"note,omitempty"`
	Inside  []string      `json:"inside,omitempty"`   // in a schedule: who is inside after it
	Key     *KeyState     `json:"key,omitempty"`      // in a schedule: the protected key after it
	Breaks  []string      `json:"breaks,omitempty"`   // in a schedule: the conditions that stopped holding here
	Race    int           `json:"race,omitempty"`     // entries sent at the same moment share a number > 0
	Promise string        `json:"promised,omitempty"` // the reply that the author promised, where it differs

	Line int // of the step, for faults
}

// A SamplePoint is what was read at one moment of a path in real time.
type SamplePoint struct {
	AtUS   int64          `json:"at_us"` // as in Entry
	Values map[string]any `json:"values"`
	Key    *KeyState      `json:"key,omitempty"` // the protected key
}

// A Moment is something that happened while a path runs in real time: one of
// Entry and Sample is set, or neither where the steps begin.
type Moment struct {
	StepsUS int64 // when the steps began, as in Result
	Entry   *Entry
	Sample  *SamplePoint
}

// A Change is a key before and after the steps of a path.
type Change struct {
	Key    string   `json:"key"`
	Before KeyState `json:"before"`
	After  KeyState `json:"after"`
}

// A KeyState is what a key held at one moment.
type KeyState struct {
	Type string `json:"type"` // none, string, hash, list, set, zset
	Text string `json:"text"` // its value on one line; empty where there is no key
	TTL  int64  `json:"ttl"`  // ms left; -1 no expiry, -2 no key
}

// Explored is what running every schedule of a path showed.
type Explored struct {
	Schedules       int               `json:"schedules"`
	States          int               `json:"states"` // distinct states they passed through
	Violations      map[string]int    `json:"violations"`
	Counterexamples map[string]string `json:"counterexamples"`
	Conditions      []string          `json:"conditions"` // in the author's order
	Complete        bool              `json:"complete"`   // false: cut off, Schedules counts those that were finished
	Total           int               `json:"total"`      // of how many; 0 where it isn't known
	Cells           []Cell            `json:"-"`          // the map, in the order of the schedules
	Clients         []string          `json:"clients"`    // the actors that have a program

	Lengths  map[string]int `json:"-"` // of each condition's counterexample, in transitions
	Earliest map[string]int `json:"-"` // after how many transitions each condition can break
	Example  *Replay        `json:"-"` // the schedule that the trace shows
}

// A Cell of the map is one schedule, or, where there are too many, all that
// share a beginning.
type Cell struct {
	Schedule  string // the schedule, or the shared beginning
	Schedules int    // 1, or how many share the beginning
	Broken    int    // how many of them break a condition
	Condition int    // index into Explored.Conditions of the worst; -1 where none breaks
	Breaks    uint32 // bit i: Explored.Conditions[i] breaks, in some of them where they are many
	Group     int    // cells of one group share their first transitions
}

// A Replay is one schedule, or a beginning of one, run alone.
type Replay struct {
	Schedule string   `json:"schedule"`
	Complete bool     `json:"complete"` // nothing more can happen but events
	Broken   []string `json:"broken"`   // conditions that it breaks
	Inside   []string `json:"inside"`   // who is inside at its end
	Shortest int      `json:"shortest"` // transitions of the shortest schedule that breaks what it breaks, or else anything; 0 where none is known
	Earliest int      `json:"earliest"` // after how many transitions that can break; 0 where it isn't known
	Steps    int      `json:"steps"`    // its own transitions
	Why      string   `json:"-"`        // the step that breaks a condition, and what made it; empty where none does
}

// MarshalJSON writes nil maps and slices as empty ones, as tools expect.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	c := plain(*r)
	if c.Values == nil {
		c.Values = map[string]any{}
	}
	if c.State == nil {
		c.State = map[string]any{}
	}
	if c.Trace == nil {
		c.Trace = []Entry{}
	}
	return json.Marshal(c)
}
