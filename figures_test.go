package lockstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"lockstep/content"
	"lockstep/figures"
	"lockstep/figures/run"
)

// TestFigures runs every path of every figure, and every session, on the real
// server, and holds them against what the dives state.
func TestFigures(t *testing.T) {
	s := visit(t)
	for _, p := range s.course.Pages {
		for _, fig := range p.Figures {
			t.Run(p.ID+"/"+fig.ID, func(t *testing.T) {
				faults, err := s.runner.Check(t.Context(), fig)
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
			})
		}
		for _, session := range p.Sessions {
			faults, err := s.runner.CheckSession(t.Context(), session)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range faults {
				t.Error(f)
			}
		}
	}
}

// A visitedPath is one path of the course, with what a single run of it says.
type visitedPath struct {
	url     string
	page    *content.Page
	fig     *figures.Figure
	path    *figures.Path
	pattern *regexp.Regexp // of the verdict; nil where the server can't run it
	status  string
	counts  map[string]int // of an exploration: schedules and violations
}

// alone is every path of the course, run once by itself; those aside that run in
// real time or on several servers, which TestFigures runs one after another.
var alone = sync.OnceValues(func() ([]visitedPath, error) {
	s, err := sharedSite()
	if err != nil {
		return nil, err
	}
	var all []visitedPath
	for _, p := range s.course.Pages {
		for _, fig := range p.Figures {
			for _, path := range fig.Paths {
				if path.Timed() || fig.Topology.Several() {
					continue
				}
				v := visitedPath{page: p, fig: fig, path: path}
				result, err := s.runner.Run(context.Background(), fig, path)
				var needs *run.NeedsError
				switch {
				case err == nil:
					v.pattern, v.status, v.counts = regexp.MustCompile(result.Pattern), result.Status.String(), countsOf(result.Explored)
				case !errors.As(err, &needs):
					return nil, fmt.Errorf("%s.%s: %w", fig.ID, path.ID, err)
				}
				all = append(all, v)
			}
		}
	}
	return all, nil
})

// pathsOf gives the paths of alone with their addresses on a site.
func pathsOf(t *testing.T, s *served) []visitedPath {
	t.Helper()
	need(t, "valkey-server")
	paths, err := alone()
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.Clone(paths)
	for i, v := range paths {
		paths[i].url = runURL(s.http.URL, v.page, v.fig, v.path)
	}
	return paths
}

func countsOf(e *figures.Explored) map[string]int {
	if e == nil {
		return nil
	}
	counts := maps.Clone(e.Violations)
	counts["schedules"] = e.Schedules
	return counts
}

// judge holds one answer of many against the single run.
func (v visitedPath) judge(a answer) error {
	if v.pattern == nil {
		if a.code != http.StatusNotImplemented {
			return fmt.Errorf("%s: %d, and alone it can't run here", v.url, a.code)
		}
		return nil
	}
	if a.code != http.StatusOK {
		return fmt.Errorf("%s: %d %s", v.url, a.code, a.body)
	}
	var r figures.Result
	if err := json.Unmarshal([]byte(a.body), &r); err != nil {
		return fmt.Errorf("%s: %w", v.url, err)
	}
	if r.Status.String() != v.status || !v.pattern.MatchString(r.Verdict) {
		return fmt.Errorf("%s: %s, %q; alone it is %s, %s", v.url, r.Status, r.Verdict, v.status, v.pattern)
	}
	if r.Dive != v.page.ID || r.Figure != v.fig.ID || r.Path != v.path.ID {
		return fmt.Errorf("%s: the answer is for %s %s.%s", v.url, r.Dive, r.Figure, r.Path)
	}
	if got := countsOf(r.Explored); !maps.Equal(got, v.counts) {
		return fmt.Errorf("%s: counts %v; alone %v", v.url, got, v.counts)
	}
	return nil
}

// TestConcurrent asks for 500 runs at once, all figures mixed, and wants the
// verdict that each gives alone; nothing is left over. A single run is never
// refused. An exploration may be, when all databases for explorations are lent;
// its reader asks again, as Retry-After says, only sooner.
func TestConcurrent(t *testing.T) {
	const runs, readers = 500, 64
	s := openSite(t, setup{limit: 10 * time.Second})
	paths := pathsOf(t, s)
	visitor := client(t, readers)
	var refused atomic.Int64
	round := func(runs int) {
		jobs := make(chan visitedPath)
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				for v := range jobs {
					deadline := time.Now().Add(time.Minute)
					a, err := ask(visitor, v.url, asJSON)
					for err == nil && a.code == http.StatusTooManyRequests && v.path.Explores() && time.Now().Before(deadline) {
						if a.header.Get("Retry-After") == "" {
							t.Errorf("%s: refused without a word on when to come back", v.url)
						}
						refused.Add(1)
						time.Sleep(5 * time.Millisecond)
						a, err = ask(visitor, v.url, asJSON)
					}
					if err == nil {
						err = v.judge(a)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		order := rand.New(rand.NewPCG(2, 26))
		for i := range runs {
			if i < len(paths) {
				jobs <- paths[i] // each at least once
			} else {
				jobs <- paths[order.IntN(len(paths))]
			}
		}
		close(jobs)
		all.Wait()
	}
	round(2 * readers) // every database gets its connection
	settled := held(visitor)
	start := time.Now()
	round(runs)
	t.Logf("%d runs in %v; explorations refused for a moment: %d times", runs, time.Since(start).Round(time.Millisecond), refused.Load())
	eventually(t, 10*time.Second, "goroutines and connections are back where they were", func() bool {
		now := held(visitor)
		return now.goroutines <= settled.goroutines+2 && now.sockets <= settled.sockets+2
	})
}

// holdings are things that a leak would make grow.
type holdings struct{ goroutines, sockets int }

// held counts them, once the visitors' own connections are closed.
func held(visitor *http.Client) holdings {
	var last holdings
	for range 500 { // connections take a moment to end on both sides
		visitor.CloseIdleConnections()
		time.Sleep(2 * time.Millisecond)
		now := holdings{runtime.NumGoroutine(), sockets()}
		if now == last {
			break
		}
		last = now
	}
	return last
}

// sockets is how many this process holds open; 0 where there is no /proc.
func sockets() (n int) {
	names, _ := os.ReadDir("/proc/self/fd")
	for _, name := range names {
		if to, err := os.Readlink("/proc/self/fd/" + name.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// TestGivenUp closes tabs in the middle of a run: connections and goroutines are
// back at once, and what was cut off reaches nobody else.
func TestGivenUp(t *testing.T) {
	s := openSite(t, setup{})
	paths := slices.DeleteFunc(pathsOf(t, s), func(v visitedPath) bool { return v.pattern == nil })
	visitor := client(t, 100)
	settled := held(visitor)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			hasty := *visitor
			hasty.Timeout = time.Duration(1+i%20) * time.Millisecond
			_, _ = ask(&hasty, paths[i%len(paths)].url, asJSON)
		})
	}
	all.Wait()
	for _, v := range paths {
		var a answer
		eventually(t, 10*time.Second, v.url+" can be run", func() bool {
			var err error
			a, err = ask(visitor, v.url, asJSON)
			return err == nil && a.code != http.StatusTooManyRequests
		})
		if err := v.judge(a); err != nil {
			t.Error(err)
		}
	}
	eventually(t, 5*time.Second, "goroutines and connections are back where they were", func() bool {
		now := held(visitor)
		return now.goroutines <= settled.goroutines+2 && now.sockets <= settled.sockets+70 // a warm connection for each database
	})
}

// lostLock is the figure of the language's contract, as a dive of its own.
const lostLock = `---
id: R2.02.2
title: The lost lock
---

` + "```figure" + `
id: lost-lock                      # unique in the dive; [a-z0-9-]
title: The lost-lock deletion
idle: A stalled past its lease and B took the same key. Point at a release.
actors: {A: client A, B: client B, C: client C}     # order = drawing order; optional
resource: resource:lock            # the key drawn as the protected thing; optional
setup:                             # runs before each path, in the same keyspace
  - A: SET resource:lock abc NX PX 2
  - lapse: resource:lock
  - B: SET resource:lock xyz NX PX 30000
paths:
  - id: blind-del
    label: blind DEL
    steps:
      - A: DEL resource:lock
        as: released
      - C: SET resource:lock ccc NX PX 30000
        as: entered
    static: A deletes B's lock and C gets in while B still works.
  - id: token-checked
    label: token-checked release
    steps:
      - A: EVAL release.lua 1 resource:lock abc
        as: released
      - C: SET resource:lock ccc NX PX 30000
        as: entered
    static: A's release returns 0; B's lock "xyz" stands.
observe:                           # read after the steps; names for verdicts, and the state drawn
  holder: GET resource:lock
verdicts:                          # the first rule that holds is the verdict
  - when: released == 1 && entered == "OK"
    status: broken
    text: A deletes B's lock and C gets in while B still works.
  - when: released == 0 && holder == "xyz"
    status: refused
    text: A's release returns {{released}}; B's lock "{{holder}}" stands.
` + "```" + `

` + "```figure" + `
id: every-order
title: Every order
actors: {A: client A, B: client B, C: client C}
paths:
  - id: blind-del
    label: every order, blind DEL
    programs:
      A: &client
        - do: SET resource:lock {{self}} NX PX 30000
          as: got
          else: stop
        - enter
        - work
        - leave
        - do: DEL resource:lock
      B: *client
      C: *client
    events:
      - lapse: resource:lock
        if: inside == 0
    always:
      exclusion: inside <= 1
    finally:
      freed: lock == nil || ttl > 0
    observe: {lock: GET resource:lock, ttl: PTTL resource:lock}
    verdicts:
      - when: violations.exclusion > 0
        status: broken
        text: "{{violations.exclusion}} of {{schedules}} are broken."
    static: 36 of 324 are broken.
` + "```" + `
`

// TestContract asks for the JSON of the language's contract, and looks at every
// field of it: name, type, and value where one is promised.
func TestContract(t *testing.T) {
	s := openSite(t, setup{content: fstest.MapFS{"course/chapter/module/lost.md": {Data: []byte(lostLock)}}})
	for _, fig := range s.course.Pages[len(s.course.Pages)-1].Figures {
		faults, err := s.runner.Check(t.Context(), fig)
		if err != nil || len(faults) > 0 {
			t.Error(err, faults)
		}
	}
	at := func(address string) any {
		a := fetch(t, s.http.URL+"/course/chapter/module/lost"+address, asJSON)
		var value any
		if err := json.Unmarshal([]byte(a.body), &value); err != nil || a.code != http.StatusOK {
			t.Fatalf("%s: %d %v: %s", address, a.code, err, a.body)
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
