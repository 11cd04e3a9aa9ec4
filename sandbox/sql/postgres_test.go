package sql

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"lockstep/sandbox"
	"lockstep/tests/programs"
)

// nothingLeft waits until no schema of a run's is there: a connection that was
// cut may still be at work in one.
func nothingLeft(t testing.TB, p *programs.Postgres) {
	t.Helper()
	const query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lockstep%'"
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := p.Query(t, "lockstep", query)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left behind: %v", left)
			return
		}
	}
}

func TestPostgres(t *testing.T) {
	p := programs.StartPostgres(t)
	dsn := p.DSN("lockstep", "lockstep")
	s := openTestSQL(t, dsn, defaultBounds())
	if e := s.Engine(); e.Name != "postgresql" || e.Mode != sandbox.External || !strings.Contains(e.Version, ".") || strings.Contains(e.Version, " ") {
		t.Errorf("engine %+v", e)
	}
	everyStore(t, dsn, map[string]sandbox.Error{"unique": "23505", "missing": "42P01", "syntax": "42601", "column": "42703"})
	t.Run("waiting", func(t *testing.T) { waiting(t, p, s) })
	t.Run("deadlock", func(t *testing.T) { deadlock(t, p, s) })
	t.Run("restricted", func(t *testing.T) { restricted(t, s) })
	t.Run("roles", func(t *testing.T) { roles(t, p) })
	nothingLeft(t, p)
	t.Run("orphans", func(t *testing.T) { orphans(t, p, s) })
	nothingLeft(t, p)
	t.Run("restart", func(t *testing.T) { restart(t, p, s) })
	nothingLeft(t, p)
}

// A replySQL is what Do returned.
type replySQL struct {
	value sandbox.Value
	err   error
}

// held sends a statement that must wait for another actor's transaction, and
// returns once the server says that it waits.
func held(t *testing.T, p *programs.Postgres, r *Run, actor, statement string) <-chan replySQL {
	t.Helper()
	reply := make(chan replySQL, 1)
	go func() {
		value, err := r.Do(context.Background(), actor, statement)
		reply <- replySQL{value, err}
	}()
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if p.Query(t, "lockstep", "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'lockstep'")[0] != "0" {
			return reply
		}
		select {
		case early := <-reply:
			t.Fatalf("%s did not wait: %v, %v", statement, early.value, early.err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not wait", statement)
		}
	}
}

// waiting has an UPDATE wait for another's and then be judged: again, on the new
// version of the row, or not at all.
func waiting(t *testing.T, p *programs.Postgres, s *Store) {
	for _, test := range []struct {
		begin, end string
		want       sandbox.Value
		final      []any
	}{
		{"BEGIN", "COMMIT", int64(0), []any{"by B", int64(34)}},
		{"BEGIN", "ROLLBACK", int64(1), []any{"by A", int64(33)}},
		{"BEGIN ISOLATION LEVEL REPEATABLE READ", "COMMIT", sandbox.Error("40001 could not serialize access due to concurrent update"), []any{"by B", int64(34)}},
	} {
		t.Run(test.begin+" "+test.end, func(t *testing.T) {
			useSQL(t, s, func(r *Run) {
				doSQL(t, r,
					stepSQL{"B", "BEGIN", "BEGIN"},
					stepSQL{"B", writeSQL("by B", 34, "AND fence < 34"), int64(1)},
					stepSQL{"A", test.begin, "BEGIN"},
					stepSQL{"A", "SELECT fence FROM storage WHERE id = 'report'", row(int64(0))})
				late := held(t, p, r, "A", writeSQL("by A", 33, "AND fence < 33"))
				doSQL(t, r, stepSQL{"B", test.end, test.end})
				got := <-late
				if got.err != nil || got.value != test.want {
					t.Errorf("the late write: %v, %v; want %v", got.value, got.err, test.want)
				}
				end := "COMMIT"
				if _, refused := got.value.(sandbox.Error); refused {
					end = "ROLLBACK" // what PostgreSQL makes of the COMMIT of a failed transaction
				}
				doSQL(t, r,
					stepSQL{"A", "COMMIT", end},
					stepSQL{"Q", "SELECT value, fence FROM storage WHERE id = 'report'", row(test.final...)})
			})
		})
	}
	t.Run("over time", func(t *testing.T) {
		useSQL(t, s, func(r *Run) {
			doSQL(t, r,
				stepSQL{"B", "BEGIN", "BEGIN"},
				stepSQL{"B", writeSQL("by B", 34, "AND fence < 34"), int64(1)})
			late := <-held(t, p, r, "A", writeSQL("by A", 33, "AND fence < 33"))
			if !errors.Is(late.err, sandbox.ErrLate) {
				t.Errorf("a write that waits for ever: %v, %v", late.value, late.err)
			}
			cut := held(t, p, r, "A", writeSQL("by A", 33, "AND fence < 33"))
			r.Cut("A")
			if late := <-cut; !errors.Is(late.err, sandbox.ErrDown) {
				t.Errorf("a write whose actor is cut: %v, %v", late.value, late.err)
			}
			held(t, p, r, "C", writeSQL("by C", 33, "AND fence < 33")) // the run ends while it waits
		})
	})
}

// deadlock has the server choose which of two transactions must give way.
func deadlock(t *testing.T, p *programs.Postgres, s *Store) {
	useSQL(t, s, func(r *Run) {
		doSQL(t, r,
			stepSQL{"A", "BEGIN", "BEGIN"},
			stepSQL{"B", "BEGIN", "BEGIN"},
			stepSQL{"A", "UPDATE storage SET fence = 1 WHERE id = 'report'", int64(1)},
			stepSQL{"B", "UPDATE storage SET fence = 1 WHERE id = 'other'", int64(1)})
		first := held(t, p, r, "A", "UPDATE storage SET fence = 1 WHERE id = 'other'")
		value, err := r.Do(t.Context(), "B", "UPDATE storage SET fence = 1 WHERE id = 'report'")
		if err != nil {
			t.Fatal(err)
		}
		if _, refused := value.(sandbox.Error); refused { // it rolled back, but says so only at its end
			doSQL(t, r, stepSQL{"B", "ROLLBACK", "ROLLBACK"})
		}
		other := <-first
		if other.err != nil {
			t.Fatal(other.err)
		}
		for _, v := range []sandbox.Value{value, other.value} {
			if v != int64(1) && v != sandbox.Error("40P01 deadlock detected") {
				t.Errorf("got %v", v)
			}
		}
		if value == other.value {
			t.Errorf("both got %v", value)
		}
	})
}

// restricted asks past CheckSQL for what the role may not have.
func restricted(t *testing.T, s *Store) {
	useSQL(t, s, func(r *Run) {
		conn, err := r.database.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.close()
		for statement, code := range map[string]string{
			"SELECT 1; SELECT 2":                                "42601",
			"SELECT pg_read_file('/etc/passwd')":                "42501",
			"COPY storage TO '/tmp/lockstep-copy'":              "42501",
			"COPY storage FROM PROGRAM 'id'":                    "42501",
			"SELECT lo_import('/etc/passwd')":                   "42501",
			"CREATE ROLE other":                                 "42501",
			"DROP DATABASE postgres":                            "42501",
			"ALTER SYSTEM SET work_mem = '1GB'":                 "42501",
			"CREATE EXTENSION file_fdw":                         "42501",
			"CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'x'": "42501",
		} {
			value, err := conn.do(t.Context(), parsed{text: statement})
			if refused, ok := value.(sandbox.Error); err != nil || !ok || refused.Code() != code {
				t.Errorf("%s: %v, %v; want %s", statement, value, err, code)
			}
		}
		if value, err := conn.do(t.Context(), parsed{text: "SELECT pg_sleep(10)"}); !errors.Is(err, sandbox.ErrLate) {
			t.Errorf("pg_sleep: %v, %v", value, err)
		}
		if value, err := conn.do(t.Context(), parsed{text: "SELECT repeat('x', 1000000)"}); !errors.Is(err, sandbox.ErrTooMuch) {
			t.Errorf("a row of 1 MB: %v, %v", value, err)
		}
	})
}

// roles opens the store as roles that may do too much or too little.
func roles(t *testing.T, p *programs.Postgres) {
	p.Query(t, "postgres", "CREATE ROLE reader LOGIN IN ROLE pg_read_server_files")
	p.Query(t, "postgres", "GRANT CREATE ON DATABASE lockstep TO reader")
	p.Query(t, "postgres", "CREATE ROLE guest LOGIN")
	for dsn, want := range map[string]string{
		p.DSN("owner", "lockstep"):                  "may do more than it needs",
		p.DSN("reader", "lockstep"):                 "may do more than it needs",
		p.DSN("guest", "lockstep"):                  "may not create schemas",
		p.DSN("nobody-knows", "lockstep"):           "does not exist",
		"host=/nowhere user=x database=x":           "no such file or directory",
		"postgres://x:secret@localhost:nonsense/db": "cannot parse",
	} {
		s, err := Open(t.Context(), dsn)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", dsn)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", dsn, err, want)
		}
	}
}

// orphans opens the store where a site has ended without dropping its schemas,
// and another is still running.
func orphans(t *testing.T, p *programs.Postgres, s *Store) {
	p.Query(t, "lockstep", "SET ROLE lockstep; CREATE SCHEMA lockstep_run_orphan; CREATE TABLE lockstep_run_orphan.storage (id TEXT); CREATE SCHEMA mine")
	useSQL(t, s, func(r *Run) {
		openTestSQL(t, p.DSN("lockstep", "lockstep"), defaultBounds())
		if left := p.Query(t, "lockstep", "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'lockstep%'"); len(left) != 1 {
			t.Errorf("want the schema of this run alone, got %v", left)
		}
		if left := p.Query(t, "lockstep", "SELECT nspname FROM pg_namespace WHERE nspname = 'mine'"); len(left) != 1 {
			t.Errorf("another schema was dropped")
		}
		doSQL(t, r, stepSQL{"A", writeSQL("by A", 33, ""), int64(1)})
	})
}

// restart kills the server during a run.
func restart(t *testing.T, p *programs.Postgres, s *Store) {
	err := s.Use(t.Context(), func(r *Run) error {
		doSQL(t, r, stepSQL{"A", "CREATE TABLE t (x BIGINT)", "CREATE TABLE"})
		p.Stop()
		_, err := r.Do(t.Context(), "A", "SELECT 1")
		return err
	})
	if !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("the server was stopped: %v", err)
	}
	if err := s.Use(t.Context(), func(*Run) error { return nil }); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("the server is stopped: %v", err)
	}
	p.Start(t)
	useSQL(t, s, func(r *Run) { doSQL(t, r, stepSQL{"A", writeSQL("by A", 33, ""), int64(1)}) })
	openTestSQL(t, p.DSN("lockstep", "lockstep"), defaultBounds()) // sweeps what the first run left
}

// TestPostgresOfOthers runs what holds of every store on a server that somebody
// else runs.
func TestPostgresOfOthers(t *testing.T) {
	dsn := os.Getenv("LOCKSTEP_POSTGRES")
	if dsn == "" {
		t.Skip("LOCKSTEP_POSTGRES names no server")
	}
	everyStore(t, dsn, map[string]sandbox.Error{"unique": "23505", "missing": "42P01", "syntax": "42601", "column": "42703"})
}

func BenchmarkPostgres(b *testing.B) {
	p := programs.StartPostgres(b)
	benchmarkSQL(b, p.DSN("lockstep", "lockstep"))
}
