package explore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/figures"
	"lockstep/figures/read"
	"lockstep/lua"
	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

// testExplorer explores on a server of the test's own.
func testExplorer(t testing.TB) *explorer {
	t.Helper()
	if _, err := exec.LookPath("valkey-server"); err != nil {
		if os.Getenv("LOCKSTEP_REQUIRE") != "" {
			t.Fatal("no valkey-server on the PATH")
		}
		t.Skip("no valkey-server on the PATH")
	}
	sources := map[string]string{}
	for name, s := range courseScripts(t) {
		sources[name] = s.Source
	}
	box, err := server.Open(t.Context(), server.Options{Scripts: sources})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return &explorer{box}
}

type explorer struct{ box *server.Server }

func (x *explorer) every(t testing.TB, fig *figures.Figure) *figures.Result {
	t.Helper()
	var result *figures.Result
	err := x.box.Lend(t.Context(), Databases, func(dbs []*sandbox.DB) (err error) {
		result, err = Every(t.Context(), dbs, fig, fig.Paths[0])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func (x *explorer) replay(t testing.TB, fig *figures.Figure, schedule string, known *figures.Explored) (result *figures.Result, err error) {
	err = x.box.Use(t.Context(), func(db *sandbox.DB) (err error) {
		result, err = Replay(t.Context(), db, fig, fig.Paths[0], schedule, known)
		return err
	})
	return result, err
}

func mustRead(t testing.TB, text string, scripts lua.Scripts) *figures.Figure {
	t.Helper()
	fig, faults := read.Figure([]byte(text), "dive.md", 1, scripts)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return fig
}

func courseScripts(t testing.TB) lua.Scripts {
	t.Helper()
	scripts, err := lua.Load(lua.FS())
	if err != nil {
		t.Fatal(err)
	}
	return scripts
}

// A client of the table below: it takes the lock, works inside, and releases.
func clientFigure(acquire, release, clients, events, conditions string) string {
	names := strings.Split(clients, "")
	var b strings.Builder
	fmt.Fprintf(&b, "id: table\npaths:\n  - id: all\n    programs:\n      %s: &client\n", names[0])
	b.WriteString(acquire)
	b.WriteString("        - enter\n        - work\n        - leave\n")
	fmt.Fprintf(&b, "        - do: %s\n", release)
	for _, n := range names[1:] {
		fmt.Fprintf(&b, "      %s: *client\n", n)
	}
	b.WriteString(events)
	b.WriteString(conditions)
	b.WriteString("    verdicts:\n      - {status: safe, text: done}\n")
	return b.String()
}

const (
	setNX     = "        - do: SET l {{self}} NX PX 30000\n          else: stop\n"
	setnx     = "        - do: SETNX l {{self}}\n          else: stop\n        - do: EXPIRE l 30\n"
	del       = "DEL l"
	checked   = "EVAL release.lua 1 l {{self}}"
	freeLapse = "    events:\n      - lapse: l\n"
	idleLapse = "    events:\n      - lapse: l\n        if: inside == 0\n"
	crashA    = "    events:\n      - crash: A\n"
	exclusion = "    always: {exclusion: inside <= 1}\n"
	expires   = "    finally: {expires: lock == nil || ttl > 0}\n    observe: {lock: GET l, ttl: PTTL l}\n"
)

// The counts were computed independently of this program.
func TestExploreTable(t *testing.T) {
	tests := []struct {
		name, figure, condition string
		schedules, broken       int
		shortest                string
	}{
		{"2 clients, blind DEL, one free lapse", clientFigure(setNX, del, "AB", freeLapse, exclusion), "exclusion", 44, 12, ""},
		{"2 clients, token-checked, one free lapse", clientFigure(setNX, checked, "AB", freeLapse, exclusion), "exclusion", 44, 12, ""},
		{"3 clients, blind DEL, lapse while nobody is inside", clientFigure(setNX, del, "ABC", idleLapse, exclusion), "exclusion", 324, 36, "A.A.lapse.B.A.C.B.B.C.C"},
		{"3 clients, token-checked, the same lapse", clientFigure(setNX, checked, "ABC", idleLapse, exclusion), "exclusion", 270, 0, ""},
		{"3 clients, token-checked, one free lapse", clientFigure(setNX, checked, "ABC", freeLapse, exclusion), "exclusion", 768, 318, ""},
		{"SETNX then EXPIRE, A may crash", clientFigure(setnx, checked, "AB", crashA, expires), "expires", 20, 3, "A.B.crash:A"},
		{"SET NX PX, A may crash", clientFigure(setNX, checked, "AB", crashA, expires), "expires", 13, 0, ""},
	}
	explorer := testExplorer(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fig := mustRead(t, test.figure, courseScripts(t))
			result := explorer.every(t, fig)
			e := result.Explored
			if e.Schedules != test.schedules || e.Violations[test.condition] != test.broken {
				t.Errorf("%d schedules, %d broken; want %d and %d", e.Schedules, e.Violations[test.condition], test.schedules, test.broken)
			}
			if got := e.Counterexamples[test.condition]; test.shortest != "" && got != test.shortest {
				t.Errorf("shortest %s, want %s", got, test.shortest)
			}
			if len(e.Cells) != e.Schedules {
				t.Errorf("%d cells for %d schedules", len(e.Cells), e.Schedules)
			}
			cellsBroken := 0
			for _, c := range e.Cells {
				cellsBroken += c.Broken
			}
			if cellsBroken != test.broken {
				t.Errorf("%d broken cells, want %d", cellsBroken, test.broken)
			}
			if s, ok := e.Counterexamples[test.condition]; ok {
				replayed, err := explorer.replay(t, fig, s, nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{test.condition}, replayed.Schedule.Broken); diff != "" {
					t.Errorf("the counterexample, replayed, breaks (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A random program over one key, explored with merging, run schedule by
// schedule without, and enumerated by a model that knows no server.
func TestExploreAgreesWithModel(t *testing.T) {
	explorer := testExplorer(t)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		m := randomModel(rng)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			fig := mustRead(t, m.yaml(), courseScripts(t))
			result := explorer.every(t, fig)
			want := m.enumerate()
			got := outcome{result.Explored.Schedules, result.Explored.Violations["alone"], result.Explored.Counterexamples["alone"]}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("explored against the model (-model +explored):\n%s\n%s", diff, m.yaml())
			}
			var each *figures.Explored
			err := explorer.box.Lend(t.Context(), Databases, func(dbs []*sandbox.DB) (err error) {
				each, err = Each(t.Context(), dbs, fig, fig.Paths[0])
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(each.Violations, result.Explored.Violations); diff != "" || each.Schedules != result.Explored.Schedules {
				t.Errorf("each schedule run whole gives %d schedules, merging %d; violations (-each +merged):\n%s", each.Schedules, result.Explored.Schedules, diff)
			}
		})
	}
}

// A model is programs over one string key, without a server.
type model struct {
	programs [][]modelStep
	lapses   bool
	idle     bool // the lapse happens only while nobody is inside
}

type modelStep struct {
	op    string // "take", "drop", "release", "work", "put", "renew"
	stop  bool
	enter bool
	leave bool
}

type outcome struct {
	schedules, broken int
	shortest          string
}

func randomModel(rng *rand.Rand) model {
	m := model{lapses: rng.IntN(3) > 0, idle: rng.IntN(2) == 0}
	ops := []string{"take", "drop", "release", "work", "put", "renew"}
	for range 2 + rng.IntN(2) {
		var steps []modelStep
		inside := false
		for range 1 + rng.IntN(3) {
			s := modelStep{op: ops[rng.IntN(len(ops))]}
			s.stop = s.op != "work" && rng.IntN(2) == 0
			switch rng.IntN(3) {
			case 0:
				s.enter, inside = !inside, true
			case 1:
				s.leave, inside = inside, false
			}
			steps = append(steps, s)
		}
		m.programs = append(m.programs, steps)
	}
	return m
}

func (m model) yaml() string {
	commands := map[string]string{
		"take": "SET l {{self}} NX PX 30000", "drop": "DEL l", "release": "EVAL release.lua 1 l {{self}}",
		"put": "SET l {{self}} PX 60000", "renew": "PEXPIRE l 30000",
	}
	var b strings.Builder
	b.WriteString("id: model\npaths:\n  - id: all\n    programs:\n")
	for i, steps := range m.programs {
		fmt.Fprintf(&b, "      %c:\n", 'A'+i)
		for _, s := range steps {
			if s.op == "work" {
				b.WriteString("        - work\n")
			} else {
				fmt.Fprintf(&b, "        - do: %s\n", commands[s.op])
				if s.stop {
					b.WriteString("          else: stop\n")
				}
			}
			if s.enter {
				b.WriteString("        - enter\n")
			}
			if s.leave {
				b.WriteString("        - leave\n")
			}
		}
	}
	if m.lapses {
		b.WriteString("    events:\n      - lapse: l\n")
		if m.idle {
			b.WriteString("        if: inside == 0\n")
		}
	}
	b.WriteString("    always: {alone: inside <= 1}\n    verdicts:\n      - {status: safe, text: done}\n")
	return b.String()
}

// modelState is what the model keeps of the server and the clients.
type modelState struct {
	holder byte // 0: no key
	at     [4]int
	inside [4]bool
	lapsed bool
}

func (m model) enumerate() outcome {
	var o outcome
	var walk func(s modelState, done []string, broken bool)
	walk = func(s modelState, done []string, broken bool) {
		over := true
		for i, steps := range m.programs {
			over = over && s.at[i] >= len(steps)
		}
		if over {
			o.schedules++
			if broken {
				o.broken++
				if text := strings.Join(done, "."); o.shortest == "" || len(done) < strings.Count(o.shortest, ".")+1 {
					o.shortest = text
				}
			}
		}
		for i, steps := range m.programs {
			if s.at[i] < len(steps) {
				next := m.move(s, i)
				walk(next, append(done, string(rune('A'+i))), broken || next.crowd() > 1)
			}
		}
		if m.lapses && !s.lapsed && s.holder != 0 && (!m.idle || s.crowd() == 0) {
			next := s
			next.holder, next.lapsed = 0, true
			walk(next, append(done, "lapse"), broken || next.crowd() > 1)
		}
	}
	walk(modelState{}, nil, false)
	return o
}

func (s modelState) crowd() int {
	n := 0
	for _, in := range s.inside {
		if in {
			n++
		}
	}
	return n
}

func (m model) move(s modelState, i int) modelState {
	step := m.programs[i][s.at[i]]
	self := byte('A' + i)
	ok := true
	switch step.op {
	case "take":
		if ok = s.holder == 0; ok {
			s.holder = self
		}
	case "drop":
		ok, s.holder = s.holder != 0, 0
	case "release":
		if ok = s.holder == self; ok {
			s.holder = 0
		}
	case "put":
		s.holder = self
	case "renew":
		ok = s.holder != 0
	}
	s.at[i]++
	if step.stop && !ok {
		s.at[i], s.inside[i] = len(m.programs[i]), false
		return s
	}
	if step.enter {
		s.inside[i] = true
	}
	if step.leave {
		s.inside[i] = false
	}
	return s
}

func TestScheduleFaults(t *testing.T) {
	explorer := testExplorer(t)
	fig := mustRead(t, clientFigure(setNX, checked, "AB", freeLapse, exclusion), courseScripts(t))
	tests := []struct {
		schedule, want string
		step           int
	}{
		{"lapse", "possible there is A, B", 1},
		{"A.C", "possible there is A, B, lapse", 2},
		{"A.B.B", `step 3, "B": possible there is A, lapse`, 3},
		{"A..A", `step 2, ""`, 2},
		{"a", `step 1, "a"`, 1},
	}
	for _, test := range tests {
		_, err := explorer.replay(t, fig, test.schedule, nil)
		bad, ok := err.(*ScheduleError)
		if !ok || bad.Step != test.step || !strings.Contains(bad.Error(), test.want) {
			t.Errorf("%s: %v, want step %d with %q", test.schedule, err, test.step, test.want)
		}
	}
	result, err := explorer.replay(t, fig, "A.B.lapse", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A"}, result.Next); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}

func TestExploreScriptError(t *testing.T) {
	fig := mustRead(t, `
id: errs
paths:
  - id: all
    programs:
      A:
        - do: LPUSH l {{self}}
        - do: EVAL release.lua 1 l A
          as: released
          else: stop
        - do: SET never x
    finally: {stopped: code(A.released) == "WRONGTYPE" && never == nil}
    observe: {never: GET never}
    verdicts:
      - {when: violations.stopped == 0, status: safe, text: "{{schedules}} schedule"}
`, courseScripts(t))
	result := testExplorer(t).every(t, fig)
	if result.Verdict != "1 schedule" {
		t.Errorf("verdict %q (%+v)", result.Verdict, result.Explored)
	}
}
