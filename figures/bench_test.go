package figures

import (
	"fmt"
	"testing"
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

func BenchmarkExplore(b *testing.B) {
	runner := testRunner(b)
	for _, bench := range []struct{ name, figure string }{
		{"324", clientFigure(setNX, del, "ABC", idleLapse, exclusion)},
		{"34650", threeByFour},
	} {
		fig, faults := Parse([]byte(bench.figure), "dive.md", 1, courseScripts(b))
		if len(faults) > 0 {
			b.Fatal(faults)
		}
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				result, err := runner.Run(b.Context(), fig, fig.Paths[0])
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(result.Explored.States), "states")
				b.ReportMetric(float64(result.Commands), "commands")
			}
		})
		b.Run(fmt.Sprint(bench.name, "-each"), func(b *testing.B) {
			if bench.name != "324" {
				b.Skip()
			}
			for b.Loop() {
				if _, err := runner.Each(b.Context(), fig, fig.Paths[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
