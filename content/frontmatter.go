package content

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"lockstep/figures/read"
)

// The keys that front matter knows, and those of an entry of its lists.
var (
	pageKeys    = []string{"id", "title", "name", "lede", "grounding", "summary", "state", "sources", "related", "lang", "dir"}
	sourceKeys  = []string{"title", "url", "note"}
	relatedKeys = []string{"page", "url", "title", "note"}
)

var (
	pageID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	language  = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)
	direction = regexp.MustCompile(`^(ltr|rtl)$`)
)

// rightToLeft are languages whose pages run from right to left unless dir says
// otherwise.
var rightToLeft = []string{"ar", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"}

// cutFrontMatter splits a text into front matter and the line on which the body
// starts. The front matter starts on line 2.
func cutFrontMatter(text []byte) (yaml []byte, bodyLine int, closed bool) {
	_, rest, _ := bytes.Cut(text, []byte("\n"))
	line, start := 2, 0
	for start < len(rest) {
		end := bytes.IndexByte(rest[start:], '\n')
		if end < 0 {
			end = len(rest) - start
		}
		if isRule(rest[start : start+end]) {
			return rest[:start], line + 1, true
		}
		start = min(start+end+1, len(rest))
		line++
	}
	return nil, 0, false
}

func isRule(line []byte) bool { return string(bytes.TrimRight(line, " \t")) == "---" }

// frontMatter reads the front matter into the page and gives the line on which
// the body starts; ok is false where that can't be told.
func (l *loader) frontMatter(d *draft, text []byte) (bodyLine int, ok bool) {
	p := d.page
	p.Lang, p.Dir = "en", "ltr"
	defer func() {
		if p.Title == "" {
			p.Title = folderTitle(p.URL)
			p.TitleHTML = inlineText(p.Title)
		}
		if p.Name == "" {
			p.Name = p.Title
		}
	}()
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if !isRule(first) {
		hint := "start the file with a line ---, then id and title, then a line ---"
		if isRule(firstLine(bytes.TrimLeft(text, " \t\n"))) {
			hint = "front matter starts on the first line, at the margin: delete what stands before ---"
		}
		d.fault(1, hint, "the page has no front matter")
		return 0, false
	}
	block, bodyLine, closed := cutFrontMatter(text)
	if !closed {
		d.fault(1, "end it with a line ---", "the front matter is never closed")
		return 0, false
	}
	f := frontMatter{l: l, d: d}
	f.read(block)
	return bodyLine, true
}

func firstLine(text []byte) []byte {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return line
}

// frontMatter walks the nodes of one page's front matter. It reads nodes, not
// decoded values: a scalar stays as its author wrote it (0123 is not 83), and
// every fault knows its line.
type frontMatter struct {
	l *loader
	d *draft
}

func (f frontMatter) fault(n *yaml.Node, hint, format string, args ...any) {
	f.d.fault(n.Line+1, hint, format, args...)
}

func (f frontMatter) read(block []byte) {
	d, p := f.d, f.d.page
	d.keyLine = map[string]int{}
	var doc yaml.Node
	if err := yaml.Unmarshal(block, &doc); err != nil {
		p.Faults = append(p.Faults, read.YAMLFault(err, block, p.File, 2))
		return
	}
	top := &yaml.Node{Kind: yaml.MappingNode, Line: 0}
	if len(doc.Content) > 0 {
		top = doc.Content[0]
	}
	entries, ok := f.entries(top, "the front matter", pageKeys)
	if !ok {
		return
	}
	for _, e := range entries {
		d.keyLine[e.key] = e.line
		switch e.key {
		case "id":
			p.ID = f.text(e.value, "id")
			if p.ID != "" && !pageID.MatchString(p.ID) {
				f.fault(e.value, "use letters, digits, dots and hyphens, like R2.02.2", "the id %q has other characters", p.ID)
				p.ID = ""
			}
		case "title":
			source := f.prose(e.value, "title")
			p.Title = f.l.md.plain(source)
			d.fragments = append(d.fragments, fragment{source, e.line, nil, &p.TitleHTML})
		case "name":
			p.Name = f.l.md.plain(f.prose(e.value, "name"))
		case "lede":
			source := f.prose(e.value, "lede")
			p.Description = f.l.md.plain(source)
			lede := fragment{source, e.line, &p.Lede, nil}
			if _, own := find(entries, "summary"); !own {
				lede.flat = &p.Summary
			}
			d.fragments = append(d.fragments, lede)
		case "grounding":
			d.fragments = append(d.fragments, fragment{f.prose(e.value, "grounding"), e.line, &p.Grounding, nil})
		case "summary":
			d.fragments = append(d.fragments, fragment{f.prose(e.value, "summary"), e.line, nil, &p.Summary})
		case "state":
			f.state(e.value)
		case "sources":
			f.sources(e.value)
		case "related":
			f.related(e.value)
		case "lang":
			p.Lang = f.matching(e.value, "lang", language, "write a language tag, like en or pt-BR", "en")
		case "dir":
			p.Dir = f.matching(e.value, "dir", direction, "write ltr or rtl", "ltr")
		}
	}
	f.complete(entries)
}

// complete sets what follows from other keys, and notes those that are missing.
func (f frontMatter) complete(entries []entry) {
	d, p := f.d, f.d.page
	base, _, _ := strings.Cut(strings.ToLower(p.Lang), "-")
	if _, given := find(entries, "dir"); !given && slices.Contains(rightToLeft, base) {
		p.Dir = "rtl"
	}
	for _, key := range []string{"id", "title"} {
		if _, given := find(entries, key); !given {
			d.fault(1, fmt.Sprintf("add a line `%s: …`", key), "the front matter has no %s", key)
		}
	}
}

// An entry is one key of a map with its value.
type entry struct {
	key   string
	line  int // of the key, in the file
	value *yaml.Node
}

func find(entries []entry, key string) (entry, bool) {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.key == key })
	if i < 0 {
		return entry{}, false
	}
	return entries[i], true
}

// entries gives a map's known keys in order.
func (f frontMatter) entries(n *yaml.Node, what string, known []string) ([]entry, bool) {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		f.fault(n, "write `key: value` lines", "%s is %s, not a map", what, describe(n))
		return nil, false
	}
	var entries []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if !slices.Contains(known, key.Value) {
			f.fault(key, read.Nearest(key.Value, known), "unknown key %q in %s", key.Value, what)
			continue
		}
		if first, twice := find(entries, key.Value); twice {
			f.fault(key, fmt.Sprintf("it stands first in line %d", first.line), "%s has the key %q twice", what, key.Value)
			continue
		}
		entries = append(entries, entry{key.Value, key.Line + 1, value})
	}
	return entries, true
}

// items gives a list's elements.
func (f frontMatter) items(n *yaml.Node, what string) []*yaml.Node {
	n = follow(n)
	if n.Kind != yaml.SequenceNode {
		f.fault(n, "start each entry with `- `", "%s is %s, not a list", what, describe(n))
		return nil
	}
	return n.Content
}

// text gives a scalar as it was written; "" after a fault.
func (f frontMatter) text(n *yaml.Node, what string) string {
	n = follow(n)
	switch {
	case n.Kind == yaml.MappingNode:
		f.fault(n, "put a text that starts with { or holds `: ` in quotes", "%s is a map, not a text", what)
	case n.Kind != yaml.ScalarNode:
		f.fault(n, "put a text that starts with [ in quotes", "%s is %s, not a text", what, describe(n))
	case strings.TrimSpace(n.Value) == "":
		f.fault(n, "write it after the colon", "%s is empty", what)
	default:
		return n.Value
	}
	return ""
}

// matching gives a text of one form, or after a fault another in its place.
func (f frontMatter) matching(n *yaml.Node, what string, form *regexp.Regexp, hint, otherwise string) string {
	text := f.text(n, what)
	if form.MatchString(text) {
		return text
	}
	f.fault(n, hint, "%s is %q", what, text)
	return otherwise
}

// prose gives a text for readers, on one line.
func (f frontMatter) prose(n *yaml.Node, what string) string {
	text := f.text(n, what)
	// "# comment" after a value is YAML, "#3" is a text cut in two.
	if c := follow(n).LineComment; len(c) > 1 && c[1] != ' ' && text != "" {
		f.fault(n, "in YAML ` #` starts a comment: put the whole text in quotes", "%s is cut off after %q", what, text)
	}
	return strings.Join(strings.Fields(text), " ")
}

func (f frontMatter) state(n *yaml.Node) {
	word := f.text(n, "state")
	for _, s := range []State{Built, Draft, Planned} {
		if s.String() == word {
			f.d.page.State = s
			return
		}
	}
	if word != "" {
		f.fault(n, "write built, draft or planned", "state is %q", word)
	}
}

func (f frontMatter) sources(n *yaml.Node) {
	d := f.d
	for _, item := range f.items(n, "sources") {
		entries, ok := f.entries(item, "a source", sourceKeys)
		if !ok {
			continue
		}
		source := &Source{}
		if _, given := find(entries, "title"); !given {
			f.fault(item, "add `title: …`", "a source has no title")
		}
		for _, e := range entries {
			switch e.key {
			case "title":
				source.Title = f.l.md.plain(f.prose(e.value, "title"))
			case "url":
				source.URL = f.webAddress(e.value)
			case "note":
				d.fragments = append(d.fragments, fragment{f.prose(e.value, "note"), e.line, &source.Note, nil})
			}
		}
		d.sources = append(d.sources, source)
	}
}

func (f frontMatter) related(n *yaml.Node) {
	d := f.d
	for _, item := range f.items(n, "related") {
		entries, ok := f.entries(item, "a related page", relatedKeys)
		if !ok {
			continue
		}
		r := &related{}
		page, hasPage := find(entries, "page")
		_, hasURL := find(entries, "url")
		_, hasTitle := find(entries, "title")
		switch {
		case hasPage == hasURL:
			f.fault(item, "write `page:` with an id or a file, or `url:` with a web address", "a related page has both page and url, or neither")
		case hasURL && !hasTitle:
			f.fault(item, "add `title: …`", "a related page elsewhere has no title")
		}
		for _, e := range entries {
			switch e.key {
			case "page":
				r.page, r.line = f.text(page.value, "page"), page.line
			case "url":
				r.URL = f.webAddress(e.value)
			case "title":
				r.Title = f.l.md.plain(f.prose(e.value, "title"))
			case "note":
				d.fragments = append(d.fragments, fragment{f.prose(e.value, "note"), e.line, &r.Note, nil})
			}
		}
		d.related = append(d.related, r)
	}
}

// webAddress reads an address outside the course.
func (f frontMatter) webAddress(n *yaml.Node) string {
	text := f.text(n, "url")
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		f.fault(n, "write an address that starts with https://; pages of the course go under related, with `page:`", "the url %q is no web address", text)
		return ""
	}
	return text
}

// follow gives the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Value == "":
		return "empty"
	}
	return fmt.Sprintf("the text %q", n.Value)
}
