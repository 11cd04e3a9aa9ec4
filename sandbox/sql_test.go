package sandbox

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testSQL opens a store for a test.
func testSQL(t *testing.T, dsn string, bounds boundsSQL) *SQL {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := openSQL(ctx, dsn, bounds)
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

// A stepSQL is a statement of an actor's and its reply.
type stepSQL struct {
	actor, statement string
	want             Value
}

func runSQL(t *testing.T, s *SQL, steps []stepSQL) {
	t.Helper()
	err := s.Use(t.Context(), func(r *SQLRun) error {
		for _, step := range steps {
			got, err := r.Do(t.Context(), step.actor, step.statement)
			if err != nil {
				t.Errorf("%s: %s: %v", step.actor, step.statement, err)
				continue
			}
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s: %s: (-want +got)\n%s", step.actor, step.statement, diff)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var tableSQL = []stepSQL{
	{"Q", "CREATE TABLE storage (id TEXT PRIMARY KEY, value TEXT, fence BIGINT NOT NULL)", "CREATE TABLE"},
	{"Q", "INSERT INTO storage (id, value, fence) VALUES ('report', 'empty', 0)", int64(1)},
}

func TestSQLFence(t *testing.T) {
	s := testSQL(t, "", defaultBoundsSQL())
	write := func(actor, value, fence, condition string) string {
		return "UPDATE storage SET value = '" + value + "', fence = " + fence + " WHERE id = 'report'" + condition
	}
	runSQL(t, s, append(tableSQL,
		stepSQL{"B", write("B", "by B", "34", " AND fence < 34"), int64(1)},
		stepSQL{"A", write("A", "by A", "33", " AND fence < 33"), int64(0)},
		stepSQL{"B", write("B", "by B again", "34", " AND fence < 34"), int64(0)},
		stepSQL{"B", write("B", "by B again", "34", " AND fence <= 34"), int64(1)},
		stepSQL{"Q", "SELECT value, fence FROM storage", []any{[]any{"by B again", int64(34)}}},
		stepSQL{"A", write("A", "by A", "33", ""), int64(1)},
		stepSQL{"Q", "SELECT value, fence FROM storage", []any{[]any{"by A", int64(33)}}},
	))
}
