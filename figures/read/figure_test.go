package read

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/figures"
	"lockstep/lua"
)

var testScripts = lua.Scripts{"release.lua": {Name: "release.lua"}, "grant.lua": {Name: "grant.lua"}}

// lostLock is the figure of figures.md, section 1, as it stands there.
const lostLock = `id: lost-lock                      # unique in the dive; [a-z0-9-]
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
`

func mustParse(t testing.TB, text string, scripts lua.Scripts) *figures.Figure {
	t.Helper()
	fig, faults := Figure([]byte(text), "dive.md", 1, scripts)
	if len(faults) > 0 {
		t.Fatalf("faults in a good figure:\n%v", faults)
	}
	return fig
}

func TestParseFigure(t *testing.T) {
	fig := mustParse(t, lostLock, testScripts)
	want := []figures.Actor{{Name: "A", Label: "client A"}, {Name: "B", Label: "client B"}, {Name: "C", Label: "client C"}}
	if diff := cmp.Diff(want, fig.Actors); diff != "" {
		t.Errorf("actors (-want +got):\n%s", diff)
	}
	path, ok := fig.Path("token-checked")
	if !ok {
		t.Fatal("no path token-checked")
	}
	if got := len(path.Setup); got != 3 {
		t.Errorf("the path has %d setup steps, want the figure's 3", got)
	}
	if got, want := path.Actor, "A"; got != want {
		t.Errorf("the path lights up %q, want %q", got, want)
	}
	if got, want := path.Steps[0].Does.(figures.Send).Command.Sketch(), []string{"EVAL", "release.lua", "1", "resource:lock", "abc"}; !cmp.Equal(got, want) {
		t.Errorf("command %q, want %q", got, want)
	}
	if got, want := path.Steps[1].Line, 24; got != want {
		t.Errorf("the step stands in line %d, want %d", got, want)
	}
}

// One change to a good figure, and the fault that it must give.
func TestParseFaults(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           string
	}{
		{"unknown figure key", "idle: A", "idel: A", `dive.md:13: unknown key "idel" in the figure (did you mean "idle"?)`},
		{"unknown path key", "    label: blind DEL", "    lable: blind DEL", `dive.md:22: unknown key "lable" in a path (did you mean "label"?)`},
		{"unknown step key", "        as: released\n      - C", "        ass: released\n      - C", `dive.md:25: unknown key "ass" in a step (did you mean "as"?)`},
		{"key twice", "title: The lost-lock deletion", "title: One\ntitle: Two", `dive.md:13: the figure has the key "title" twice (it stands first in line 12)`},
		{"wrong type", "title: The lost-lock deletion", "title: [a, b]", `dive.md:12: title is a list, not a text (write it on the key's own line)`},
		{"paths no list", "static: A deletes", "static: {a: b}\n    idle2: A deletes", `dive.md:28: static is a map, not a text (put a text that starts with { or holds ` + "`: `" + ` in quotes)`},
		{"unknown actor", "- C: SET resource:lock ccc", "- D: SET resource:lock ccc", `dive.md:26: unknown actor "D" (known are A, B, C)`},
		{"unknown script", "EVAL release.lua", "EVAL relaese.lua", `dive.md:32: unknown script "relaese.lua" (did you mean "release.lua"?)`},
		{"numkeys", "EVAL release.lua 1 resource:lock abc", "EVAL release.lua 3 resource:lock abc", `dive.md:32: EVAL says 3 keys, and 2 arguments follow (write it as EVAL name.lua numkeys key … arg …)`},
		{"bad expression", `released == 1 && entered == "OK"`, `released == 1 && && entered`, `dive.md:40: when: column 18: `},
		{"expression cut off", `when: released == 1 && entered == "OK"`, `when: count(votes, # == "OK")`, "(in YAML ` #` starts a comment: put the whole expression in quotes)"},
		{"text cut off", "text: A's release returns {{released}}; B's lock", "text: A {{count([released], # == 0)}}; B's lock", "(in YAML ` #` starts a comment: put the whole expression in quotes)"},
		{"name never bound", `released == 1 && entered == "OK"`, `realesed == 1`, `dive.md:40: when, column 1: nothing binds "realesed" (did you mean "released"?)`},
		{"name in a text", "{{holder}}", "{{holdr}}", `dive.md:43: text, column 47: nothing binds "holdr" (did you mean "holder"?)`},
		{"brace never closed", "{{holder}}", "{{holder", `{{ is never closed by }}`},
		{"duplicate path", "id: token-checked", "id: blind-del", `dive.md:29: two paths have the id "blind-del" (it stands first in line 21)`},
		{"bad id", "id: lost-lock", "id: Lost_lock", `dive.md:11: a figure's id is "Lost_lock" (ids are made of a-z, 0-9 and hyphens)`},
		{"unknown status", "status: refused", "status: refuse", `dive.md:44: unknown status "refuse" (did you mean "refused"?)`},
		{"no text", "    text: A deletes B's lock and C gets in while B still works.\n", "", `dive.md:40: a verdict lacks its text`},
		{"two main keys", "  - lapse: resource:lock", "  - lapse: resource:lock\n    wait: 2ms", `dive.md:19: a step does two things, lapse and wait (give each its own ` + "`- `" + `)`},
		{"no unit", "  - lapse: resource:lock", "  - wait: 20", `dive.md:18: "20" is not a time (write it with its unit: 20ms, 1.5s)`},
		{"waits too long", "  - lapse: resource:lock", "  - wait: 3s", `path "blind-del" waits 3s (a run may wait 2s in all)`},
		{"acts after its crash", "      - C: SET resource:lock ccc", "      - crash: C\n      - C: SET resource:lock ccc", `dive.md:27: C acts after its crash (it crashed in line 26; let another actor go on)`},
		{"race in real time", "      - C: SET resource:lock ccc", "      - race: [{A: GET k}, {B: GET k}]\n      - A: work\n        at: 20ms\n      - C: SET resource:lock ccc", `dive.md:26: path "blind-del" has both times and a race (in real time actors go side by side; give their steps the same ` + "`at`)"},
		{"command not allowed", "A: DEL resource:lock", "A: FLUSHALL", `dive.md:24: `},
		{"unbalanced quotes", "A: DEL resource:lock", `A: DEL "resource:lock`, `dive.md:24: `},
		{"colon in a command", "A: DEL resource:lock", `A: SET k "a: b"`, `dive.md:24: "- A: SET k \"a: b\"" holds a second colon (put the value in quotes where it holds ` + "`: `)"},
		{"key without colon", "title: The lost-lock deletion", "title The lost", `dive.md:12: "title The lost" is not a key with a value (write it as ` + "`key: value`)"},
		{"tab", "  - lapse: resource:lock", "\t- lapse: resource:lock", `dive.md:18: "- lapse: resource:lock" starts with a character that YAML doesn't take there`},
		{"braces first", "text: A deletes B's lock and C gets in while B still works.", "text: {{released}} keys are gone", "put a value that starts with {{ in quotes"},
		{"events without programs", "    label: blind DEL", "    always: {x: released == 1}", `path "blind-del" has no programs (events, always and finally belong to programs)`},
		{"no paths", "paths:", "pahts:", `dive.md:11: the figure has no paths (give it at least one under ` + "`paths:`)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(lostLock, test.old, test.new, 1)
			if text == lostLock {
				t.Fatalf("%q is not in the figure", test.old)
			}
			_, faults := Figure([]byte(text), "dive.md", 11, testScripts)
			if !strings.Contains(faults.Error(), test.want) {
				t.Errorf("faults:\n%v\nwant:\n%s", faults, test.want)
			}
		})
	}
}

func TestParseAllFaultsAtOnce(t *testing.T) {
	text := strings.NewReplacer("idle:", "idel:", "status: refused", "status: refuse", "EVAL release.lua", "EVAL nope.lua").Replace(lostLock)
	_, faults := Figure([]byte(text), "dive.md", 1, testScripts)
	if len(faults) != 3 {
		t.Errorf("%d faults, want 3:\n%v", len(faults), faults)
	}
}

// Scalars stay as they were written.
func TestParseScalars(t *testing.T) {
	fig := mustParse(t, `
id: scalars
title: 0123
actors: {A: 007, B: ~}
paths:
  - id: a
    label: 1e3
    steps:
      - A: SET k 0123
        reply: OK
      - B: GET k
        reply: 0123
        as: k
      - wait: 1ms
    static: no
verdicts:
  - {when: k == "0123", status: safe, text: no}
`, nil)
	if got := fig.Title; got != "0123" {
		t.Errorf("title %q, want 0123", got)
	}
	if got := fig.Actors; !cmp.Equal(got, []figures.Actor{{Name: "A", Label: "007"}, {Name: "B", Label: "B"}}) {
		t.Errorf("actors %v", got)
	}
	path := fig.Paths[0]
	if path.Label != "1e3" || path.Static != "no" {
		t.Errorf("label %q and static %q, want 1e3 and no", path.Label, path.Static)
	}
	if got := path.Steps[0].Does.(figures.Send).Command.Sketch()[2]; got != "0123" {
		t.Errorf("token %q, want 0123", got)
	}
	if got := path.Steps[1].Promise.Value; got != "0123" {
		t.Errorf("promised %v, want 0123", got)
	}
	if got := path.Steps[2].Does.(figures.Wait).For; got != time.Millisecond {
		t.Errorf("wait %v, want 1ms", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(lostLock))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("paths: [{programs: {A: [enter, leave, {do: GET k}]}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		Figure(text, "dive.md", 1, testScripts)
		Session(text, "dive.md", 1, testScripts)
	})
}
