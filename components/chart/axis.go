package chart

import (
	"math"
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
)

// A tick is a mark on the axis.
type tick struct {
	At    int64
	Text  string
	Minor bool // its text is left out where there is little room
}

func (c *chart) measure() {
	likely, _ := expected(c.path)
	c.Leased, c.Full = firstLease(c.fig, c.path)
	longest := int64(0)
	if c.run != nil {
		for _, e := range c.run.Trace {
			if e.Phase == figures.PhaseSteps {
				c.End = max(c.End, c.at(e.AtUS))
			}
		}
		for _, s := range c.run.Samples {
			c.End = max(c.End, c.at(s.AtUS))
			if s.Key != nil && s.Key.TTL >= 0 {
				longest, c.Leased = max(longest, s.Key.TTL), true
			}
		}
	}
	if c.Full = max(c.Full, longest, 1); c.Over && longest > 0 {
		c.Full = longest
	}
	c.Length = round(likely.Microseconds())
	switch {
	case c.Over:
		c.Length = max(c.End, 1000)
	case c.End > c.Length:
		c.Length = round(c.End + c.End/5)
	}
	step := stepOf(c.Length)
	for at := int64(0); at <= c.Length; at += step {
		c.Ticks = append(c.Ticks, tick{At: at, Text: clock(at, step), Minor: len(c.Ticks)%2 == 1})
	}
}

// stepOf is a round time of which five to ten fill an axis.
func stepOf(length int64) int64 {
	step := int64(math.Pow(10, math.Floor(math.Log10(float64(max(length, 1000))))))
	for _, part := range []int64{10, 5, 2} {
		if length/(step/part) >= 5 && length/(step/part) <= 10 {
			return step / part
		}
	}
	return step
}

// round is the next time that looks well at the end of an axis.
func round(us int64) int64 {
	half := max(stepOf(us)/2, 1)
	return (us + half - 1) / half * half
}

// clock writes a time of the axis.
func clock(us, step int64) string {
	switch {
	case us == 0:
		return "0"
	case step < 1000:
		return strconv.FormatFloat(float64(us)/1000, 'f', -1, 64) + " ms"
	case step < 500_000:
		return say.Number(us/1000) + " ms"
	}
	return strconv.FormatFloat(float64(us)/1e6, 'f', -1, 64) + " s"
}

// whole writes a time in whole milliseconds.
func whole(us int64) string { return say.Number((us+500)/1000) + " ms" }

// edge is where what still goes on is drawn to. While a run goes on that is the
// end of the axis: the page uncovers it as time passes.
func (c *chart) edge() int64 {
	if c.Over {
		return c.End
	}
	return c.Length
}

// share is a time as a part of the axis, for an attribute of SVG.
func (c *chart) share(us int64) string { return percent(float64(us) / float64(c.Length)) }

func (c *chart) wide(s stretch) string { return percent(float64(s.To-s.From) / float64(c.Length)) }

func percent(x float64) string {
	x = min(max(x, 0), 1)
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(100*x, 'f', 2, 64), "0"), ".") + "%"
}
