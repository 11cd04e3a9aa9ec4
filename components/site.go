// Package components turns the course and what its figures showed into HTML.
//
// A page is Layout around one of Home, Folder, Page, Search, Broken or Problem. A figure
// is Figure; what one run of a path showed is Verdict, a fragment of elements
// that figure.js puts in the place of the figure's own, by their data-part.
package components

import (
	"slices"
	"strings"

	"lockstep/content"
	"lockstep/figures"
	"lockstep/sandbox"
	"lockstep/static"
)

// A Site is what every page shows of the site itself.
type Site struct {
	Engine sandbox.Engine // zero where there is no server at all
	Assets *static.Assets
	Course *content.Course
}

// A Run is the path that a page was asked to show (?run=figure.path), and what
// came of it. Where there is no Result, the recorded verdict is shown, with the
// Trouble that kept the path from running.
type Run struct {
	Figure  *figures.Figure
	Path    *figures.Path
	Result  *figures.Result
	Trouble string // a sentence for the reader
}

// of narrows a run to a figure: what another figure showed isn't its business.
func (r *Run) of(f *figures.Figure) *Run {
	if r == nil || r.Figure != f {
		return nil
	}
	return r
}

// result is nil where nothing ran.
func (r *Run) result() *figures.Result {
	if r == nil {
		return nil
	}
	return r.Result
}

// path is nil where none was asked for.
func (r *Run) path() *figures.Path {
	if r == nil {
		return nil
	}
	return r.Path
}

// engineName is an engine as a reader knows it: "Valkey 8.0.1".
func engineName(e sandbox.Engine) string {
	name := e.Name
	switch {
	case name == "sqlite":
		name = "SQLite"
	case name == "postgresql":
		name = "PostgreSQL"
	case name != "":
		name = strings.ToUpper(name[:1]) + name[1:]
	}
	return strings.TrimSpace(name + " " + e.Version)
}

// Simulated is what every page and verdict says of the embedded server.
const simulated = "simulated, not Valkey"

// engineWords says which server answers: "Valkey 8.0.1", or that none does.
func engineWords(e sandbox.Engine) string {
	if e.Simulated() {
		return simulated
	}
	return engineName(e)
}

// A Head is what Layout needs to know of the page it stands around.
type Head struct {
	Title       string
	Description string
	Lang, Dir   string
	Page        *content.Page // nil for a page that isn't the course's
	Timed       bool          // a figure of it runs in real time
	Explores    bool          // a figure of it runs every schedule
	Search      bool          // it is the page that searches: it has the form, and nobody searches for it
}

func headOf(p *content.Page) Head {
	return Head{Title: p.Title, Description: p.Description, Lang: p.Lang, Dir: p.Dir, Page: p, Timed: slices.ContainsFunc(p.Figures, timedFigure), Explores: slices.ContainsFunc(p.Figures, explores)}
}

// title is the text of a browser's tab: the page, then what it belongs to.
func (h Head) title() string {
	if h.Title == "" {
		return "Lockstep: a course on distributed locking"
	}
	if h.Page != nil && h.Page.ID != "" {
		return h.Title + " · " + h.Page.ID + " · Lockstep"
	}
	return h.Title + " · Lockstep"
}

// trail is the way from the home page to p, p left out.
func trail(p *content.Page) []*content.Page {
	var pages []*content.Page
	if p == nil {
		return nil
	}
	for up := p.Parent; up != nil && up.Kind != content.KindHome; up = up.Parent {
		pages = append([]*content.Page{up}, pages...)
	}
	return pages
}
