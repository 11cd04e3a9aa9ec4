// Package components turns the course and what its figures showed into HTML.
//
// A page is layout around one of Home, Folder, Page, Search, Broken or Problem. The
// packages below draw its figures: card a figure as a whole, chart a run in real
// time, in the words and marks of say. None of them knows pages.
package components

import (
	"lockstep/components/card"
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

// A head is what layout needs to know of the page it stands around.
type head struct {
	Title       string
	Description string
	Lang, Dir   string
	Page        *content.Page // nil for a page that isn't the course's
	Timed       need          // for what draws runs in real time
	Explores    need          // for what draws maps and timelines of schedules
	Search      bool          // it is the page that searches: it has the form, and nobody searches for it
}

// A need is when a page needs a sheet and a module that not every figure does.
type need int

const (
	needNever need = iota
	needLater      // once a figure comes near the screen or is used
	needNow        // for the first drawing of the page
)

// headOf is the head of a page of the course. What its first screen and the
// figure that shows a run are drawn with, the page comes with.
func headOf(p *content.Page, run card.Run) head {
	h := head{Title: p.Title, Description: p.Description, Lang: p.Lang, Dir: p.Dir, Page: p}
	for _, f := range p.Figures {
		h.add(f, needLater)
	}
	for _, part := range lead(p) {
		h.add(part.Figure, needNow)
	}
	if run.Figure != nil {
		h.add(run.Figure, needNow)
		h.Explores = needNow // any run may be drawn as a timeline
	}
	return h
}

// add counts in a figure that the page needs so soon.
func (h *head) add(f *figures.Figure, soon need) {
	h.Explores = max(h.Explores, needLater)
	if f.Explores() {
		h.Explores = max(h.Explores, soon)
	}
	if f.Timed() {
		h.Timed = max(h.Timed, soon)
	}
}

// title is the text of a browser's tab: the page, then what it belongs to.
func (h head) title() string {
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
	for p != nil && p.Parent != nil && p.Parent.Kind != content.KindHome {
		p = p.Parent
		pages = append([]*content.Page{p}, pages...)
	}
	return pages
}
