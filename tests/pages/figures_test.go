package pages_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"lockstep/figures"
	"lockstep/tests/course"
)

// TestFigures runs every path of every figure on the real server, and holds it
// against what its dive states; those aside that are TestTimedFigures' business.
func TestFigures(t *testing.T) {
	t.Parallel()
	s := course.Visit(t)
	for _, p := range s.Course.Pages {
		for _, fig := range p.Figures {
			if !timed(fig) {
				t.Run(p.ID+"/"+fig.ID, func(t *testing.T) {
					t.Parallel()
					checkFigure(t, s, fig)
				})
			}
		}
	}
}

// TestTimedFigures is TestFigures for figures that run in real time or on several
// servers, one after another.
func TestTimedFigures(t *testing.T) {
	s := course.Visit(t)
	for _, p := range s.Course.Pages {
		for _, fig := range p.Figures {
			if timed(fig) {
				t.Run(p.ID+"/"+fig.ID, func(t *testing.T) { checkFigure(t, s, fig) })
			}
		}
	}
}

func timed(fig *figures.Figure) bool { return fig.Timed() || fig.Topology.Several() }

func checkFigure(t *testing.T, s *course.Site, fig *figures.Figure) {
	t.Helper()
	faults, err := s.Runner.Check(t.Context(), fig)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
	for _, path := range fig.Paths {
		if strings.TrimSpace(path.Static) == "" {
			t.Errorf("%s:%d: path %q has no recorded verdict", fig.File, path.Line, path.ID)
		}
	}
}

// TestSessions sends every command of every session, and wants the replies that
// are written under it.
func TestSessions(t *testing.T) {
	t.Parallel()
	s := course.Visit(t)
	for _, p := range s.Course.Pages {
		for _, session := range p.Sessions {
			faults, err := s.Runner.CheckSession(t.Context(), session)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range faults {
				t.Error(f)
			}
		}
	}
}

// TestContract asks for the JSON of the language's contract, and looks at every
// field of it: name, type, and value where one is promised.
func TestContract(t *testing.T) {
	t.Parallel()
	lost, err := os.ReadFile("../testdata/lost.md")
	if err != nil {
		t.Fatal(err)
	}
	s := course.Open(t, course.Setup{Content: fstest.MapFS{"course/chapter/module/lost.md": {Data: lost}}})
	for _, fig := range s.Course.Pages[len(s.Course.Pages)-1].Figures {
		faults, err := s.Runner.Check(t.Context(), fig)
		if err != nil || len(faults) > 0 {
			t.Error(err, faults)
		}
	}
	at := func(address string) any {
		a := course.Fetch(t, s.URL+"/course/chapter/module/lost"+address, course.JSON)
		var value any
		if err := json.Unmarshal([]byte(a.Body), &value); err != nil || a.Code != http.StatusOK {
			t.Fatalf("%s: %d %v: %s", address, a.Code, err, a.Body)
		}
		return value
	}
	number, text, object, list := "float64", "string", "map[string]interface {}", "[]interface {}"
	for _, tt := range []struct {
		address string
		types   map[string]string
		values  map[string]any
	}{
		{
			"/figures/lost-lock/blind-del",
			map[string]string{
				"dive": text, "figure": text, "path": text, "status": text, "verdict": text,
				"engine": object, "engine.name": text, "engine.version": text, "engine.mode": text,
				"values": object, "state": object, "trace": list, "trace.0": object,
				"trace.0.at_us": number, "trace.0.actor": text, "trace.0.command": text, "trace.0.reply": text,
				"commands": number, "took_us": number,
			},
			map[string]any{
				"dive": "R2.02.2", "figure": "lost-lock", "path": "blind-del", "status": "broken",
				"verdict":     "A deletes B's lock and C gets in while B still works.",
				"engine.name": "valkey", "engine.mode": "managed",
				"values.released": 1.0, "values.entered": "OK", "state.holder": "ccc",
				"trace.0.actor": "A", "trace.0.command": "SET resource:lock abc NX PX 2", "trace.0.reply": "OK",
				"trace.2.actor": "B", "trace.2.command": "SET resource:lock xyz NX PX 30000",
				"trace.3.actor": "A", "trace.3.command": "DEL resource:lock", "trace.3.reply": 1.0,
				"trace.4.actor": "C", "trace.4.reply": "OK",
				"explored": nil, // it stands only where programs ran
				"commands": 5.0,
			},
		},
		{
			"/figures/lost-lock/token-checked", nil,
			map[string]any{
				"status": "refused", "verdict": `A's release returns 0; B's lock "xyz" stands.`,
				"values.released": 0.0, "values.entered": nil, "state.holder": "xyz",
				"trace.3.command": "EVAL release.lua 1 resource:lock abc", "trace.3.reply": 0.0,
			},
		},
		{
			"/figures/every-order/blind-del",
			map[string]string{
				"explored": object, "explored.schedules": number, "explored.violations": object, "explored.counterexamples": object,
				"trace": list, "values": object, "state": object, "commands": number, "took_us": number,
			},
			map[string]any{
				"status": "broken", "explored.schedules": 324.0, "explored.violations.exclusion": 36.0, "explored.violations.freed": 0.0,
				"explored.counterexamples.exclusion": "A.A.lapse.B.A.C.B.B.C.C", "explored.counterexamples.freed": nil,
				"trace.#": 10.0, "trace.0.command": "SET resource:lock A NX PX 30000", "trace.0.reply": "OK",
			},
		},
		{
			"/figures/every-order/blind-del?schedule=A.B",
			map[string]string{"next": list, "trace": list},
			map[string]any{"trace.#": 2.0, "next.0": "A", "next.1": "C", "next.2": nil, "explored": nil},
		},
		{
			"/figures/every-order/blind-del?schedule=A.B.A.A", nil,
			map[string]any{"next.0": "C", "next.1": nil},
		},
		{
			"/figures/every-order/blind-del?schedule=A.A",
			nil,
			map[string]any{"next.0": "A", "next.1": "B", "next.2": "C", "next.3": "lapse", "next.4": nil},
		},
		{
			"/figures",
			map[string]string{"0.figure": text, "0.title": text, "0.paths": list, "0.paths.0.path": text, "0.paths.0.label": text, "0.paths.0.static": text},
			map[string]any{
				"#": 2.0, "0.figure": "lost-lock", "0.title": "The lost-lock deletion", "0.paths.#": 2.0,
				"0.paths.0.path": "blind-del", "0.paths.0.label": "blind DEL",
				"0.paths.0.static": "A deletes B's lock and C gets in while B still works.",
			},
		},
	} {
		value := at(tt.address)
		for path, want := range tt.types {
			got, ok := dig(value, path)
			if kind := fmt.Sprintf("%T", got); !ok || kind != want {
				t.Errorf("%s: %s is %s (%v), want %s", tt.address, path, kind, got, want)
			}
		}
		for path, want := range tt.values {
			if got, _ := dig(value, path); got != want {
				t.Errorf("%s: %s is %v, want %v", tt.address, path, got, want)
			}
		}
	}
	result := at("/figures/lost-lock/blind-del").(map[string]any)
	if n := len(result["values"].(map[string]any)); n != 2 {
		t.Errorf("values has %d names, want 2", n)
	}
	before := -1.0
	for i, e := range result["trace"].([]any) {
		at := e.(map[string]any)["at_us"].(float64)
		if at < before || at > result["took_us"].(float64) {
			t.Errorf("trace.%d.at_us is %v, after %v and in a run of %v", i, at, before, result["took_us"])
		}
		before = at
	}
	for _, e := range result["trace"].([]any) {
		if _, ok := e.(map[string]any)["reply"]; !ok {
			t.Errorf("an entry without a reply: %v", e)
		}
	}
}
