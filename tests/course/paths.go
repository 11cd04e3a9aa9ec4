package course

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"

	"lockstep/content"
	"lockstep/figures"
	"lockstep/figures/run"
)

// A Path is one path of the course, with what a single run of it says.
type Path struct {
	*figures.Path
	Page   *content.Page
	Figure *figures.Figure
	Status figures.Status

	verdict *regexp.Regexp // nil where the server can't run it
	counts  map[string]int // of an exploration: schedules and violations
}

// alone is every path of the course, run once by itself; those aside that run in
// real time or on several servers, which are checked one after another.
var alone = sync.OnceValues(func() ([]Path, error) {
	s, err := shared()
	if err != nil {
		return nil, err
	}
	var all []Path
	for _, p := range s.Course.Pages {
		for _, fig := range p.Figures {
			for _, path := range fig.Paths {
				if path.Timed() || fig.Topology.Several() {
					continue
				}
				one := Path{Path: path, Page: p, Figure: fig}
				result, err := s.Runner.Run(context.Background(), fig, path)
				var needs *run.NeedsError
				switch {
				case err == nil:
					one.verdict, one.Status, one.counts = regexp.MustCompile(result.Pattern), result.Status, countsOf(result.Explored)
				case !errors.As(err, &needs):
					return nil, fmt.Errorf("%s.%s: %w", fig.ID, path.ID, err)
				}
				all = append(all, one)
			}
		}
	}
	return all, nil
})

// Paths gives every path of the course that can be run beside others.
func Paths(t testing.TB) []Path {
	t.Helper()
	Visit(t)
	all, err := alone()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(all)
}

// Runs tells whether the server can run the path: it may be one for newer ones.
func (p Path) Runs() bool { return p.verdict != nil }

// On is the address of the path's run on a site.
func (p Path) On(site string) string {
	return site + p.Page.URL + "/figures/" + p.Figure.ID + "/" + p.ID
}

// Judge holds an answer that was asked for as JSON against the single run.
func (p Path) Judge(a Answer) error {
	name := p.Page.ID + " " + p.Figure.ID + "." + p.ID
	if !p.Runs() {
		if a.Code != http.StatusNotImplemented {
			return fmt.Errorf("%s: %d, and alone it can't run here", name, a.Code)
		}
		return nil
	}
	if a.Code != http.StatusOK {
		return fmt.Errorf("%s: %d %s", name, a.Code, a.Body)
	}
	var r figures.Result
	if err := json.Unmarshal([]byte(a.Body), &r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if r.Status != p.Status || !p.verdict.MatchString(r.Verdict) {
		return fmt.Errorf("%s: %s, %q; alone it is %s, %s", name, r.Status, r.Verdict, p.Status, p.verdict)
	}
	if r.Dive != p.Page.ID || r.Figure != p.Figure.ID || r.Path != p.ID {
		return fmt.Errorf("%s: the answer is for %s %s.%s", name, r.Dive, r.Figure, r.Path)
	}
	if got := countsOf(r.Explored); !maps.Equal(got, p.counts) {
		return fmt.Errorf("%s: counts %v; alone %v", name, got, p.counts)
	}
	return nil
}

func countsOf(e *figures.Explored) map[string]int {
	if e == nil {
		return nil
	}
	counts := maps.Clone(e.Violations)
	counts["schedules"] = e.Schedules
	return counts
}
