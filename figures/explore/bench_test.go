package explore

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"lockstep/figures"
	"lockstep/sandbox"
)

// threeByFour is three clients of four steps: 34,650 schedules.
const threeByFour = `
id: big
paths:
  - id: all
    programs:
      A: &client
        - do: SET l {{self}} NX PX 30000
          as: got
        - do: HINCRBY stats writes 1
        - do: GET l
          as: seen
        - do: DEL l
      B: *client
      C: *client
    verdicts: [{status: safe, text: done}]
`

// medianOf gives the median of what f measures, some rounds long.
func medianOf[T cmp.Ordered](rounds int, f func() T) T {
	all := make([]T, rounds)
	for i := range all {
		all[i] = f()
	}
	slices.Sort(all)
	return all[rounds/2]
}

// TestBenchExplore prints how fast exploring is, against the same commands sent
// down one pipelined connection and against running schedules one after another.
func TestBenchExplore(t *testing.T) {
	if os.Getenv("LOCKSTEP_BENCH") == "" {
		t.Skip("set LOCKSTEP_BENCH=1, or run make bench")
	}
	explorer := testExplorer(t)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "explorer\tschedules\tstates\tcommands\tmerged ms\teach ms\tmerged / raw rate\teach / raw rate\tmerged / one by one\teach / one by one\t")
	for _, test := range []struct{ name, figure string }{
		{"2 clients, one lapse", clientFigure(setNX, checked, "AB", freeLapse, exclusion)},
		{"3 clients, idle lapse", clientFigure(setNX, del, "ABC", idleLapse, exclusion)},
		{"3 clients, one lapse", clientFigure(setNX, checked, "ABC", freeLapse, exclusion)},
		{"4 clients", clientFigure(setNX, del, "ABCD", "", exclusion)},
		{"3 clients, 4 steps", threeByFour},
	} {
		fig := mustRead(t, test.figure, courseScripts(t))
		b := measureExplore(t, explorer, fig)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.1f\t%.1f\t%.2f\t%.2f\t%.0f\t%.0f\t\n", test.name, b.schedules, b.states, b.commands,
			ms(b.merged), ms(b.each), ratio(b.rawMerged, b.merged), ratio(b.rawEach, b.each), ratio(b.sequential, b.merged), ratio(b.sequential, b.each))
	}
	w.Flush()
	fmt.Println(out.String())
}

func ms(d time.Duration) float64          { return float64(d) / float64(time.Millisecond) }
func ratio(of, per time.Duration) float64 { return float64(of) / float64(max(per, 1)) }

type exploreBench struct {
	schedules, states, commands int
	merged, each                time.Duration
	rawMerged, rawEach          time.Duration // the same commands, down one connection, replies only read
	sequential                  time.Duration // schedule after schedule, a round trip for each command
}

func measureExplore(t *testing.T, x *explorer, fig *figures.Figure) exploreBench {
	t.Helper()
	path := fig.Paths[0]
	var b exploreBench
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	timed := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	const rounds = 7
	check(x.box.Lend(t.Context(), Databases, func(dbs []*sandbox.DB) error {
		g, err := limited(t.Context(), dbs, fig, path)
		check(err)
		b.schedules, b.states, b.commands = g.root.schedules, g.states, g.commands
		b.merged = medianOf(rounds, func() time.Duration {
			return timed(func() { _, err := limited(t.Context(), dbs, fig, path); check(err) })
		})
		merged, each := g.sentCommands(), g.eachCommands(maxEach)
		b.rawMerged = medianOf(rounds, func() time.Duration { return timed(func() { check(sendRaw(t.Context(), dbs[0], merged)) }) })
		whole := min(b.schedules, maxEach)
		b.each = medianOf(3, func() time.Duration {
			return timed(func() { _, err := g.each(t.Context(), dbs[0], maxEach); check(err) })
		})
		b.rawEach = medianOf(3, func() time.Duration { return timed(func() { check(sendRaw(t.Context(), dbs[0], each)) }) })
		// One by one is slow: some schedules are enough for its rate.
		some := min(whole, 200)
		took := timed(func() { check(g.oneByOne(t.Context(), dbs[0], some)) })
		b.sequential = took * time.Duration(whole) / time.Duration(some)
		return nil
	}))
	return b
}

// sendRaw sends commands as fast as one connection takes them.
func sendRaw(ctx context.Context, db *sandbox.DB, commands []sandbox.Command) error {
	for chunk := range slices.Chunk(commands, 1000) {
		if _, err := db.Do(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// sentCommands are all that finding the states sends.
func (g *graph) sentCommands() []sandbox.Command {
	var commands []sandbox.Command
	seen := map[*state]bool{}
	var walk func(s *state)
	walk = func(s *state) {
		if seen[s] {
			return
		}
		seen[s] = true
		for _, e := range s.edges {
			if command, _, sends := g.command(s.world, e.move); sends {
				commands = append(append(commands, sandbox.Flush()), g.setup...)
				commands = append(s.history(commands), command)
				commands = append(append(commands, g.look()...), sandbox.State())
			}
			walk(e.to)
		}
	}
	walk(g.root)
	return commands
}

// eachCommands are all that running schedules whole sends, for the first n.
func (g *graph) eachCommands(n int) []sandbox.Command {
	var commands []sandbox.Command
	g.eachSchedule(n, func(along []*state) {
		commands = append(append(append(commands, sandbox.Flush()), g.setup...), g.look()...)
		for _, s := range along {
			if s.sent {
				commands = append(append(commands, s.command), g.look()...)
			}
		}
	})
	return commands
}

// oneByOne runs n schedules as clients do: each command waits for the reply to
// the one before.
func (g *graph) oneByOne(ctx context.Context, db *sandbox.DB, n int) error {
	for _, command := range g.eachCommands(n) {
		if _, err := db.Do(ctx, []sandbox.Command{command}); err != nil {
			return err
		}
	}
	return nil
}
