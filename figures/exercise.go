package figures

import (
	"encoding/json"

	"lockstep/sandbox"
)

// An Exercise asks readers for a script, or for the steps of a program, of their
// own. It is graded over every order of its paths, on a contained server.
type Exercise struct {
	ID       string // in lower case, unique in its page
	Task     string // one or two sentences
	Edit     string // the script that the paths' programs call, "mine.lua", or the actor whose steps are edited
	Steps    bool   // Edit is an actor: Start and Solution are steps in the figure's own language
	Start    string // what stands in the editor at first; it must not pass
	Solution string // it must pass; shown only to who asks
	Hints    []string
	Paths    []*Path     // to be passed: its own first, then those of "also"
	Must     []Condition // liveness: each holds at the end of some schedule of its own path
	Line     int
}

// A Grade is what an answer to an exercise showed. Its JSON is the contract of
// FIGURES.md.
type Grade struct {
	Exercise string           `json:"exercise"`
	Passed   bool             `json:"passed"`
	Merged   bool             `json:"merged"` // equal states were run once; false where the script may act otherwise the second time
	Why      string           `json:"why,omitempty"`
	Cached   bool             `json:"cached"` // the same text was graded before
	TookUS   int64            `json:"took_us"`
	Paths    []Graded         `json:"paths"`
	Trouble  *sandbox.Trouble `json:"trouble,omitempty"` // the script didn't run to its end: not passed
}

// A Graded is one path of a grade.
type Graded struct {
	Path            string            `json:"path"`
	Status          Status            `json:"status"` // safe where the path is passed, else broken; Unjudged where it wasn't run to its end
	Schedules       int               `json:"schedules"`
	Violations      map[string]int    `json:"violations"`      // schedules that break each condition; a "must" that no schedule reaches counts all
	Counterexamples map[string]string `json:"counterexamples"` // the shortest schedule for each
	Result          *Result           `json:"-"`               // as an exploration shows it, with the reader's own replies
}

// Progress tells how far a grading has come.
type Progress struct {
	Path      string `json:"path"`
	Schedules int    `json:"schedules"` // finished
	Total     int    `json:"total"`     // of how many; 0 where that isn't known yet
}

// MarshalJSON writes nil maps and slices as empty ones, as tools expect.
func (g *Grade) MarshalJSON() ([]byte, error) {
	type plain Grade
	c := plain(*g)
	c.Paths = append([]Graded{}, g.Paths...)
	for i, p := range c.Paths {
		if p.Violations == nil {
			c.Paths[i].Violations = map[string]int{}
		}
		if p.Counterexamples == nil {
			c.Paths[i].Counterexamples = map[string]string{}
		}
	}
	return json.Marshal(c)
}
