package explore

import "testing"

// TestWhy holds the sentence about a broken schedule against the story that the
// server told, and the schedule against the shortest.
func TestWhy(t *testing.T) {
	explorer := testExplorer(t)
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
			fig := mustRead(t, test.figure, courseScripts(t))
			known := explorer.every(t, fig).Explored
			result, err := explorer.replay(t, fig, test.schedule, known)
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
