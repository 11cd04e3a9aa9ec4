package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/sandbox"
)

// openTestSQL opens a store for a test.
func openTestSQL(t testing.TB, dsn string, bounds bounds) *Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := open(ctx, dsn, bounds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A stepSQL is a statement of an actor's, and its reply: an error's code where it
// is one.
type stepSQL struct {
	actor, statement string
	want             sandbox.Value
}

// doSQL runs steps, one after the other.
func doSQL(t testing.TB, r *Run, steps ...stepSQL) {
	t.Helper()
	for _, step := range steps {
		got, err := r.Do(t.Context(), step.actor, step.statement)
		if err != nil {
			t.Fatalf("%s: %s: %v", step.actor, step.statement, err)
		}
		if refused, ok := got.(sandbox.Error); ok {
			got = sandbox.Error(refused.Code())
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s: (-want +got)\n%s", step.actor, step.statement, diff)
		}
	}
}

// useSQL runs f in a database that holds the fenced table.
func useSQL(t testing.TB, s *Store, f func(*Run)) {
	t.Helper()
	err := s.Use(t.Context(), func(r *Run) error {
		doSQL(t, r,
			stepSQL{"Q", "CREATE TABLE storage (id TEXT PRIMARY KEY, value TEXT, fence BIGINT NOT NULL)", "CREATE TABLE"},
			stepSQL{"Q", "INSERT INTO storage (id, value, fence) VALUES ('report', 'empty', 0), ('other', NULL, 0)", int64(2)})
		f(r)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// writeSQL is an UPDATE of the fenced row; condition is what compares the fence.
func writeSQL(value string, fence int, condition string) string {
	return fmt.Sprintf("UPDATE storage SET value = '%s', fence = %d WHERE id = 'report' %s", value, fence, condition)
}

// row gives what a query for a row of values answers.
func row(values ...any) sandbox.Value { return []any{values} }

func TestSQLite(t *testing.T) {
	everyStore(t, "", map[string]sandbox.Error{
		"unique": "SQLITE_CONSTRAINT", "missing": "SQLITE_ERROR", "syntax": "SQLITE_ERROR", "type": "SQLITE_ERROR",
	})
}

// everyStore tests what holds of every store. codes are what the store calls its
// errors.
func everyStore(t *testing.T, dsn string, codes map[string]sandbox.Error) {
	s := openTestSQL(t, dsn, defaultBounds())
	t.Run("fence", func(t *testing.T) {
		useSQL(t, s, func(r *Run) {
			doSQL(t, r,
				stepSQL{"B", writeSQL("by B", 34, "AND fence < 34"), int64(1)},
				stepSQL{"A", writeSQL("by A", 33, "AND fence < 33"), int64(0)},
				stepSQL{"B", writeSQL("by B, again", 34, "AND fence < 34"), int64(0)},
				stepSQL{"B", writeSQL("by B, again", 34, "AND fence <= 34"), int64(1)},
				stepSQL{"Q", "SELECT value, fence FROM storage WHERE id = 'report'", row("by B, again", int64(34))},
				stepSQL{"A", writeSQL("by A", 33, ""), int64(1)},
				stepSQL{"Q", "SELECT value, fence FROM storage WHERE id = 'report'", row("by A", int64(33))})
		})
	})
	t.Run("values", func(t *testing.T) {
		useSQL(t, s, func(r *Run) {
			doSQL(t, r,
				stepSQL{"A", "SELECT id, value FROM storage WHERE fence = 34", []any{}},
				stepSQL{"A", "SELECT NULL, 1, -9223372036854775807, 1.5, 'a''b;--', '' AS empty;", row(nil, int64(1), int64(-9223372036854775807), "1.5", "a'b;--", "")},
				stepSQL{"A", `SELECT count(*), sum(fence), max("fence") FROM storage`, row(int64(2), int64(0), int64(0))},
				stepSQL{"A", "SELECT id, value FROM storage ORDER BY id", []any{[]any{"other", nil}, []any{"report", "empty"}}},
				stepSQL{"A", "UPDATE storage SET fence = 34 WHERE id = 'report' AND fence < 34 RETURNING id, fence", row("report", int64(34))},
				stepSQL{"A", "UPDATE storage SET fence = 33 WHERE id = 'report' AND fence < 33 RETURNING id, fence", []any{}},
				stepSQL{"A", "DELETE FROM storage", int64(2)},
				stepSQL{"A", "CREATE TABLE copy AS SELECT * FROM storage", "CREATE TABLE"},
				stepSQL{"A", "INSERT INTO copy SELECT 'x', 'y', 1", int64(1)})
		})
	})
	t.Run("transactions", func(t *testing.T) {
		useSQL(t, s, func(r *Run) {
			doSQL(t, r,
				stepSQL{"A", "BEGIN", "BEGIN"},
				stepSQL{"A", writeSQL("by A", 33, "AND fence < 33"), int64(1)},
				stepSQL{"A", "SELECT value FROM storage WHERE id = 'report'", row("by A")},
				stepSQL{"B", "SELECT value FROM storage WHERE id = 'report'", row("empty")},
				stepSQL{"A", "ROLLBACK", "ROLLBACK"},
				stepSQL{"A", "SELECT value FROM storage WHERE id = 'report'", row("empty")},
				stepSQL{"A", "BEGIN", "BEGIN"},
				stepSQL{"A", writeSQL("by A", 33, "AND fence < 33"), int64(1)},
				stepSQL{"A", "COMMIT", "COMMIT"},
				stepSQL{"B", "SELECT value FROM storage WHERE id = 'report'", row("by A")})
		})
	})
	t.Run("cut", func(t *testing.T) {
		useSQL(t, s, func(r *Run) {
			doSQL(t, r, stepSQL{"A", "BEGIN", "BEGIN"}, stepSQL{"A", writeSQL("by A", 33, ""), int64(1)})
			r.Cut("A")
			r.Cut("nobody")
			doSQL(t, r,
				stepSQL{"B", writeSQL("by B", 34, "AND fence = 0"), int64(1)},
				stepSQL{"A", "SELECT value FROM storage WHERE id = 'report'", row("by B")})
		})
	})
	t.Run("errors", func(t *testing.T) {
		useSQL(t, s, func(r *Run) {
			doSQL(t, r,
				stepSQL{"A", "INSERT INTO storage VALUES ('report', 'again', 1)", codes["unique"]},
				stepSQL{"A", "SELECT * FROM nowhere", codes["missing"]},
				stepSQL{"A", "UPDATE storage WHERE id", codes["syntax"]},
				stepSQL{"A", "SELECT no_such_column FROM storage", or(codes["column"], codes["syntax"])},
				stepSQL{"A", "SELECT 1", row(int64(1))})
		})
	})
	t.Run("isolation", func(t *testing.T) { isolation(t, s) })
	t.Run("late", func(t *testing.T) { late(t, dsn) })
	t.Run("bounds", func(t *testing.T) { oversized(t, dsn) })
	t.Run("lending", func(t *testing.T) { lending(t, dsn) })
}

// or gives another code where there is none.
func or(e, other sandbox.Error) sandbox.Error {
	if e == "" {
		return other
	}
	return e
}

// isolation has fifty runs at once write to tables of the same name.
func isolation(t *testing.T, s *Store) {
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			for {
				err := s.Use(t.Context(), func(r *Run) error {
					steps := []stepSQL{
						{"Q", "CREATE TABLE storage (id BIGINT PRIMARY KEY, fence BIGINT)", "CREATE TABLE"},
						{"A", fmt.Sprintf("INSERT INTO storage VALUES (1, %d)", n), int64(1)},
						{"B", "SELECT id, fence FROM storage", row(int64(1), int64(n))},
						{"B", "UPDATE storage SET fence = fence + 1", int64(1)},
						{"A", "SELECT fence FROM storage", row(int64(n + 1))},
						{"A", "BEGIN", "BEGIN"}, // left open
						{"A", "UPDATE storage SET fence = 0", int64(1)},
					}
					for _, step := range steps {
						got, err := r.Do(t.Context(), step.actor, step.statement)
						if err != nil {
							return err
						}
						if diff := cmp.Diff(step.want, got); diff != "" {
							t.Errorf("run %d: %s: (-want +got)\n%s", n, step.statement, diff)
						}
					}
					return nil
				})
				if errors.Is(err, sandbox.ErrBusy) {
					continue
				}
				if err != nil {
					t.Errorf("run %d: %v", n, err)
				}
				return
			}
		})
	}
	all.Wait()
}

// numbersSQL fills a table n with 0 … 99.
func numbersSQL(t testing.TB, r *Run) {
	t.Helper()
	digits := "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4" +
		" UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	doSQL(t, r,
		stepSQL{"Q", "CREATE TABLE n (x BIGINT)", "CREATE TABLE"},
		stepSQL{"Q", "INSERT INTO n SELECT 10 * a.d + b.d FROM " + digits + " AS a, " + digits + " AS b", int64(100)})
}

// late has statements run over time, before and after their first row, and a run
// go on after one.
func late(t *testing.T, dsn string) {
	bounds := defaultBounds()
	bounds.answer = 300 * time.Millisecond
	s := openTestSQL(t, dsn, bounds)
	useSQL(t, s, func(r *Run) {
		numbersSQL(t, r)
		for _, statement := range []string{
			"SELECT count(*) FROM n a, n b, n c, n d, n e WHERE a.x + b.x + c.x + d.x + e.x = 1",
			"SELECT a.x FROM n a, n b, n c, n d, n e WHERE a.x + b.x + c.x + d.x + e.x = 0",
			"UPDATE n SET x = (SELECT count(*) FROM n a, n b, n c, n d WHERE a.x + b.x + c.x + d.x = n.x)",
		} {
			start := time.Now()
			value, err := r.Do(t.Context(), "A", statement)
			if !errors.Is(err, sandbox.ErrLate) {
				t.Errorf("%s: %v, %v", statement, value, err)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("%s: took %v", statement, took)
			}
		}
		doSQL(t, r, stepSQL{"A", "SELECT count(*) FROM n WHERE x < 100", row(int64(100))})

		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := r.Do(ctx, "B", "SELECT count(*) FROM n a, n b, n c, n d, n e WHERE a.x + b.x + c.x + d.x + e.x = 1"); !errors.Is(err, sandbox.ErrLate) {
			t.Errorf("a context that ends: %v", err)
		}
		doSQL(t, r, stepSQL{"B", "SELECT count(*) FROM n WHERE x < 100", row(int64(100))})
	})
}

// oversized asks for more than a run may have.
func oversized(t *testing.T, dsn string) {
	bounds := defaultBounds()
	bounds.writes = 250
	s := openTestSQL(t, dsn, bounds)
	useSQL(t, s, func(r *Run) {
		numbersSQL(t, r)
		for range 14 { // 5 bytes to 80 KiB
			doSQL(t, r, stepSQL{"Q", "UPDATE storage SET value = value || value WHERE id = 'report'", int64(1)})
		}
		for _, statement := range []string{
			"SELECT a.x FROM n a, n b",
			"SELECT value FROM storage, n WHERE id = 'report'",
		} {
			if value, err := r.Do(t.Context(), "A", statement); !errors.Is(err, sandbox.ErrTooMuch) {
				t.Errorf("%s: %.80v, %v", statement, value, err)
			}
		}
		doSQL(t, r, stepSQL{"A", "SELECT count(*) FROM n", row(int64(100))})
		if _, err := r.Do(t.Context(), "A", "INSERT INTO n SELECT a.x FROM n a, n b WHERE b.x < 3"); !errors.Is(err, sandbox.ErrTooMuch) {
			t.Errorf("300 rows changed: %v", err)
		}
		for i := range bounds.actors {
			_, err := r.Do(t.Context(), fmt.Sprint("M", i), "SELECT 1")
			if wrong := (i >= bounds.actors-2) != errors.Is(err, sandbox.ErrTooMuch); wrong {
				t.Errorf("actor %d: %v", i+3, err)
			}
		}
	})
}

// lending takes more than there is, and runs that end in every other way.
func lending(t *testing.T, dsn string) {
	bounds := defaultBounds()
	bounds.runs, bounds.wait = 1, 20*time.Millisecond
	s := openTestSQL(t, dsn, bounds)
	var kept *Run
	wrong := errors.New("wrong")
	err := s.Use(t.Context(), func(r *Run) error {
		kept = r
		doSQL(t, r, stepSQL{"A", "CREATE TABLE t (x BIGINT)", "CREATE TABLE"})
		if err := s.Use(t.Context(), func(*Run) error { return nil }); !errors.Is(err, sandbox.ErrBusy) {
			t.Errorf("a second run of one: %v", err)
		}
		return wrong
	})
	if !errors.Is(err, wrong) {
		t.Errorf("the run's own error: %v", err)
	}
	if _, err := kept.Do(t.Context(), "A", "SELECT 1"); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("a statement after the run: %v", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Use(t.Context(), func(r *Run) error {
			doSQL(t, r, stepSQL{"A", "CREATE TABLE t (x BIGINT)", "CREATE TABLE"})
			panic("in a run")
		})
	}()
	var refused *sandbox.CommandError
	err = s.Use(t.Context(), func(r *Run) error {
		_, err := r.Do(t.Context(), "A", "DROP TABLE t")
		return err
	})
	if !errors.As(err, &refused) {
		t.Errorf("a statement that is not allowed: %v", err)
	}
	called, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Use(called, func(*Run) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}

	inside, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- s.Use(context.Background(), func(r *Run) error {
			numbersSQL(t, r)
			close(inside)
			_, err := r.Do(context.Background(), "A", "SELECT count(*) FROM n a, n b, n c, n d, n e WHERE a.x + b.x + c.x + d.x + e.x = 1")
			return err
		})
	}()
	<-inside
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("a run that Close ends: %v", err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := s.Use(t.Context(), func(*Run) error { return nil }); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("after Close: %v", err)
	}
}

// SQLite answers at once where another store would wait.
func TestSQLiteBusy(t *testing.T) {
	useSQL(t, openTestSQL(t, "", defaultBounds()), func(r *Run) {
		doSQL(t, r,
			stepSQL{"A", "BEGIN", "BEGIN"},
			stepSQL{"A", writeSQL("by A", 33, "AND fence < 33"), int64(1)},
			stepSQL{"B", writeSQL("by B", 34, "AND fence < 34"), sandbox.Error("SQLITE_BUSY")},
			stepSQL{"A", "COMMIT", "COMMIT"},
			stepSQL{"B", writeSQL("by B", 34, "AND fence < 34"), int64(1)})
		got, err := r.Do(t.Context(), "B", "INSERT INTO storage VALUES ('report', '', 0)")
		if err != nil {
			t.Fatal(err)
		}
		if want := sandbox.Error("SQLITE_CONSTRAINT constraint failed: UNIQUE constraint failed: storage.id"); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// SQLite itself refuses what CheckSQL would have to have missed.
func TestSQLiteRestricted(t *testing.T) {
	s := openTestSQL(t, "", defaultBounds())
	useSQL(t, s, func(r *Run) {
		numbersSQL(t, r)
		conn, err := r.database.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.close()
		for _, statement := range []string{
			"ATTACH 'file:/tmp/x?mode=memory' AS other",
			"ATTACH ':memory:' AS other",
			"VACUUM",
			"VACUUM INTO '/tmp/lockstep-vacuum'",
			"PRAGMA max_page_count = 1000000",
			"PRAGMA writable_schema = ON",
			"SELECT * FROM pragma_database_list",
			"SELECT load_extension('x')",
			"SELECT randomblob(1000)",
			"SELECT sqlite_version()",
			"WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r",
			"CREATE TRIGGER t AFTER INSERT ON n BEGIN DELETE FROM n; END",
			"CREATE VIEW v AS SELECT 1",
			"CREATE TEMP TABLE t (x)",
			"CREATE VIRTUAL TABLE f USING fts5(x)",
			"DROP TABLE n",
			"ALTER TABLE n ADD COLUMN y",
			"SAVEPOINT s",
			"REINDEX",
			"ANALYZE",
			"UPDATE sqlite_schema SET sql = ''",
			"SELECT ?",
			"SELECT " + strings.Repeat("1 + (", 200) + "1" + strings.Repeat(")", 200),
			"SELECT 1" + strings.Repeat(" UNION SELECT 1", 20),
		} {
			value, err := conn.do(t.Context(), parsed{text: statement, verb: "SELECT"})
			if _, refused := value.(sandbox.Error); err == nil && !refused {
				t.Errorf("%s: %v", statement, value)
			}
		}
		for _, script := range []string{"SELECT 1; SELECT 2", "SELECT 1; DROP TABLE n", ""} {
			var refused *sandbox.CommandError
			if value, err := conn.do(t.Context(), parsed{text: script}); !errors.As(err, &refused) {
				t.Errorf("%q: %v, %v", script, value, err)
			}
		}
	})
	useSQL(t, s, func(r *Run) { // a full database
		numbersSQL(t, r)
		for range 15 {
			doSQL(t, r, stepSQL{"Q", "UPDATE storage SET value = value || value", int64(2)})
		}
		var last sandbox.Value
		for i := range 50 {
			var err error
			last, err = r.Do(t.Context(), "A", fmt.Sprintf("INSERT INTO storage SELECT 'copy %d', value, 0 FROM storage WHERE id = 'report'", i))
			if err != nil {
				t.Fatal(err)
			}
		}
		if refused, ok := last.(sandbox.Error); !ok || refused.Code() != "SQLITE_FULL" {
			t.Errorf("the last of 50 rows of 160 KiB: %v", last)
		}
		doSQL(t, r, stepSQL{"A", "SELECT count(*) FROM n", row(int64(100))})
	})
	useSQL(t, s, func(r *Run) { // a full memory
		numbersSQL(t, r)
		value, err := r.Do(t.Context(), "A", "SELECT count(*) FROM (SELECT DISTINCT a.x, b.x, c.x, 'some text to fill it' FROM n a, n b, n c)")
		if !errors.Is(err, sandbox.ErrTooMuch) && !errors.Is(err, sandbox.ErrLate) {
			t.Errorf("a million distinct rows: %v, %v", value, err)
		}
		doSQL(t, r, stepSQL{"A", "SELECT count(*) FROM n", row(int64(100))})
	})
}

func BenchmarkSQLite(b *testing.B) { benchmarkSQL(b, "") }

// benchmarkSQL measures a run: a table, a row, two writes and a read by three
// actors.
func benchmarkSQL(b *testing.B, dsn string) {
	s := openTestSQL(b, dsn, defaultBounds())
	for b.Loop() {
		useSQL(b, s, func(r *Run) {
			doSQL(b, r,
				stepSQL{"B", writeSQL("by B", 34, "AND fence < 34"), int64(1)},
				stepSQL{"A", writeSQL("by A", 33, "AND fence < 33"), int64(0)},
				stepSQL{"Q", "SELECT value, fence FROM storage WHERE id = 'report'", row("by B", int64(34))})
		})
	}
}

func TestCheckSQL(t *testing.T) {
	for _, statement := range []string{
		"SELECT 1",
		"select value, fence from storage where id = 'report';",
		"INSERT INTO storage (id, value) VALUES ('report', 'it''s -- fine; DROP TABLE x')",
		"INSERT INTO storage(id) VALUES (1) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence WHERE storage.fence <= excluded.fence",
		"UPDATE storage SET value = 'ü', fence = 34 WHERE id = 'report' AND fence <= 34 RETURNING fence",
		"DELETE FROM storage WHERE id IN (SELECT id FROM storage WHERE fence < 3)",
		"CREATE TABLE storage (id TEXT PRIMARY KEY, amount NUMERIC(10, 2) DEFAULT (0), name VARCHAR(20) CHECK (length(name) > 1), UNIQUE (id))",
		"CREATE TABLE IF NOT EXISTS storage(id TEXT, ref BIGINT REFERENCES other(id))",
		`CREATE TABLE "order" ("group" TEXT)`,
		"SELECT count(*), coalesce(max(fence), 0) FROM storage AS s(a, b) WHERE NOT EXISTS (SELECT 1) AND id LIKE ('a%')",
		"SELECT row_number() OVER (ORDER BY fence) FROM storage FOR UPDATE",
		"SELECT fence::text FROM storage",
		"BEGIN", "begin;", "BEGIN IMMEDIATE", "BEGIN ISOLATION LEVEL REPEATABLE READ", "COMMIT", "ROLLBACK TRANSACTION",
	} {
		if err := Check(statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for statement, want := range map[string]string{
		"":                                 "the statement is empty",
		" ; ":                              "the statement is empty",
		"SELECT 1; SELECT 2":               "more than one statement (a step sends one)",
		"SELECT 1; DROP TABLE storage;":    "more than one statement (a step sends one)",
		"ATTACH 'x' AS y":                  "ATTACH is not allowed in a figure (a run has one database, its own)",
		"PRAGMA journal_mode = WAL":        "PRAGMA is not allowed in a figure (it changes how the store works)",
		"COPY storage TO '/tmp/x'":         "COPY is not allowed in a figure (it reaches files; write INSERT)",
		"DROP DATABASE postgres":           "DROP is not allowed in a figure (every run starts in an empty database)",
		"SET statement_timeout = 0":        "SET is not allowed in a figure (it changes how the store works; BEGIN takes an isolation level)",
		"GRANT ALL ON storage TO x":        "GRANT is not allowed in a figure (allowed: SELECT, INSERT, UPDATE, DELETE, CREATE TABLE, BEGIN, COMMIT, ROLLBACK)",
		"CREATE INDEX i ON storage (a)":    "CREATE INDEX is not allowed in a figure (only tables)",
		"CREATE TEMP TABLE t (x INT)":      "CREATE TEMP is not allowed in a figure (a table of the run is gone after it anyway)",
		"CREATE":                           "CREATE is not allowed in a figure (allowed: SELECT, INSERT, UPDATE, DELETE, CREATE TABLE, BEGIN, COMMIT, ROLLBACK)",
		"SELECT pg_sleep(10)":              "the name pg_sleep is not allowed in a figure (wait: 20ms waits)",
		"SELECT set_config('a','b',false)": "the function set_config is not allowed in a figure (it changes how the store works)",
		"SELECT pg_catalog.set_config('a', 'b', false)":        "the name pg_catalog is not allowed in a figure (it belongs to the store)",
		`SELECT "pg_read_file" ('/etc/passwd')`:                "the name pg_read_file is not allowed in a figure (it belongs to the store)",
		`SELECT U&"\0070g_sleep"(1)`:                           "an escape is not allowed in a figure: U& (write the character itself)",
		"SELECT lo_import('/etc/passwd')":                      "the function lo_import is not allowed in a figure",
		"SELECT other.count(*)":                                "the function count is not allowed in a figure (did you mean COUNT?)",
		"SELECT cuont(*) FROM t":                               "the function cuont is not allowed in a figure (did you mean COUNT?)",
		"SELECT * FROM generate_series(1, 1000000000)":         "the function generate_series is not allowed in a figure",
		"SELECT * FROM sqlite_schema":                          "the name sqlite_schema is not allowed in a figure (it belongs to the store)",
		"SELECT * FROM pragma_database_list":                   "the name pragma_database_list is not allowed in a figure (it belongs to the store)",
		"SELECT * FROM information_schema.tables":              "the name information_schema is not allowed in a figure (it belongs to the store)",
		"SELECT * FROM lockstep_run_abc.storage":               "the name lockstep_run_abc is not allowed in a figure (it belongs to the store)",
		"WITH r AS (SELECT 1) SELECT * FROM r":                 "WITH is not allowed in a figure (write a subquery)",
		"SELECT * FROM (WITH r AS (SELECT 1) SELECT * FROM r)": "SELECT … WITH is not allowed in a figure (write a subquery)",
		"SELECT 1 INTO TEMP t":                                 "SELECT … INTO is not allowed in a figure (write CREATE TABLE … AS SELECT …)",
		"UPDATE t SET x = load_extension('x')":                 "the function load_extension is not allowed in a figure",
		"SELECT 1 -- a comment":                                "a comment in a statement (note: says what a step is for)",
		"SELECT /* a comment */ 1":                             "a comment in a statement (note: says what a step is for)",
		"SELECT $1":                                            `"$" is not allowed in a statement (a statement has no parameters; {{ expr }} stands for a value)`,
		"SELECT $$a$$":                                         `"$" is not allowed in a statement (a statement has no parameters; {{ expr }} stands for a value)`,
		"SELECT :x":                                            `":" is not allowed in a statement (a statement has no parameters; {{ expr }} stands for a value)`,
		"SELECT E'\\''; DROP TABLE x --'":                      "a word touches a quote: E' (write 'text', without a prefix)",
		"SELECT [pg_sleep](1)":                                 "\"[\" is not allowed in a statement (a name that needs it is quoted with \")",
		"SELECT 'open":                                         "a quote is not closed (within quotes, write the quote twice)",
		"SELECT 1e5":                                           "a number touches a letter: 1e",
		"SELECT '\xff'":                                        "the statement is not UTF-8",
		"SELECT 'a\x00b'":                                      "a quote is not closed (within quotes, write the quote twice)",
		"ROLLBACK TO SAVEPOINT s":                              "ROLLBACK … TO is not allowed in a figure (a figure's transactions have one level: BEGIN, COMMIT, ROLLBACK)",
		"COMMIT PREPARED 'x'":                                  "COMMIT … PREPARED is not allowed in a figure (a figure's transactions have one level: BEGIN, COMMIT, ROLLBACK)",
		"BEGIN; DROP TABLE x":                                  "BEGIN … ; is not allowed in a figure (a figure's transactions have one level: BEGIN, COMMIT, ROLLBACK)",
		"SELECT '" + strings.Repeat("x", longest) + "'":        "the statement has 4105 bytes, of 4096 at most",
	} {
		err := Check(statement)
		var refused *sandbox.CommandError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v, want %s", statement, err, want)
			continue
		}
		if got := err.Error(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", statement, got, want)
		}
	}
}

// FuzzCheckSQL sees to it that no text brings the reader down, and that what it
// allows is what SQLite takes for one statement.
func FuzzCheckSQL(f *testing.F) {
	for _, seed := range []string{"SELECT 'a''b', \"c\" FROM t(x);", "UPDATE a SET b = c WHERE d <= 3;;", "BEGIN IMMEDIATE", "SELECT u&'x'", "INSERT INTO t VALUES(1),(2)"} {
		f.Add(seed)
	}
	s := openTestSQL(f, "", defaultBounds())
	f.Fuzz(func(t *testing.T, statement string) {
		parsed, err := parse(statement)
		if err != nil {
			return
		}
		err = s.Use(t.Context(), func(r *Run) error {
			_, err := r.Do(t.Context(), "A", statement)
			return err
		})
		if err != nil {
			t.Errorf("%q (%q): %v", statement, parsed.text, err)
		}
	})
}
