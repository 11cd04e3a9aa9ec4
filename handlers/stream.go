package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"lockstep/components/card"
	"lockstep/components/chart"
	"lockstep/content"
	"lockstep/figures"
)

// wantsStream tells whether a request asks for server-sent events.
func wantsStream(c echo.Context) bool {
	return strings.Contains(c.Request().Header.Get(echo.HeaderAccept), "text/event-stream")
}

// stream runs a path in real time and sends what happens as it happens, as
// server-sent events:
//
//	begin    {}
//	entry    an Entry as in the trace of a result
//	sample   a SamplePoint
//	tracks   what has changed in the picture of the run, as HTML
//	verdict  the part of the page that shows the finished run, as HTML
//	trouble  a sentence, where the run failed
func (s *Site) stream(c echo.Context, p *content.Page, fig *figures.Figure, path *figures.Path) error {
	ctx, cancel := s.untilStopped(c.Request().Context())
	defer cancel()
	leave, err := s.admit(ctx, c, s.needs(fig, path, false))
	if err != nil {
		return err
	}
	defer leave()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // or a proxy would hold events back
	control := http.NewResponseController(c.Response().Writer)
	control.SetReadDeadline(time.Time{}) // it is meant for requests, and would end a long run
	out := &events{c: c, control: control}
	c.Response().WriteHeader(http.StatusOK)
	out.send("begin", []byte("{}"))

	told := &feed{more: make(chan struct{}, 1)}
	var result *figures.Result
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = s.runner.Watch(ctx, fig, path, told.add)
	}()
	if out.follow(told, chart.NewDrawing(fig, path), done) != nil {
		cancel() // the reader has left
	}
	<-done
	if err != nil {
		problem := explain(err)
		s.note(c, problem)
		return out.send("trouble", []byte(problem.text))
	}
	result.Dive = p.ID
	body, err := html(card.Verdict(fig, result))
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return out.send("verdict", body)
}

// A feed holds the moments of a run until they are sent. A run never waits for
// its reader: that would change what it shows.
type feed struct {
	mu      sync.Mutex
	moments []figures.Moment
	more    chan struct{} // holds a token where there are any
}

func (f *feed) add(m figures.Moment) {
	f.mu.Lock()
	f.moments = append(f.moments, m)
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *feed) take() []figures.Moment {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.moments
	f.moments = nil
	return all
}

// frame is the shortest time between two pictures of one run.
const frame = 40 * time.Millisecond

// follow sends the moments of a run as they come, and the picture of the run
// with them, until the run is done or the reader has left.
func (e *events) follow(told *feed, picture *chart.Drawing, done <-chan struct{}) error {
	known := &figures.Result{}
	var drawn time.Time
	var due <-chan time.Time
	draw := func() {
		var b bytes.Buffer
		if err := picture.Changed(context.Background(), &b, known); err != nil {
			e.err = err
			return
		}
		if b.Len() > 0 {
			e.send("tracks", b.Bytes())
		}
		drawn, due = time.Now(), nil
	}
	for e.err == nil {
		select {
		case <-told.more:
			moments := told.take()
			for _, m := range moments {
				known.StepsUS = m.StepsUS
				switch {
				case m.Entry == nil && m.Sample == nil: // the run begins, perhaps once more
					known.Trace, known.Samples = nil, nil
				case m.Entry != nil:
					known.Trace = append(known.Trace, *m.Entry)
				case m.Sample != nil:
					known.Samples = append(known.Samples, *m.Sample)
				}
			}
			// The picture comes first: it says when the steps began.
			if wait := frame - time.Since(drawn); wait <= 0 {
				draw()
			} else if due == nil {
				due = time.After(wait)
			}
			for _, m := range moments {
				e.moment(m)
			}
		case <-due:
			draw()
		case <-done:
			for _, m := range told.take() {
				e.moment(m)
			}
			return e.err
		}
	}
	return e.err
}

// events writes server-sent events.
type events struct {
	c       echo.Context
	control *http.ResponseController
	err     error // of the first write that failed: the reader has left
}

func (e *events) moment(m figures.Moment) {
	kind, value := "entry", any(m.Entry)
	switch {
	case m.Sample != nil:
		kind, value = "sample", m.Sample
	case m.Entry == nil:
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		e.err = err
		return
	}
	e.send(kind, data)
}

// send writes one event and flushes it. Every line of its data gets a prefix
// of its own, as the format wants it.
func (e *events) send(kind string, data []byte) error {
	if e.err != nil {
		return e.err
	}
	var b strings.Builder
	b.WriteString("event: " + kind + "\n")
	for line := range strings.SplitSeq(string(data), "\n") {
		b.WriteString("data: " + line + "\n")
	}
	b.WriteString("\n")
	// The server's own time for writing is meant for pages.
	e.control.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if _, e.err = e.c.Response().Write([]byte(b.String())); e.err == nil {
		e.err = e.control.Flush()
	}
	return e.err
}
