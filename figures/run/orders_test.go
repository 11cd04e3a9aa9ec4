package run

import "testing"

// twoClients take a lock by turns, and its lease may lapse.
const twoClients = `
id: known
paths:
  - id: all
    programs:
      A: &client
        - do: SET l {{self}} NX PX 30000
          else: stop
        - enter
        - work
        - leave
        - do: DEL l
      B: *client
    events:
      - lapse: l
    always: {exclusion: inside <= 1}
    verdicts: [{status: safe, text: done}]
`

// TestKnown: a schedule run alone has the map of its figure's paths beside it,
// once they were explored.
func TestKnown(t *testing.T) {
	r := testRunner(t)
	fig := figureOf(t, twoClients)
	path := fig.Paths[0]
	first, err := r.Replay(t.Context(), fig, path, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Known) != 0 || first.Schedule.Shortest != 0 {
		t.Errorf("known before any exploration: %v, shortest %d", first.Known, first.Schedule.Shortest)
	}
	all, err := r.Run(t.Context(), fig, path)
	if err != nil {
		t.Fatal(err)
	}
	if got := all.Explored.Example; got == nil || got.Why == "" || got.Schedule != all.Explored.Counterexamples["exclusion"] {
		t.Errorf("the example is %+v", got)
	}
	then, err := r.Replay(t.Context(), fig, path, "A")
	if err != nil {
		t.Fatal(err)
	}
	if then.Known[path.ID] == nil || len(then.Known[path.ID].Cells) != 44 {
		t.Errorf("known after an exploration: %v", then.Known)
	}
	broken := 0
	for _, c := range all.Explored.Cells {
		if (c.Breaks != 0) != (c.Broken > 0) || (c.Breaks != 0) != (c.Condition == 0) {
			t.Errorf("cell %+v", c)
		}
		if c.Breaks&1 != 0 {
			broken++
		}
	}
	if broken != all.Explored.Violations["exclusion"] {
		t.Errorf("%d cells break exclusion, of %d", broken, all.Explored.Violations["exclusion"])
	}
}
