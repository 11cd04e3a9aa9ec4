package handlers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"lockstep/components"
	"lockstep/components/card"
	"lockstep/content"
)

// An edition is the course at one moment, with every page rendered. It never
// changes; a changed course is a new edition.
type edition struct {
	course      *content.Course
	pages       map[string]*document // by address
	fingerprint string               // of the files it was read from; empty where they can't change
}

// print renders every page.
func (s *Site) print(course *content.Course) (*edition, error) {
	ed := &edition{course: course, pages: make(map[string]*document, len(course.Pages)+1)}
	look := s.lookAt(course)
	home, err := html(components.Home(look))
	if err != nil {
		return nil, fmt.Errorf("render the home page: %w", err)
	}
	ed.pages["/"] = newPage(home)
	for _, p := range course.Pages {
		body, err := html(pageOf(look, p, card.Run{}))
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", p.URL, err)
		}
		ed.pages[p.URL] = newPage(body)
	}
	return ed, nil
}

// pageOf is the component for a page of the course.
func pageOf(look components.Site, p *content.Page, run card.Run) templ.Component {
	switch {
	case len(p.Faults) > 0:
		return components.Broken(look, p)
	case p.File == "":
		return components.Folder(look, p)
	}
	return components.Page(look, p, run)
}

func newPage(body []byte) *document {
	return newDocument(typeHTML, body, "no-cache")
}

const typeHTML = "text/html; charset=utf-8"

// html renders a component whole, so that no half page is ever sent.
func html(c templ.Component) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(8 << 10) // as much as a verdict takes
	if err := c.Render(context.Background(), &b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// edition gives the course as it is now: where it is read from a folder, the
// files are looked at again, and read again if one has changed.
func (s *Site) edition() (*edition, error) {
	ed := s.now.Load()
	if ed.fingerprint == "" {
		return ed, nil
	}
	found, err := content.Fingerprint(s.fsys)
	if err != nil || found == ed.fingerprint {
		return ed, err
	}
	s.reloads.Lock()
	defer s.reloads.Unlock()
	if ed = s.now.Load(); ed.fingerprint == found {
		return ed, nil
	}
	course, faults := content.Load(s.fsys, s.scripts)
	for _, f := range faults {
		s.log.Warn("dive", "fault", f.Error())
	}
	if ed, err = s.print(course); err != nil {
		return nil, err
	}
	ed.fingerprint = found
	s.now.Store(ed)
	return ed, nil
}

// render answers with a component that is made for this request.
func (s *Site) render(c echo.Context, status int, component templ.Component) error {
	body, err := html(component)
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	if status == http.StatusOK {
		c.Response().Header().Set("Cache-Control", "no-store")
	}
	return send(c, status, typeHTML, body)
}
