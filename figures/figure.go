// Package figures knows what a live figure is: it reads one from YAML, runs its
// paths on the sandbox, and judges what the server answered.
package figures

// A Figure is a drawing whose paths run on a real server.
type Figure struct {
	ID       string
	Title    string
	Idle     string  // what the readout says before anything was pointed at
	Actors   []Actor // in drawing order
	Resource string  // the key drawn as the protected thing; may be empty
	Topology Topology
	Setup    []Step
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
	Static   Template
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
