package card

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

func reads(name, target, command string) figures.Observation {
	return figures.Observation{Name: name, Target: target, Command: expr.Command{Source: command}}
}

func TestBoxes(t *testing.T) {
	p := &figures.Path{Observe: []figures.Observation{
		reads("holder", "", "GET lock"), reads("pending", "", "ZRANGE pending 0 -1"), reads("seen", "", "HGET report fence"), reads("value", "", "HGET report value"),
		{Name: "received", Received: "A"}, reads("row", "sql", "SELECT value, fence FROM reports WHERE id = 'r1'"),
	}}
	f := &figures.Figure{Resource: "lock", Paths: []*figures.Path{p}}
	want := []box{
		{Title: "pending", Readings: []string{"pending"}},
		{Title: "report", Readings: []string{"fence", "value"}},
		{Title: "reports", Readings: []string{"row"}, Columns: []string{"value", "fence"}},
	}
	if diff := cmp.Diff(want, boxesOf(f)); diff != "" {
		t.Errorf("boxes (-want +got):\n%s", diff)
	}
	for range 9 {
		p.Observe = append(p.Observe, reads("x", "", "GET k"+strings.Repeat("k", len(p.Observe))))
	}
	if got := len(boxesOf(f)); got != mostBoxes-1 {
		t.Errorf("%d boxes beside the key, want %d", got, mostBoxes-1)
	}
	r := &figures.Result{State: map[string]any{"pending": []any{"JOB1", "JOB2"}, "seen": "34", "received": int64(1)}}
	text := strings.Join(strings.Fields(render(t, key(f, sandbox.Engine{Name: "valkey"}, p, r)).Text()), " ")
	for _, want := range []string{"pendingJOB1JOB2", "fence34", "value–", "received1"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q isn't drawn in %q", want, text)
		}
	}
}

// What the row was before is known where the store's answers say so.
func TestRowBefore(t *testing.T) {
	const insert = "INSERT INTO reports (id, value, fence) VALUES ('r1', 'it''s, empty', 0)"
	type done struct {
		statement string
		changed   int64
	}
	for _, test := range []struct {
		name string
		done []done
		want []string
	}{
		{"inserted", []done{{insert, 1}}, []string{"it's, empty", "0"}},
		{"updated", []done{{insert, 1}, {"UPDATE reports SET value = 'by-B', fence = 34 WHERE id = 'r1' AND fence <= 34", 1}}, []string{"by-B", "34"}},
		{"refused", []done{{insert, 1}, {"UPDATE reports SET value = 'by-A', fence = 33 WHERE id = 'r1'", 0}}, []string{"it's, empty", "0"}},
		{"another table", []done{{insert, 1}, {"UPDATE jobs SET value = 'x'", 1}}, []string{"it's, empty", "0"}},
		{"computed", []done{{insert, 1}, {"UPDATE reports SET fence = fence + 1", 1}}, nil},
		{"two rows", []done{{insert, 1}, {insert, 1}}, nil},
		{"none", nil, nil},
	} {
		r := &figures.Result{}
		for _, d := range test.done {
			r.Trace = append(r.Trace, figures.Entry{Phase: figures.PhaseSetup, Target: "sql", Command: d.statement, Reply: d.changed})
		}
		r.Trace = append(r.Trace, figures.Entry{Phase: figures.PhaseSteps, Target: "sql", Command: "UPDATE reports SET value = 'later'", Reply: int64(1)})
		if diff := cmp.Diff(test.want, rowBefore("reports", []string{"value", "fence"}, r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestValuesInWords(t *testing.T) {
	now := time.UnixMilli(1_796_643_739_314)
	r := &figures.Result{Ended: now}
	for _, test := range []struct{ got, want string }{
		{words([]any{}, "lost", r), "none"},
		{words([]any{nil, nil}, "holders", r), "nil and nil"},
		{words("1796643769314", "JOB01", r), "30,000 ms left"},
		{words("1796643739274", "JOB01", r), "over for 40 ms"},
		{words("1030000", "JOB01", r), "1030000"},
		{words("1500000000000", "JOB01", r), "1500000000000"},
		{words("1796643769314", "JOB01", &figures.Result{}), "1796643769314"},
		{words(int64(-1), "lease", r), "no expiry"},
		{keyWords(figures.KeyState{Type: "zset", Text: "JOB1 1796643769314, JOB2 2"}, r), "JOB1: 30,000 ms left, JOB2: score 2"},
		{keyWords(figures.KeyState{Type: "string", Text: "abc"}, r), `"abc"`},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
