package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
)

// tell writes the chart as rows: everything that happened, and how the
// protected key stood after it.
func (c *chart) tell() {
	if c.run == nil {
		return
	}
	c.Rows = c.blocks()
	if c.track("key") != nil {
		for i, k := range c.keyed {
			if k.Lapsed {
				c.Rows = append(c.Rows, row{At: k.From, What: "the lease of " + c.fig.Resource + " lapsed"})
			} else if k.Cause == nil {
				what := "the key is read, and is not as the clock foretold"
				if i == 0 {
					what = "the path begins"
				}
				c.Rows = append(c.Rows, row{At: k.From, What: what})
			}
		}
	}
	for _, t := range c.Tracks {
		for i, v := range t.Values {
			if i > 0 {
				c.Rows = append(c.Rows, row{At: v.From, What: t.Label + " is " + cmp.Or(v.Text, "nil")})
			}
		}
	}
	slices.SortStableFunc(c.Rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.Who, b.Who))
	})
	for i := range c.Rows {
		r := &c.Rows[i]
		r.Held, r.Left = c.stands(r.At)
		r.More = c.more(r.At)
	}
}

// more says what else was sampled at a moment.
func (c *chart) more(at int64) string {
	var all []string
	for _, t := range c.Tracks {
		for _, v := range slices.Backward(t.Values) {
			if v.From <= at {
				all = append(all, t.Label+" "+cmp.Or(v.Text, "nil"))
				break
			}
		}
	}
	return strings.Join(all, ", ")
}

// blocks are the entries of the steps as rows, equal ones in a row as one.
func (c *chart) blocks() []row {
	var rows []row
	by := map[string][]figures.Entry{}
	for _, e := range c.run.Trace {
		if e.Phase == figures.PhaseSteps {
			by[e.Actor] = append(by[e.Actor], e)
		}
	}
	for actor, mine := range by {
		who := ""
		if actor != "" {
			who = c.fig.Label(actor)
		}
		for i := 0; i < len(mine); i++ {
			e := mine[i]
			r := row{At: c.at(e.AtUS), Who: who}
			if e.Command == "" {
				if strings.HasPrefix(e.Event, "lapse ") && c.track("key") != nil {
					continue // the samples tell it, with its moment
				}
				r.What = say.Did(c.fig, e)
				rows = append(rows, r)
				continue
			}
			r.What, r.Code, r.Then = e.Command, true, say.Reply(e.Reply)
			if n := c.runOf(mine, i); n >= 3 {
				r.Then += ", " + strconv.Itoa(n) + " times until " + whole(c.at(mine[i+n-1].AtUS))
				i += n - 1
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// left says how much of a lease is left, in whole milliseconds.
func left(ms int64) string {
	switch {
	case ms == -1:
		return "no expiry"
	case ms < 0:
		return ""
	}
	return say.Number(ms) + " ms left"
}

// now is the last moment in words: of a run under way, the last at which
// anything happened.
func (c *chart) now() row {
	n := len(c.Rows)
	if n == 0 {
		return row{Left: -2}
	}
	r := c.Rows[n-1]
	if c.Over {
		r.At = c.End
		r.Held, r.Left = c.stands(r.At)
		r.More = c.more(r.At)
	}
	return r
}

// sentence is a moment in full.
func (r row) sentence() string {
	parts := []string{r.Held, left(r.Left), r.More}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// done is what happened at a moment, but for who did it.
func (r row) done() string {
	if r.Code {
		return r.What + " → " + r.Then
	}
	return r.What
}

// alternative is the chart in a few sentences, for those who don't see it.
func (c *chart) alternative() string {
	if c.run == nil {
		return "An empty time line: nothing has run yet."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Time line of %s.", whole(c.End))
	for _, t := range c.Tracks {
		for _, h := range t.Holds {
			fmt.Fprintf(&b, " %s believes it holds %s from %s to %s.", say.Sentence(t.Label), cmp.Or(c.fig.Resource, "the lock"), whole(h.From), whole(h.To))
		}
		for _, p := range t.Pauses {
			fmt.Fprintf(&b, " %s is paused from %s to %s.", say.Sentence(t.Label), whole(p.From), whole(p.To))
		}
		if t.Gone > 0 {
			fmt.Fprintf(&b, " %s crashes at %s.", say.Sentence(t.Label), whole(t.Gone))
		}
		for _, at := range t.Lapses {
			fmt.Fprintf(&b, " The lease lapses at %s.", whole(at))
		}
	}
	for _, s := range c.Both {
		fmt.Fprintf(&b, " More than one believes it holds the key from %s to %s.", whole(s.From), whole(s.To))
	}
	b.WriteString(" Every moment stands in the table below.")
	return b.String()
}
