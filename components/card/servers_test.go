package card

import (
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/go-cmp/cmp"

	"lockstep/figures"
)

// drawnServers are the servers of a specimen, each in a line, as a reader's ears have it.
func drawnServers(t *testing.T, id string) []string {
	t.Helper()
	for _, s := range Specimens("/gallery") {
		if s.Figure.ID != id {
			continue
		}
		s.Stage.Page = "/course"
		var all []string
		target := render(t, Figure(s.Figure, s.Stage)).Find(".target")
		target.Find(".counted, .node").Each(func(_ int, el *goquery.Selection) {
			line := strings.Join(el.Find("p").AddSelection(el.Filter("p")).Map(func(_ int, p *goquery.Selection) string { return p.Text() }), " ")
			all = append(all, strings.Join(strings.Fields(line), " "))
		})
		return all
	}
	t.Fatalf("the gallery has no %s", id)
	return nil
}

func TestServers(t *testing.T) {
	for id, want := range map[string][]string{
		"failover-idle": {
			"primary up not asked yet", "replica up not asked yet", "replica2 replica up not asked yet",
		},
		"failover": {
			"primary down died with a-7c1e A SET OK",
			"replica promoted up b-03fd 29,999 ms left never got a-7c1e B SET OK",
			"replica2 replica cut off never got a-7c1e",
		},
		"majority": {
			"OK for A 3 of 5, B 2 of 5",
			"n1 up a-7c1e A SET OK B SET nil",
			"n2 up a-7c1e A SET OK B SET nil",
			"n3 up, empty b-03fd A SET OK B SET OK",
			"n4 up b-03fd B SET OK",
			"n5 down",
		},
	} {
		if diff := cmp.Diff(want, drawnServers(t, id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// A reply that doesn't say what a key holds now leaves it unknown, and a lease
// that is over isn't drawn.
func TestServersKnowOnlyWhatWasSaid(t *testing.T) {
	f := &figures.Figure{Topology: figures.Topology{Independent: 1}}
	sent := func(at int64, command string, reply any) figures.Entry {
		return figures.Entry{AtUS: at, Phase: figures.PhaseSteps, Actor: "A", Target: "n1", Command: command, Reply: reply}
	}
	taken := sent(100, "SET k a NX PX 30000", "OK")
	for _, test := range []struct {
		name  string
		trace []figures.Entry
		want  string
	}{
		{"taken", []figures.Entry{taken}, "k=a"},
		{"refused", []figures.Entry{sent(100, "SET k a NX PX 30000", nil)}, ""},
		{"let go", []figures.Entry{taken, sent(200, "EVAL release.lua 1 k a", int64(1))}, ""},
		{"not let go", []figures.Entry{taken, sent(200, "EVAL release.lua 1 k b", int64(0))}, "k=a"},
		{"over", []figures.Entry{sent(100, "SET k a NX PX 5", "OK"), sent(6_000, "SET l b NX", "OK")}, "l=b"},
		{"counted", []figures.Entry{sent(100, "INCR fence", int64(1)), sent(200, "INCR fence", int64(2))}, "fence=2"},
		{"lapsed", []figures.Entry{taken, {Event: "lapse k"}}, ""},
		{"restarted", []figures.Entry{taken, {Event: "down n1"}, {Event: "up n1"}}, ""},
	} {
		var held []string
		for _, h := range nodesOf(f, &figures.Result{Trace: test.trace, TookUS: 10_000})[0].Held {
			held = append(held, h.Key+"="+h.Value)
		}
		if got := strings.Join(held, " "); got != test.want {
			t.Errorf("%s: n1 is drawn with %q, want %q", test.name, got, test.want)
		}
	}
}
