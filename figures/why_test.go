package figures

import (
	"testing"
)

// TestWhy holds the sentence about a broken schedule against the story that the
// server told, and the schedule against the shortest.
func TestWhy(t *testing.T) {
	r := testRunner(t)
	const resource = "id: table\nresource: l\nactors: {A: client A, B: client B, C: client C}\n"
	late := clientFigure(setNX, del, "ABC", idleLapse, exclusion)
	free := clientFigure(setNX, del, "ABC", freeLapse, exclusion)
	plain := clientFigure("        - do: SET l {{self}}\n", del, "AB", "", exclusion)
	crash := clientFigure(setnx, checked, "AB", crashA, expires)
	for _, test := range []struct {
		name, figure, schedule, want string
		shortest, earliest           int
	}{
		{"a late DEL", resource + late[len("id: table\n"):], "A.A.lapse.B.A.C.B.C.C.B",
			`Step 6 breaks exclusion: client C is answered OK to SET l C NX PX 30000, and now client B and client C are inside together. Step 5, DEL l by client A, had removed "B" from l while client B was inside.`, 10, 6},
		{"a lapse", resource + free[len("id: table\n"):], "A.lapse.B",
			`Step 3 breaks exclusion: client B is answered OK to SET l B NX PX 30000, and now client A and client B are inside together. The lease of l had lapsed at step 2, while client A was inside.`, 8, 3},
		{"a lapse of a key that isn't drawn", free, "A.lapse.B",
			`Step 3 breaks exclusion: B is answered OK to SET l B NX PX 30000, and now A and B are inside together. The lease of l had lapsed at step 2, while A was inside.`, 8, 3},
		{"no NX", resource + plain[len("id: table\n"):], "A.B",
			`Step 2 breaks exclusion: client B is answered OK to SET l B, and now client A and client B are inside together. It took the place of "A" in l.`, 6, 2},
		{"a crash", resource + crash[len("id: table\n"):], "A.B.crash:A",
			`Step 3 breaks expires: client A crashes. At the end l holds "A", with no expiry.`, 3, 3},
		{"nothing yet", late, "A.A.lapse.B.A", "", 10, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			fig := mustParse(t, test.figure, courseScripts(t))
			if _, err := r.Run(t.Context(), fig, fig.Paths[0]); err != nil {
				t.Fatal(err)
			}
			result, err := r.Replay(t.Context(), fig, fig.Paths[0], test.schedule)
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Schedule.Why; got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if s := result.Schedule; s.Shortest != test.shortest || s.Earliest != test.earliest {
				t.Errorf("shortest %d, earliest %d, want %d, %d", s.Shortest, s.Earliest, test.shortest, test.earliest)
			}
		})
	}
}

// TestKnown: a schedule run alone has the map of its figure's paths beside it,
// once they were explored.
func TestKnown(t *testing.T) {
	r := testRunner(t)
	fig := mustParse(t, clientFigure(setNX, del, "AB", freeLapse, exclusion), courseScripts(t))
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
