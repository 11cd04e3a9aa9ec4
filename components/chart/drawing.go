package chart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/a-h/templ"

	"lockstep/figures"
)

// A Drawing is the picture of a run in real time while it goes on.
type Drawing struct {
	fig   *figures.Figure
	path  *figures.Path
	shown map[string]string // the tracks that the page shows
}

// NewDrawing begins the picture of a run.
func NewDrawing(f *figures.Figure, p *figures.Path) *Drawing {
	return &Drawing{fig: f, path: p, shown: map[string]string{}}
}

// Changed writes what has changed in the picture since the last call, as
// elements that take the place of those with the same data-part or data-track.
// The result holds what is known so far.
func (d *Drawing) Changed(ctx context.Context, w io.Writer, r *figures.Result) error {
	c := newChart(d.fig, d.path, r, false)
	frame := fmt.Sprint(c.Length, c.Zero, c.Full)
	if frame != d.shown[""] {
		if err := timed(d.fig, d.path, c).Render(ctx, w); err != nil {
			return err
		}
	}
	for _, part := range c.parts() {
		var b bytes.Buffer
		if err := part.drawn.Render(ctx, &b); err != nil {
			return err
		}
		if frame == d.shown[""] && d.shown[part.name] != b.String() {
			if _, err := w.Write(b.Bytes()); err != nil {
				return err
			}
		}
		d.shown[part.name] = b.String()
	}
	d.shown[""] = frame
	return nil
}

// A chartPart is a part of a chart that changes while a run goes on.
type chartPart struct {
	name  string
	drawn templ.Component
}

// parts are the parts of a chart that change, by the names they have in the page.
func (c *chart) parts() []chartPart {
	if len(c.path.Loads) > 0 {
		return []chartPart{{"loads", loadTable(c)}}
	}
	all := []chartPart{{"overlap", chartGrid(c)}, {"now", chartNow(c)}}
	for _, t := range c.Tracks {
		all = append(all, chartPart{t.Name, chartTrack(c, t)})
	}
	return all
}

// firstTimed is the path whose empty picture a figure shows while it has none
// to show: p, where that is one in real time, or else the figure's first.
func firstTimed(f *figures.Figure, p *figures.Path) *figures.Path {
	if p != nil && p.Timed() {
		return p
	}
	if i := slices.IndexFunc(f.Paths, (*figures.Path).Timed); i >= 0 {
		return f.Paths[i]
	}
	return nil
}

func trackClass(k trackKind) string { return [...]string{"actor", "key", "value"}[k] }

// bothWords say how many believe they hold it.
func bothWords(c *chart) string {
	holding := 0
	for _, t := range c.Tracks {
		if len(t.Holds) > 0 {
			holding++
		}
	}
	if holding == 2 {
		return "both believe they hold it"
	}
	return "several believe they hold it"
}

// bothAt is where these words stand, and from which of their ends: at the
// beginning of a stretch in the first third of the axis, at the end of one that
// reaches the last third, or else in its middle. So they fit a narrow screen.
func bothAt(c *chart, s stretch) (at int64, class string) {
	switch {
	case s.From*3 <= c.Length:
		return s.From, ""
	case s.To*3 >= 2*c.Length:
		return s.To, "last"
	}
	return (s.From + s.To) / 2, "mid"
}

// until is the i-th value's span up to the next.
func until(c *chart, values []stretch, i int) stretch {
	s := values[i]
	s.To = c.edge()
	if i+1 < len(values) {
		s.To = values[i+1].From
	}
	return s
}

// barOf is how much of the bar of a lease is filled; all of it where it never ends.
func barOf(c *chart) string {
	now := c.now().Left
	if now == -1 {
		return "100%"
	}
	return percent(float64(max(now, 0)) / float64(c.Full))
}

// railEnd is where an actor's line ends: at its crash.
func railEnd(c *chart, t *track) string {
	if t.Gone > 0 {
		return c.share(t.Gone)
	}
	return "100%"
}

// shown tells whether a text has a place at any width.
func (w *words) shown() bool { return w.Spot != [len(widths)]string{} }

// pauses tells whether a path stops any of its actors.
func pauses(p *figures.Path) bool {
	return slices.ContainsFunc(p.Steps, func(s figures.Step) bool { _, stops := s.Does.(figures.Stop); return stops })
}
