package handlers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"lockstep/components"
	"lockstep/content"
	"lockstep/figures"
	"lockstep/sandbox"
)

// Bounds of paths that run in real time: they hold a database for seconds.
const (
	maxTimedRuns  = 32 // at once
	maxTimedReads = 2  // at once for one visitor
)

// timedRuns counts who runs what in real time.
type timedRuns struct {
	mu  sync.Mutex
	all int
	by  map[string]int
}

// enter takes a place for a visitor; leave gives it back.
func (t *timedRuns) enter(visitor string) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[visitor] >= maxTimedReads {
		return nil, echo.NewHTTPError(http.StatusTooManyRequests)
	}
	if t.all >= maxTimedRuns {
		return nil, sandbox.ErrBusy
	}
	t.all++
	t.by[visitor]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.by[visitor]--; t.by[visitor] == 0 {
			delete(t.by, visitor)
		}
	}, nil
}

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
//	verdict  the part of the page that shows the finished run, as HTML
//	trouble  a sentence, where the run failed
func (s *Site) stream(c echo.Context, p *content.Page, fig *figures.Figure, path *figures.Path) error {
	leave, err := s.allow(c, path)
	if err != nil {
		return err
	}
	defer leave()
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // or a proxy would hold events back
	out := &events{c: c, control: http.NewResponseController(c.Response().Writer)}
	c.Response().WriteHeader(http.StatusOK)
	out.send("begin", []byte("{}"))

	ctx, cancel := s.untilStopped(c.Request().Context())
	defer cancel()
	result, err := s.runner.Watch(ctx, fig, path, out.moment)
	if err != nil {
		problem := explain(err)
		s.note(c, problem)
		return out.send("trouble", []byte(problem.text))
	}
	result.Dive = p.ID
	body, err := html(components.Verdict(fig, result))
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return out.send("verdict", body)
}

// events writes server-sent events.
type events struct {
	c       echo.Context
	control *http.ResponseController
	err     error // of the first write that failed: the reader has left
}

func (e *events) moment(m figures.Moment) {
	kind, value := "entry", any(m.Entry)
	if m.Sample != nil {
		kind, value = "sample", m.Sample
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
