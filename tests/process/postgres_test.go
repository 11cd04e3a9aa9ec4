package process_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// TestPostgres runs the figure whose fence stands in SQL on PostgreSQL in place of
// the embedded SQLite: it says the same, and whose word it is.
func TestPostgres(t *testing.T) {
	t.Parallel()
	programs.Need(t, "valkey-server")
	var paths []course.Path
	for _, v := range course.Paths(t) {
		if v.Figure.ID == "sql-fence" {
			paths = append(paths, v)
		}
	}
	stores := map[string]string{"sqlite": programs.Serve(t).URL, "postgresql": programs.Serve(t, "--postgres", programs.StartPostgres(t).DSN("lockstep", "lockstep")).URL}
	for name, url := range stores {
		for _, v := range paths {
			a := course.Fetch(t, v.On(url), course.JSON)
			if a.Code != http.StatusOK {
				t.Errorf("%s on %s: %d %s", v.ID, name, a.Code, a.Body)
				continue
			}
			if err := v.Judge(a); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var run struct {
				Store struct{ Name, Version string }
				Trace []struct{ Target string }
			}
			if err := json.Unmarshal([]byte(a.Body), &run); err != nil {
				t.Fatal(err)
			}
			if run.Store.Name != name || run.Store.Version == "" {
				t.Errorf("%s: the store is said to be %+v, want %s", v.ID, run.Store, name)
			}
			if !slices.ContainsFunc(run.Trace, func(e struct{ Target string }) bool { return e.Target == "sql" }) {
				t.Errorf("%s on %s sent nothing in SQL", v.ID, name)
			}
		}
	}
	if len(paths) < 5 {
		t.Errorf("%d paths", len(paths))
	}
}
