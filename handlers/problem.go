package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"lockstep/components"
	"lockstep/figures"
	"lockstep/figures/explore"
	"lockstep/figures/run"
	"lockstep/handlers/admission"
	"lockstep/sandbox"
)

// A problem is a failure in two texts: what the visitor reads, and the cause
// that only the log keeps.
type problem struct {
	status int
	title  string
	text   string
	after  string   // seconds, for Retry-After
	step   int      // of a schedule: the transition at fault, from 1
	next   []string // of a schedule: what was possible there
	cause  error
}

func (p *problem) Error() string { return fmt.Sprintf("%d %s: %v", p.status, p.title, p.cause) }
func (p *problem) Unwrap() error { return p.cause }

// statusGone is nginx's number for a visitor who left before the answer.
const statusGone = 499

// explain turns any error into a problem. It is the one place where errors
// become statuses.
func explain(err error) *problem {
	var (
		known    *problem
		needs    *run.NeedsError
		sim      *run.SimulatedError
		servers  *run.ServersError
		schedule *explore.ScheduleError
		fault    figures.Fault
		refused  *admission.Refused
		http4    *echo.HTTPError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &schedule):
		return &problem{status: http.StatusBadRequest, title: "No such schedule", text: "This schedule can't happen: " + schedule.Error() + ".", step: schedule.Step, next: schedule.Possible, cause: err}
	case errors.As(err, &needs):
		return &problem{status: http.StatusNotImplemented, title: "Not on this server", text: sentence(needs.Error()), cause: err}
	case errors.As(err, &sim):
		return &problem{status: http.StatusNotImplemented, title: "Not on this server", text: sentence(sim.Error()), cause: err}
	case errors.As(err, &fault):
		return &problem{status: http.StatusInternalServerError, title: "This figure has a fault", text: "This figure can't be run as it is written; `site check` tells its authors why.", cause: err}
	case errors.As(err, &servers):
		return &problem{status: http.StatusNotImplemented, title: "Not on this server", text: sentence(servers.Error()), cause: err}
	case errors.As(err, &refused) && refused.Reason == admission.Ceiling:
		return &problem{status: http.StatusTooManyRequests, title: "Too many runs", text: "Figures are run from your address faster than this site allows; try again in a moment.", after: "1", cause: err}
	case errors.As(err, &refused), errors.Is(err, sandbox.ErrBusy):
		return &problem{status: http.StatusTooManyRequests, title: "Busy", text: "The sandbox is busy; try again in a moment.", after: "1", cause: err}
	case errors.Is(err, sandbox.ErrDown):
		return &problem{status: http.StatusServiceUnavailable, title: "The sandbox is restarting", text: "The sandbox is restarting; try again in a moment.", after: "2", cause: err}
	case errors.Is(err, sandbox.ErrTooMuch):
		return &problem{status: http.StatusInternalServerError, title: "This run asks for too much", text: "This run sent or was answered more than one run may, and was stopped.", cause: err}
	case errors.Is(err, sandbox.ErrLate), errors.Is(err, context.DeadlineExceeded):
		return &problem{status: http.StatusGatewayTimeout, title: "Too slow", text: "The sandbox took too long and the run was stopped.", cause: err}
	case errors.Is(err, context.Canceled):
		return &problem{status: statusGone, title: "Given up", text: "The run was given up.", cause: err}
	case errors.As(err, &http4):
		return fromEcho(http4)
	}
	return &problem{status: http.StatusInternalServerError, title: "Something went wrong", text: "Something went wrong here, not with you. It has been noted.", cause: err}
}

func fromEcho(e *echo.HTTPError) *problem {
	switch e.Code {
	case http.StatusNotFound:
		return notFound("There is no page at this address.")
	case http.StatusMethodNotAllowed:
		return &problem{status: e.Code, title: "Not that way", text: "This address answers GET only.", cause: e}
	}
	return &problem{status: e.Code, title: http.StatusText(e.Code), text: sentence(http.StatusText(e.Code)), cause: e}
}

func notFound(text string) *problem {
	return &problem{status: http.StatusNotFound, title: "Not found", text: text, cause: errors.New("not found")}
}

// sentence makes a sentence of an error's text.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return string(s[0]&^0x20) + s[1:] + "."
}

// fail answers a request that failed: as JSON, as a part of a page, or as a
// page, whichever was asked for.
func (s *Site) fail(err error, c echo.Context) {
	p := explain(err)
	s.note(c, p)
	if c.Response().Committed {
		return
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	if p.after != "" {
		h.Set("Retry-After", p.after)
	}
	status := p.status
	if status == statusGone {
		status = http.StatusServiceUnavailable
	}
	var writeErr error
	switch {
	case c.Request().Method == http.MethodHead:
		writeErr = c.NoContent(status)
	case wantsJSON(c):
		writeErr = c.JSON(status, problemJSON{Error: p.text, Step: p.step, Possible: p.next})
	default:
		writeErr = s.render(c, status, components.Problem(s.look(), status, p.title, p.text))
	}
	if writeErr != nil {
		s.log.Error("answer a failed request", "error", writeErr)
	}
}

// note keeps the cause in the log; a visitor's mistakes are worth less there
// than ours, and refusals come by the thousand.
func (s *Site) note(c echo.Context, p *problem) {
	if p.status == http.StatusTooManyRequests {
		s.refused.add(p.cause)
		return
	}
	attrs := []any{"path", c.Request().URL.Path, "status", p.status, "cause", p.cause}
	switch {
	case p.status == statusGone || p.status == http.StatusNotFound:
		s.log.Debug("request", attrs...)
	case p.status < 500 || p.status == http.StatusNotImplemented:
		s.log.Info("request", attrs...)
	default:
		s.log.Error("request", attrs...)
	}
}

type problemJSON struct {
	Error    string   `json:"error"`
	Step     int      `json:"step,omitempty"`
	Possible []string `json:"possible,omitempty"`
}
