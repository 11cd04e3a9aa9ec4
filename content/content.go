// Package content is the course as its authors wrote it: Markdown files with
// YAML on top, read into pages whose figures can be drawn and run.
//
// [Load] reads a folder. What it returns never changes, so requests read it
// without a lock. Everything that is wrong in the files comes back as faults,
// each with its file and line; a page with faults is in the course all the
// same, so that one broken dive takes no other page with it.
//
// README.md beside this file is the author's guide.
package content

import (
	"embed"
	"io/fs"

	"lockstep/figures"
	"lockstep/lua"
)

//go:embed *.md */*.md */*/*.md */*/*/*.md
var files embed.FS

// FS returns the course as it stood in this folder when the program was built.
func FS() fs.FS { return files }

// A Course is all that the site teaches.
type Course struct {
	Home  *Page   // the page at /; its children are the courses
	Pages []*Page // all the others, in reading order; those beside the courses last

	byURL    map[string]*Page
	byID     map[string]*Page
	passages []passage // what Search looks through, in reading order
}

// Page finds a page by its address ("/redis-patterns/coordination").
func (c *Course) Page(url string) (*Page, bool) {
	p, ok := c.byURL[url]
	return p, ok
}

// A Kind is what a page is, by where it lies.
type Kind int

// The kinds, from the top.
const (
	KindHome Kind = iota
	KindCourse
	KindChapter
	KindModule
	KindDive
	KindBeside // a page of the site itself, beside the courses
)

// String gives the kind as a reader's word.
func (k Kind) String() string {
	return [...]string{"home", "course", "chapter", "module", "dive", "page"}[k]
}

// A State is how far a page is.
type State int

// The states. Built is the default.
const (
	Built State = iota
	Draft
	Planned
)

// String gives the state as front matter writes it.
func (s State) String() string { return [...]string{"built", "draft", "planned"}[s] }

// HTML is markup made from the author's Markdown, safe to write as it is.
type HTML string

// A Page is one Markdown file, or a folder that has no index.md.
type Page struct {
	About
	Contents
	Place

	Faults figures.Faults // what is wrong in this file
}

// About is what a page says about itself. Fields of type string are plain text.
type About struct {
	ID    string // "R2.02.2"; empty for a folder without index.md
	Title string
	Name  string // short: for cards, breadcrumbs, previous and next
	State State
	Lang  string // "en" unless the page says otherwise
	Dir   string // "ltr" or "rtl"

	TitleHTML   HTML
	Lede        HTML
	Grounding   HTML   // one line: where this stands in real code
	Summary     HTML   // for cards: without links, since the card is one
	Description string // the lede in plain text
}

// Contents are the parts of a page.
type Contents struct {
	Body      []Part
	Figures   []*figures.Figure  // in the order in which they stand
	Sessions  []*figures.Session // shown in Body as code
	Schedules []ScheduleLink     // links to one schedule, for check
	Headings  []Heading          // for the table of contents
	Sources   []Source
	Related   []Related
}

// A Place is where a page lies in the course.
type Place struct {
	URL     string // "/redis-patterns/coordination/distributed-locking/fencing-tokens"
	File    string // within the content folder; empty for a folder without index.md
	Kind    Kind
	Eyebrow string // "R2.02.2 · Distributed locking · dive 2"

	Parent     *Page // nil for the home page only
	Children   []*Page
	Prev, Next *Page // within the module, the hub first; nil at its ends
}

// Find finds a path of one of the page's figures.
func (p *Page) Find(figure, path string) (*figures.Figure, *figures.Path, bool) {
	for _, f := range p.Figures {
		if f.ID == figure {
			found, ok := f.Path(path)
			return f, found, ok
		}
	}
	return nil, nil, false
}

// A ScheduleLink is a link of a page to one schedule of a figure. Whether that
// schedule can happen is known only once it is run.
type ScheduleLink struct {
	Page     *Page  // where the figure stands
	Run      string // "figure.path"
	Schedule string // "A.A.lapse.B"
	Line     int    // of the link
}

// A Heading is an entry of a page's table of contents.
type Heading struct {
	Level  int    // 2 or 3
	Number int    // of a section (level 2), from 1; 0 at level 3
	ID     string // the anchor, without #
	Text   string
	HTML   HTML // the text with its code and emphasis, without links
}

// A Part is a piece of a page's body. Exactly one of HTML, Figure, Script and
// Dives is set.
//
// Parts are written one after another: a piece of HTML may open an element
// (a section, a list item) that a later one closes.
type Part struct {
	HTML   HTML
	Figure *figures.Figure
	Number int // of the figure, from 1
	Script *lua.Script
	Code   HTML    // the script's text, coloured, for the inside of a <code>
	Dives  []*Page // cards
}

// A Source is an entry of a page's references.
type Source struct {
	Title string
	URL   string // empty for a source that is not on the web
	Note  HTML
}

// A Related is a page to read next to this one: of the course, or elsewhere.
type Related struct {
	Page  *Page // set for a page of the course
	Title string
	URL   string
	Note  HTML
}
