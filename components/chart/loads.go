package chart

import (
	"strconv"

	"lockstep/figures"
)

// A tally is what the clients of one load did together.
type tally struct {
	Load     figures.Load
	Done     bool
	Sent     int64
	Took     int64 // ms
	GaveUp   int64
	Longest  int64 // ms
	ofSent   float64
	ofTook   float64
	leastOf  int64 // commands of the load that sent the fewest
	fastest  int64 // ms of the fastest load
	Underway bool
}

// tallies are the loads of a path, as far as they have run.
func tallies(p *figures.Path, r *figures.Result, over bool) []tally {
	all := make([]tally, len(p.Loads))
	var mostSent, mostTook, leastSent, fastest int64
	for i, l := range p.Loads {
		t := &all[i]
		t.Load = l
		values := loaded(r, l.Name)
		if values == nil {
			t.Underway = r != nil && !over && (i == 0 || all[i-1].Done)
			continue
		}
		t.Done = true
		t.Sent, t.Took, t.GaveUp, t.Longest = whole64(values["sent"]), whole64(values["took_ms"]), whole64(values["gave_up"]), whole64(values["longest_ms"])
		mostSent, mostTook = max(mostSent, t.Sent), max(mostTook, t.Took)
		if leastSent == 0 || t.Sent < leastSent {
			leastSent = t.Sent
		}
		if fastest == 0 || t.Took < fastest {
			fastest = max(t.Took, 1)
		}
	}
	for i := range all {
		t := &all[i]
		t.leastOf, t.fastest = leastSent, fastest
		if mostSent > 0 {
			t.ofSent = float64(t.Sent) / float64(mostSent)
		}
		if mostTook > 0 {
			t.ofTook = float64(t.Took) / float64(mostTook)
		}
	}
	return all
}

// loaded is what a run counted for one load.
func loaded(r *figures.Result, name string) map[string]any {
	if r == nil {
		return nil
	}
	if values, ok := r.Values[name].(map[string]any); ok {
		return values
	}
	for _, e := range r.Trace {
		if values, ok := e.Reply.(map[string]any); ok && e.Name == name {
			return values
		}
	}
	return nil
}

func whole64(v any) int64 {
	n, _ := v.(int64)
	return n
}

// times writes a ratio: "37 ×", "1.4 ×".
func times(n, of int64) string {
	if of <= 0 {
		return ""
	}
	if n == of {
		return "1 ×"
	}
	ratio := float64(n) / float64(of)
	digits := 0
	if ratio < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(ratio, 'f', digits, 64) + " ×"
}
