package lockstep_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// postgres starts a PostgreSQL of the test's own, as PostgreSQL's own tools do,
// and gives the address of an empty database.
func postgres(t *testing.T) (dsn string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(found) == 0 {
		if required() {
			t.Fatal("there is no PostgreSQL in /usr/lib/postgresql; Debian's package is postgresql")
		}
		t.Skip("there is no PostgreSQL in /usr/lib/postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "lockstep-pg") // t.TempDir is too long for a socket
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	run := func(name string, args ...string) error {
		command := append([]string{filepath.Join(bin, name)}, args...)
		if os.Geteuid() == 0 { // as whom it refuses to run
			command = append([]string{"runuser", "-u", "postgres", "--"}, command...)
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return nil
	}
	must(t, os.Chmod(dir, 0o777))
	data := filepath.Join(dir, "data")
	must(t, run("initdb", "-D", data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"))
	must(t, run("pg_ctl", "-D", data, "-l", filepath.Join(dir, "log"), "-w", "-o", "-k "+dir+" -c listen_addresses= -c fsync=off", "start"))
	t.Cleanup(func() { must(t, run("pg_ctl", "-D", data, "-m", "immediate", "stop")) })
	for _, statement := range []string{"CREATE ROLE lockstep LOGIN", "CREATE DATABASE lockstep OWNER lockstep"} {
		must(t, run("psql", "-q", "-h", dir, "-U", "owner", "-c", statement, "postgres"))
	}
	return "host=" + dir + " user=lockstep database=lockstep"
}

// TestPostgres runs the figure whose fence stands in SQL on PostgreSQL in place of
// the embedded SQLite: it says the same, and whose word it is.
func TestPostgres(t *testing.T) {
	need(t, "valkey-server")
	var paths []visitedPath
	for _, v := range pathsOf(t, visit(t)) {
		if v.fig.ID == "sql-fence" {
			paths = append(paths, v)
		}
	}
	stores := map[string]string{"sqlite": serve(t).url, "postgresql": serve(t, "--postgres", postgres(t)).url}
	for name, url := range stores {
		for _, v := range paths {
			a := fetch(t, runURL(url, v.page, v.fig, v.path), asJSON)
			if a.code != http.StatusOK {
				t.Errorf("%s on %s: %d %s", v.path.ID, name, a.code, a.body)
				continue
			}
			if err := v.judge(a); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var run struct {
				Store struct{ Name, Version string }
				Trace []struct{ Target string }
			}
			must(t, json.Unmarshal([]byte(a.body), &run))
			if run.Store.Name != name || run.Store.Version == "" {
				t.Errorf("%s: the store is said to be %+v, want %s", v.path.ID, run.Store, name)
			}
			if !slices.ContainsFunc(run.Trace, func(e struct{ Target string }) bool { return e.Target == "sql" }) {
				t.Errorf("%s on %s sent nothing in SQL", v.path.ID, name)
			}
		}
	}
	if len(paths) < 5 {
		t.Errorf("%d paths", len(paths))
	}
}
