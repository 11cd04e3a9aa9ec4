package run

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/figures"
)

// byTheClock is a path whose moments lie 40 ms apart at the least, and a load.
const byTheClock = `
id: clock
actors: {A: a, B: b}
paths:
  - id: renewed
    steps:
      - A: SET l a NX PX 200
      - A: PEXPIRE l 200
        at: 60ms
        every: 60ms
        until: 120ms
        as: beats
        else: stop
      - B: SET l b NX PX 200
        at: 160ms
        as: other
    verdicts:
      - {when: other == nil, status: granted, text: A held it.}
    static: A held it.
  - id: crowd
    setup:
      - A: SET l holder PX 400
    loads:
      crowd:
        clients: 3
        steps:
          - do: SET l {{self}} NX PX 3000
            else: stop
    verdicts:
      - {when: crowd.gave_up == 3, status: refused, text: Nobody got it.}
`

// TestLate makes steps late by so much, as a busy machine does.
func TestLate(t *testing.T) {
	runner := testRunner(t)
	fig := figureOf(t, byTheClock)
	path := fig.Paths[0]
	for name, test := range map[string]struct {
		late   time.Duration
		runs   int64 // of which the first so many are late
		status figures.Status
		says   string
	}{
		"on time":            {0, 0, figures.Granted, "A held it."},
		"late once":          {50 * time.Millisecond, 1, figures.Granted, "A held it."},
		"late again":         {50 * time.Millisecond, lateTries, figures.Late, "too busy"},
		"later than a lease": {300 * time.Millisecond, lateTries, figures.Late, "Recorded, when it was quiet: A held it."},
	} {
		t.Run(name, func(t *testing.T) {
			var begun atomic.Int64
			runner.hold = func() {
				if begun.Load() <= test.runs && test.late > 0 {
					time.Sleep(test.late)
				}
			}
			defer func() { runner.hold = nil }()
			r, err := runner.Watch(t.Context(), fig, path, func(m figures.Moment) {
				if m.Entry == nil && m.Sample == nil {
					begun.Add(1)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != test.status || !strings.Contains(r.Verdict, test.says) {
				t.Errorf("%v: %s, want %v: %s", r.Status, r.Verdict, test.status, test.says)
			}
			if want := min(test.runs+1, lateTries); begun.Load() != want {
				t.Errorf("it ran %d times, want %d", begun.Load(), want)
			}
			if r.Status == figures.Late && r.Pattern != "" {
				t.Error("a late run agrees with a recorded verdict")
			}
		})
	}
}

// TestLateLimit runs a path that is not done in time.
func TestLateLimit(t *testing.T) {
	runner := testRunner(t)
	fig := figureOf(t, byTheClock)
	runner.Limit = -fig.Paths[0].Length() + 20*time.Millisecond
	r, err := runner.Run(t.Context(), fig, fig.Paths[0])
	if err != nil || r.Status != figures.Late {
		t.Errorf("%+v, %v; want late", r, err)
	}
}

func TestSlack(t *testing.T) {
	fig := figureOf(t, byTheClock)
	for i, want := range []time.Duration{30 * time.Millisecond, 300 * time.Millisecond} {
		if got := slackOf(fig.Paths[i]); got != want {
			t.Errorf("%s: %v may be late, want %v", fig.Paths[i].ID, got, want)
		}
	}
}

// TestNoRule runs a path that no rule is about.
func TestNoRule(t *testing.T) {
	fig := figureOf(t, `
id: f
paths:
  - id: load
    loads:
      crowd: {clients: 2, steps: [{do: GET l, as: x}]}
    verdicts: [{when: crowd.done == 3, status: safe, text: no}]
  - id: orders
    programs:
      A: [{do: GET l}, enter]
    always: {alone: inside <= 1}
    verdicts: [{when: schedules == 2, status: safe, text: no}]
`)
	for i, want := range []string{"crowd.done = 2, crowd.gave_up = 0, crowd.longest_ms = 0, crowd.sent = 2, crowd.took_ms = ", "schedules = 1, states = 2, violations.alone = 0."} {
		r, err := testRunner(t).Run(t.Context(), fig, fig.Paths[i])
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != figures.Unjudged || !strings.Contains(r.Verdict, want) || strings.Contains(r.Verdict, "map[") {
			t.Errorf("%v: %s, want %s", r.Status, r.Verdict, want)
		}
	}
}
