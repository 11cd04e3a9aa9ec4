package run

import (
	"testing"

	"lockstep/figures"
)

// onServers is a figure on a primary and its replica: each path does what a path
// on one server may do too.
const onServers = `
id: servers
topology: replicated
resource: l
actors: {A: a, B: b}
paths:
  - id: transaction
    steps:
      - A: SET l 1
      - A: MULTI
      - A: SET l 2
      - B: GET l
        as: seen
      - A: EXEC
      - B: GET l
        as: after
    verdicts: [{status: safe, text: "{{seen}}, then {{after}}"}]
  - id: crash
    steps:
      - A: SET l 1
      - A: MULTI
      - A: SET l 2
      - crash: A
      - B: GET l
        as: after
    verdicts: [{status: safe, text: "still {{after}}"}]
  - id: blocked
    steps:
      - A: BLPOP q 0
        at: 10ms
      - crash: A
        at: 40ms
      - B: RPUSH q job
        at: 60ms
      - B: LLEN q
        as: left
    verdicts: [{status: safe, text: "{{left}} job left"}]
  - id: watched
    steps:
      - A: SET l 1
      - A: WATCH l
      - B: SET l 2
      - A: MULTI
      - A: SET l 3
      - A: EXEC
        as: done
      - B: GET l
        as: after
    verdicts: [{status: safe, text: "{{done}}, {{after}}"}]
  - id: race
    steps:
      - race:
          - A: SET l a NX PX 3000
          - B: SET l b NX PX 3000
          - B: SET l c NX PX 3000
        as: all
    verdicts:
      - {when: 'count(all, # == "OK") == 1', status: safe, text: one of three}
      - {status: broken, text: "{{all}}"}
  - id: timed
    steps:
      - A: SET l a PX 300
        at: 10ms
      - sync: replica
        at: 20ms
      - cut: replica
        at: 40ms
      - A: EVAL extend.lua 1 l a 60000
        at: 60ms
      - kill: primary
        at: 80ms
      - promote: replica
        at: 100ms
      - B@replica: SET l b NX PX 3000
        at: 120ms
        as: got
        retry: {every: 10ms, for: 2s}
    sample: {every: 10ms, left@replica: PTTL l}
    verdicts:
      - {when: 'got == "OK" && got_ms > 100 && got_ms < 2000', status: broken, text: the renewal was lost with the primary}
      - {status: refused, text: "{{got}} after {{got_ms}} ms"}
`

// inSQL is a figure whose actors meet at the SQL store.
const inSQL = `
id: sql
actors: {A: a, B: b}
setup:
  - A@sql: CREATE TABLE r (fence INTEGER)
  - A@sql: INSERT INTO r VALUES (33)
paths:
  - id: timed
    steps:
      - A@sql: UPDATE r SET fence = 34 WHERE fence <= 34
        at: 10ms
        as: a
      - B@sql: UPDATE r SET fence = 33 WHERE fence <= 33
        at: 30ms
        as: b
    sample: {every: 10ms, fence@sql: SELECT fence FROM r}
    verdicts: [{status: safe, text: "{{a}} row, then {{b}}"}]
  - id: race
    steps:
      - race:
          - A@sql: UPDATE r SET fence = 34 WHERE fence < 34
          - B@sql: UPDATE r SET fence = 34 WHERE fence < 34
        as: all
    verdicts:
      - {when: 'count(all, # == 1) == 1', status: safe, text: one of two}
      - {status: broken, text: "{{all}}"}
  - id: crash
    steps:
      - A@sql: BEGIN
      - A@sql: UPDATE r SET fence = 40
      - crash: A
      - B@sql: UPDATE r SET fence = fence + 1
        as: changed
      - B@sql: SELECT fence FROM r
        as: rows
    verdicts: [{status: safe, text: "{{changed}} row, fence is {{rows[0][0]}}"}]
`

// TestServers runs paths on several servers and at the SQL store in every form
// that a path may have: with transactions, crashes, races and in real time.
func TestServers(t *testing.T) {
	runner := testRunner(t)
	for _, test := range []struct{ figure, path, want string }{
		{onServers, "transaction", "1, then 2"},
		{onServers, "crash", "still 1"},
		{onServers, "blocked", "1 job left"},
		{onServers, "watched", "nil, 2"},
		{onServers, "race", "one of three"},
		{onServers, "timed", "the renewal was lost with the primary"},
		{inSQL, "timed", "1 row, then 0"},
		{inSQL, "race", "one of two"},
		{inSQL, "crash", "1 row, fence is 34"},
	} {
		fig := figureOf(t, test.figure)
		t.Run(fig.ID+" "+test.path, func(t *testing.T) {
			path, ok := fig.Path(test.path)
			if !ok {
				t.Fatal("no such path")
			}
			r, err := runner.Run(t.Context(), fig, path)
			for err == nil && r.Status == figures.Late { // which is no verdict, on whichever machine
				r, err = runner.Run(t.Context(), fig, path)
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != test.want {
				t.Errorf("%s: %q, want %q", r.Status, r.Verdict, test.want)
			}
			if path.Timed() && len(r.Samples) < 3 {
				t.Errorf("%d samples", len(r.Samples))
			}
		})
	}
}
