package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"lockstep/components/card"
	"lockstep/content"
	"lockstep/figures"
)

// wantsJSON tells whether a request asks for JSON rather than HTML.
func wantsJSON(c echo.Context) bool {
	return strings.Contains(c.Request().Header.Get(echo.HeaderAccept), echo.MIMEApplicationJSON)
}

// runPath runs a path and answers with what it showed: the part of the page
// that shows it, or JSON.
func (s *Site) runPath(c echo.Context, p *content.Page, figure, path string) error {
	c.Response().Header().Set("Vary", "Accept")
	fig, pa, ok := p.Find(figure, path)
	if !ok {
		return notFound("There is no such path in a figure of this page.")
	}
	if pa.Timed() && wantsStream(c) && c.Request().Method == http.MethodGet {
		return s.stream(c, p, fig, pa)
	}
	result, err := s.run(c, p, fig, pa)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	if wantsJSON(c) {
		body, err := json.Marshal(result)
		if err != nil {
			return err
		}
		return send(c, http.StatusOK, echo.MIMEApplicationJSON, body)
	}
	return s.render(c, http.StatusOK, card.Verdict(fig, result))
}

// run runs a path for a visitor, when it is that visitor's turn.
func (s *Site) run(c echo.Context, p *content.Page, fig *figures.Figure, path *figures.Path) (*figures.Result, error) {
	ctx, cancel := s.untilStopped(c.Request().Context())
	defer cancel()
	schedule, replays := c.QueryParams()["schedule"]
	leave, err := s.admit(ctx, c, s.needs(fig, path, replays))
	if err != nil {
		return nil, err
	}
	defer leave()
	var result *figures.Result
	if replays {
		result, err = s.runner.Replay(ctx, fig, path, schedule[0])
	} else {
		result, err = s.runner.Run(ctx, fig, path)
	}
	if err != nil {
		return nil, err
	}
	result.Dive = p.ID
	if result.Status == figures.Late {
		c.Response().Header().Set("Retry-After", "2")
	}
	return result, nil
}

// untilStopped ends with the request, and when the site stops.
func (s *Site) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.stopped, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// pageWithRun is a page with one verdict in place, for a reader without
// JavaScript and for a link that was sent to somebody.
func (s *Site) pageWithRun(c echo.Context, ed *edition, p *content.Page, run string) error {
	figure, path, _ := strings.Cut(run, ".")
	fig, pa, ok := p.Find(figure, path)
	if !ok {
		return notFound("This page has no figure " + strconv.Quote(figure) + " with a path " + strconv.Quote(path) + ".")
	}
	shown := card.Run{Figure: fig, Path: pa}
	var err error
	shown.Result, err = s.run(c, p, fig, pa)
	if errors.Is(err, context.Canceled) {
		return err
	}
	status := http.StatusOK
	if err != nil {
		problem := explain(err)
		s.note(c, problem)
		shown.Trouble = problem.text
		if problem.status == http.StatusBadRequest {
			status = problem.status
		}
	}
	return s.render(c, status, pageOf(s.lookAt(ed.course), p, shown))
}

type figureJSON struct {
	Figure string     `json:"figure"`
	Title  string     `json:"title"`
	Paths  []pathJSON `json:"paths"`
}

type pathJSON struct {
	Path   string `json:"path"`
	Label  string `json:"label"`
	Static string `json:"static"`
}

// listFigures lists a page's figures and their paths; who asks for HTML is
// sent to the page itself.
func (s *Site) listFigures(c echo.Context, p *content.Page) error {
	c.Response().Header().Set("Vary", "Accept")
	if !wantsJSON(c) {
		return c.Redirect(http.StatusSeeOther, p.URL)
	}
	list := []figureJSON{}
	for _, f := range p.Figures {
		item := figureJSON{Figure: f.ID, Title: f.Title, Paths: []pathJSON{}}
		for _, path := range f.Paths {
			item.Paths = append(item.Paths, pathJSON{Path: path.ID, Label: path.Label, Static: path.Static})
		}
		list = append(list, item)
	}
	return c.JSON(http.StatusOK, list)
}
