// Package components turns the course and what its figures showed into HTML.
//
// A page is layout around one of Home, Folder, Page, Search, Broken or Problem. The
// packages below draw its figures: card a figure as a whole, chart a run in real
// time, in the words and marks of say. None of them knows pages.
package components

import (
	"slices"

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
	Timed       bool          // a figure of it runs in real time
	Explores    bool          // a figure of it runs every schedule
	Search      bool          // it is the page that searches: it has the form, and nobody searches for it
}

func headOf(p *content.Page) head {
	return head{Title: p.Title, Description: p.Description, Lang: p.Lang, Dir: p.Dir, Page: p, Timed: slices.ContainsFunc(p.Figures, (*figures.Figure).Timed), Explores: slices.ContainsFunc(p.Figures, (*figures.Figure).Explores)}
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
