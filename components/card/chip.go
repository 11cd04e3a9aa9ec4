package card

import (
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// An answer is what a drawing puts on the lit wire: a command, as short as it can
// be, and its reply, which is what the reader came for.
type answer struct{ Command, Reply string }

// chipRoom is how many letters of a reply stand on a wire, in two lines or three.
const chipRoom = 56

// chip is the first command but TIME that the path's own actor sent in its steps, or how
// many orders of commands were run. Of a race, and of a command to every server,
// it says how many got what.
func chip(p *figures.Path, r *figures.Result) (answer, bool) {
	if p.Explores() {
		if r.Explored == nil {
			return answer{}, false
		}
		return answer{Reply: "all " + say.Number(int64(r.Explored.Schedules))}, true
	}
	for _, e := range r.Trace {
		if e.Phase == figures.PhaseSteps && e.Command != "" && commandName(e.Command) != "TIME" && (e.Actor == p.Actor || p.Actor == "") {
			return answer{commandName(e.Command), clipped(replyOn(e, r.Trace), chipRoom)}, true
		}
	}
	return answer{}, false
}

// commandName is the shortest name of a command: its first word, or its script's.
func commandName(line string) string { return strings.TrimSuffix(say.Command(line), ".lua") }

// replyOn is the reply of an entry as it stands on a wire.
func replyOn(e figures.Entry, trace []figures.Entry) string {
	if e.Race > 0 {
		var replies []any
		for _, other := range trace {
			if other.Race == e.Race {
				replies = append(replies, other.Reply)
			}
		}
		return tally(replies)
	}
	switch reply := e.Reply.(type) {
	case []any:
		if e.Target == "all" && len(reply) > 0 {
			return tally(reply)
		}
	case int64:
		if e.Target == "sql" {
			return say.Count(int(reply), "row")
		}
	case sandbox.Error:
		return reply.Code()
	}
	return say.Words(e.Reply)
}

// tally says how many got what: "1 OK, 3 nil". Those that got nothing come last.
func tally(replies []any) string {
	count := map[string]int{}
	var kinds []string
	for _, reply := range replies {
		kind := say.Reply(reply)
		if count[kind] == 0 {
			kinds = append(kinds, kind)
		}
		count[kind]++
	}
	var first, last []string
	for _, kind := range kinds {
		text := strconv.Itoa(count[kind]) + " " + kind
		if _, err := strconv.Atoi(kind); err == nil {
			text = strconv.Itoa(count[kind]) + " × " + kind
		}
		if kind == expr.Print(nil) {
			last = append(last, text)
		} else {
			first = append(first, text)
		}
	}
	return strings.Join(append(first, last...), ", ")
}

// clipped cuts a text that is longer than n letters.
func clipped(s string, n int) string {
	letters := []rune(s)
	if len(letters) <= n {
		return s
	}
	return string(letters[:n-1]) + "…"
}
