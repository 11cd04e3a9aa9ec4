package card

import (
	"testing"

	"lockstep/figures"
	"lockstep/sandbox"
)

func TestChip(t *testing.T) {
	step := func(actor, command string, reply any) figures.Entry {
		return figures.Entry{Phase: figures.PhaseSteps, Actor: actor, Command: command, Reply: reply}
	}
	racing := func(actor string, reply any) figures.Entry {
		e := step(actor, "SET resource:lock x NX PX 30000", reply)
		e.Race = 1
		return e
	}
	at := func(target string, e figures.Entry) figures.Entry {
		e.Target = target
		return e
	}
	for _, test := range []struct {
		name  string
		trace []figures.Entry
		want  answer
	}{
		{"a script by its name", []figures.Entry{step("A", "EVAL fenced_write.lua 1 report 33 by-A", int64(0))}, answer{"fenced_write", "0"}},
		{"somebody else's first", []figures.Entry{step("B", "SET k b", "OK"), step("A", "GET k", "b")}, answer{"GET", "b"}},
		{"a race", []figures.Entry{racing("A", nil), racing("B", "OK"), racing("C", nil), racing("D", nil)}, answer{"SET", "1 OK, 3 nil"}},
		{"every server", []figures.Entry{at("all", step("A", "SET k a NX", []any{"OK", nil, "OK"}))}, answer{"SET", "2 OK, 1 nil"}},
		{"numbers", []figures.Entry{at("all", step("A", "EVAL release.lua 1 k a", []any{int64(1), int64(1), int64(0)}))}, answer{"release", "2 × 1, 1 × 0"}},
		{"rows", []figures.Entry{at("sql", step("A", "UPDATE reports SET fence = 33", int64(0)))}, answer{"UPDATE", "0 rows"}},
		{"an error", []figures.Entry{step("A", "EVAL emq_complete.lua 1 k a", sandbox.Error("EMQSTALE the claim is not the latest"))}, answer{"emq_complete", "EMQSTALE"}},
		{"a list", []figures.Entry{step("A", "ZRANGE k 0 -1", []any{"JOB01", nil, int64(2)})}, answer{"ZRANGE", "JOB01, nil and 2"}},
		{"nothing in it", []figures.Entry{step("A", "ZRANGE k 0 -1", []any{})}, answer{"ZRANGE", "none"}},
	} {
		got, ok := chip(&figures.Path{Actor: "A"}, &figures.Result{Trace: test.trace})
		if !ok || got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
	if got, ok := chip(&figures.Path{Actor: "A"}, &figures.Result{}); ok {
		t.Errorf("a run without commands has the chip %v", got)
	}
}
