package components

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

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

// expected is how long a path's steps will take, as far as its text tells.
// False where it doesn't: a load runs as fast as the machine does.
func expected(p *figures.Path) (time.Duration, bool) {
	if len(p.Loads) > 0 {
		return 2 * time.Second, false
	}
	leases := map[string]time.Duration{} // when each ends
	for _, s := range p.Setup {
		send, _ := s.Does.(figures.Send)
		if key, lasts := figures.LeaseIn(send.Command.Source); lasts > 0 {
			leases[key] = lasts
		}
	}
	var now, end time.Duration
	for _, s := range p.Steps {
		if s.Timed {
			now = s.At
		}
		send, _ := s.Does.(figures.Send)
		key, lasts := figures.LeaseIn(send.Command.Source)
		if key == "" {
			key = lockOf(written(s))
		}
		switch does := s.Does.(type) {
		case figures.Wait:
			now += does.For
		case figures.Lapse:
			now = max(now, leases[does.Key.Source])
		case figures.Send:
			if send.Retry != nil && leases[key] > now {
				now = min(leases[key], now+send.Retry.For)
			}
		}
		at := now
		if send.Every > 0 {
			at = max(now, send.Until)
		}
		if lasts > 0 && leases[key] <= at || send.Every > 0 {
			leases[key] = at + lasts
		}
		end = max(end, at)
	}
	return max(end, 50*time.Millisecond), true
}

// written is a step's command as its author wrote it; empty for other steps.
func written(s figures.Step) string {
	send, _ := s.Does.(figures.Send)
	return send.Command.Source
}

// firstLease is the first lease that a path's text gives to the protected key.
func firstLease(f *figures.Figure, p *figures.Path) (leased bool, ms int64) {
	for _, s := range slices.Concat(p.Setup, p.Steps) {
		does, key, _ := partOf(written(s))
		send, _ := s.Does.(figures.Send)
		if _, lasts := figures.LeaseIn(send.Command.Source); lasts > 0 && does != noPart && key == f.Resource && key != "" {
			return true, lasts.Milliseconds()
		}
	}
	return false, 0
}

// takes says how long a path takes.
func takes(p *figures.Path) string {
	likely, known := expected(p)
	if !known {
		return "a few seconds"
	}
	return seconds(likely)
}

// runs is what the link of a path in real time says of it.
func runs(p *figures.Path) string { return "runs " + takes(p) }

// seconds writes a duration as a reader would say it: "0.8 s", "2 s".
func seconds(d time.Duration) string {
	return strconv.FormatFloat(math.Ceil(d.Seconds()*10-0.001)/10, 'f', -1, 64) + " s"
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

// timedAttrs mark the link of a path in real time, for the script.
func timedAttrs(p *figures.Path) templ.Attributes {
	if !p.Timed() {
		return nil
	}
	return templ.Attributes{"data-timed": takes(p)}
}

// timedFigure tells whether any path of a figure runs in real time.
func timedFigure(f *figures.Figure) bool { return slices.ContainsFunc(f.Paths, (*figures.Path).Timed) }

func trackClass(k trackKind) string {
	return [...]string{"actor", "key", "value"}[k]
}

// alternativeOf is the text alternative of a chart, run or not.
func alternativeOf(c *chart) string {
	if c.run == nil {
		return "An empty time line: nothing has run yet."
	}
	return c.alternative()
}

// bothWords say how many believe to hold the key.
func bothWords(c *chart) string {
	holding := 0
	for _, t := range c.Tracks {
		if len(t.Holds) > 0 {
			holding++
		}
	}
	if holding == 2 {
		return "both believe to hold it"
	}
	return "more than one believes to hold it"
}

// bothAt is where these words stand: at the beginning, or at the end where
// there is no room before the axis ends.
func bothAt(c *chart, s stretch) int64 {
	if s.From*3 > c.Length*2 {
		return s.To
	}
	return s.From
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
