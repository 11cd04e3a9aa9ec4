package content

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/text/unicode/norm"

	"lockstep/figures/read"
)

// link settles what needs the other pages: links, related pages, cards.
func (l *loader) link(d *draft, course *Course) {
	p := d.page
	if d.doc != nil {
		l.rewrite(d, course, d.doc, d.source, func(n ast.Node) int { return d.line(max(n.Pos(), 0)) })
	}
	for _, f := range d.fragments {
		src := []byte(f.source)
		tree := l.md.inline.Parse(text.NewReader(src))
		for _, n := range nodes[*ast.RawHTML](tree) {
			d.rawInline(n, src, f.line)
		}
		for range nodes[*ast.Image](tree) {
			d.fault(f.line, "draw it as a figure, or describe it", "images are not shown")
		}
		l.rewrite(d, course, tree, src, func(ast.Node) int { return f.line })
		if f.html != nil {
			*f.html = l.md.inlineHTML(tree, src)
		}
		if f.flat != nil {
			*f.flat = l.md.flat(tree, src)
		}
	}
	for _, s := range d.sources {
		p.Sources = append(p.Sources, *s)
	}
	for _, r := range d.related {
		if r.page != "" {
			r.Page = l.relatedPage(d, course, r)
			if r.Page == nil {
				continue
			}
			r.URL = r.Page.URL
			if r.Title == "" {
				r.Title = r.Page.Name
			}
		}
		p.Related = append(p.Related, r.Related)
	}
	for _, place := range d.dives {
		d.parts[place.part].Dives = p.Children
		if len(p.Children) == 0 {
			d.fault(place.line, "take the block out, or save pages in the folder", "a dives block, and no pages below this one")
		}
	}
}

// relatedPage finds a page by its id or its file.
func (l *loader) relatedPage(d *draft, course *Course, r *related) *Page {
	if p, ok := course.byID[r.page]; ok {
		return p
	}
	if !strings.HasSuffix(r.page, ".md") {
		ids := slices.Sorted(maps.Keys(course.byID))
		d.fault(r.line, read.Nearest(r.page, ids), "no page has the id %q", r.page)
		return nil
	}
	t, problem, hint := l.target(d, course, &url.URL{Path: r.page})
	if problem != "" {
		d.fault(r.line, hint, "%s", problem)
		return nil
	}
	return t.page
}

// rewrite checks every link below a node and gives it the address that a
// browser needs.
func (l *loader) rewrite(d *draft, course *Course, root ast.Node, source []byte, line func(ast.Node) int) {
	check := func(n ast.Node, address string) (href string, ok bool) {
		href, away, problem, hint := l.resolve(d, course, address)
		if problem != "" {
			d.fault(line(n), hint, "%s", problem)
			return "", false
		}
		if away {
			n.SetAttributeString("rel", []byte("noopener"))
		}
		return href, true
	}
	for _, n := range nodes[*ast.Link](root) {
		if href, ok := check(n, string(unescape(n.Destination))); ok {
			n.Destination = []byte(href)
		}
	}
	for _, n := range nodes[*ast.AutoLink](root) {
		if n.AutoLinkType != ast.AutoLinkEmail {
			check(n, string(n.URL(source)))
		}
	}
}

// resolve gives the address of a link as a browser needs it. away tells that it
// leads out of the course; problem is what is wrong with it.
func (l *loader) resolve(d *draft, course *Course, address string) (href string, away bool, problem, hint string) {
	if strings.TrimSpace(address) == "" {
		return "", false, "the link has no address", "write [text](address)"
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", false, fmt.Sprintf("the address %q cannot be read", address), ""
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			return "", false, fmt.Sprintf("the address %q names no host", address), "write https://host/path"
		}
		return address, true, "", ""
	case "mailto":
		return address, false, "", ""
	case "":
	default:
		return "", false, fmt.Sprintf("a link to %q leads nowhere", address), "link to https: addresses and to pages; put anything else in backquotes"
	}
	if u.Host != "" {
		return "", false, fmt.Sprintf("the address %q names no scheme", address), "start it with https://"
	}
	t, problem, hint := l.target(d, course, u)
	if problem != "" {
		return "", false, problem, hint
	}
	return l.inside(d, t, u)
}

// A target is the page that a link leads to.
type target struct {
	page  *Page
	draft *draft // nil for a folder without index.md
}

// target finds the page of a link within the course. Relative links go from the
// file's folder, as in the repository.
func (l *loader) target(d *draft, course *Course, u *url.URL) (t target, problem, hint string) {
	if u.Path == "" {
		return target{d.page, d}, "", ""
	}
	full := path.Join("/", path.Dir(d.page.File), u.Path)
	if strings.HasPrefix(u.Path, "/") {
		full = path.Clean(u.Path)
	}
	if p, ok := course.byURL[full]; ok {
		return target{p, l.byFile[p.File]}, "", ""
	}
	if to, ok := l.byFile[strings.TrimPrefix(full, "/")]; ok {
		return target{to.page, to}, "", ""
	}
	names := slices.Sorted(maps.Keys(course.byURL))
	for file := range l.byFile {
		names = append(names, "/"+file)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.EqualFold(name, full) {
			return target{}, fmt.Sprintf("there is no page %q", u.Path), fmt.Sprintf("small and capital letters differ: the page is %q", near(d, u.Path, name))
		}
	}
	if alike := closest(full, names); alike != "" {
		hint = fmt.Sprintf("did you mean %q?", near(d, u.Path, alike))
	}
	return target{}, fmt.Sprintf("there is no page %q", u.Path), hint
}

// near writes a page's path in the manner in which a link was written.
func near(d *draft, written, full string) string {
	if strings.HasPrefix(written, "/") {
		return full
	}
	from := strings.Split(path.Join("/", path.Dir(d.page.File)), "/")
	to := strings.Split(full, "/")
	for len(from) > 0 && len(to) > 1 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	up := strings.Repeat("../", len(from))
	if up == "" && strings.HasPrefix(written, "./") {
		up = "./"
	}
	return up + strings.Join(to, "/")
}

// closest gives the page that was probably meant: one of the same file name, or
// one spelt almost like it. "" where there is none.
func closest(found string, names []string) string {
	best, distance := "", 3
	for _, name := range names {
		if path.Base(name) == path.Base(found) && name != "/" {
			return name
		}
		if d := levenshtein.ComputeDistance(found, name); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// inside checks the query and the fragment of a link to a page.
func (l *loader) inside(d *draft, t target, u *url.URL) (href string, away bool, problem, hint string) {
	here := u.Path == ""
	if !here {
		href = t.page.URL
	}
	fragment := norm.NFC.String(u.Fragment)
	if u.RawQuery != "" {
		query, err := url.ParseQuery(u.RawQuery)
		name, schedule, scheduled := query.Get("run"), query.Get("schedule"), query.Has("schedule")
		if err != nil || name == "" || len(query) > 2 || len(query) == 2 && !scheduled {
			return "", false, fmt.Sprintf("the page takes no %q", "?"+u.RawQuery), "write ?run=<figure>.<path>, or add &schedule=<steps>"
		}
		figure, problem, hint := run(t, name)
		if problem != "" {
			return "", false, problem, hint
		}
		href = t.page.URL + "?run=" + url.QueryEscape(name)
		if scheduled {
			href += "&schedule=" + url.QueryEscape(schedule)
			d.page.Schedules = append(d.page.Schedules, ScheduleLink{
				Page: t.page, Run: name, Schedule: schedule, Line: d.lineOf("schedule=" + schedule),
			})
		}
		if fragment == "" {
			fragment = figure
		}
	}
	if fragment == "" {
		if href == "" {
			return "", false, "the link has no address", "write [text](address)"
		}
		return href, false, "", ""
	}
	if anchors := t.anchors(); anchors != nil && !slices.Contains(anchors, fragment) {
		where := "this page"
		if t.draft != d {
			where = t.page.URL
		}
		return "", false, fmt.Sprintf("%s has no anchor %q", where, fragment), read.Nearest(fragment, anchors)
	}
	return href + "#" + url.PathEscape(fragment), false, "", ""
}

// lineOf finds a piece of text in the file.
func (d *draft) lineOf(text string) int {
	at := bytes.Index(d.source, []byte(text))
	if at < 0 {
		return 0
	}
	return d.line(at)
}

// anchors lists what a link may end in, nil where nobody knows.
func (t target) anchors() []string {
	if t.draft == nil {
		return []string{}
	}
	if t.draft.opaque || t.draft.figureFailed {
		return nil
	}
	anchors := []string{}
	for name, line := range t.draft.anchors {
		if line > 0 {
			anchors = append(anchors, name)
		}
	}
	if len(t.draft.sources) > 0 {
		anchors = append(anchors, "references")
	}
	slices.Sort(anchors)
	return anchors
}

// run finds the figure of a ?run=figure.path link.
func run(t target, name string) (figure, problem, hint string) {
	id, pathID, ok := strings.Cut(name, ".")
	if !ok {
		return "", fmt.Sprintf("%q names no path", "?run="+name), "write ?run=<figure>.<path>"
	}
	if t.draft != nil && (t.draft.opaque || t.draft.figureFailed) {
		return id, "", ""
	}
	var ids []string
	for _, f := range t.page.Figures {
		ids = append(ids, f.ID)
		if f.ID != id {
			continue
		}
		if _, ok := f.Path(pathID); ok {
			return id, "", ""
		}
		var paths []string
		for _, p := range f.Paths {
			paths = append(paths, p.ID)
		}
		return "", fmt.Sprintf("the figure %q has no path %q", id, pathID), read.Nearest(pathID, paths)
	}
	return "", fmt.Sprintf("%s has no figure %q", t.page.URL, id), read.Nearest(id, ids)
}

// escape writes an address into an attribute.
func escape(address string) string { return string(util.EscapeHTML([]byte(address))) }
