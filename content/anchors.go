package content

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"golang.org/x/text/unicode/norm"
)

// Anchors of a page are the ids of its headings and figures, plus "references".
// None of them holds a dot: ids of the page's own elements do, or are reserved.
var reserved = map[string]bool{"announce": true, "contents": true, "main": true, "references": true, "top": true}

var ownID = regexp.MustCompile(`^[\pL\pN][\pL\pN\pM_-]*$`)

// slug makes an anchor of a heading: its letters and digits of any script, in
// lower case, with a hyphen for each run of anything else.
func slug(heading string) string {
	var b strings.Builder
	gap := false
	for _, r := range norm.NFC.String(strings.ToLower(heading)) {
		word := unicode.IsLetter(r) || unicode.IsNumber(r) ||
			unicode.IsMark(r) && !unicode.Is(unicode.Variation_Selector, r) && b.Len() > 0 && !gap
		if !word {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	if b.Len() == 0 {
		return "section"
	}
	return b.String()
}

// headings gives every heading its anchor and lists them for the table of
// contents. An anchor depends on the heading's own text; only of equal headings
// the later ones get a number. So a heading added above changes no other.
func (d *draft) headings(md *markdown) {
	all := nodes[*ast.Heading](d.doc)
	for name := range reserved {
		d.anchors[name] = 0 // taken, but nothing to link to
	}
	base := map[*ast.Heading]string{} // of those that take their anchor from their text
	for _, h := range all {
		d.lintHeading(h)
		if !d.ownAnchor(h) {
			base[h] = slug(plainText(h, d.source))
		}
	}
	for _, h := range all { // the first of each text, then those equal to it
		if id := base[h]; id != "" {
			if _, taken := d.anchors[id]; !taken {
				d.setAnchor(h, id)
			}
		}
	}
	count := map[string]int{}
	for _, h := range all {
		id := base[h]
		if id == "" || headingID(h) != "" {
			continue
		}
		free := ""
		for taken := true; taken; _, taken = d.anchors[free] {
			count[id]++
			free = fmt.Sprintf("%s-%d", id, 1+count[id])
		}
		d.setAnchor(h, free)
	}

	section := 0
	for _, h := range all {
		if h.Parent() != d.doc || h.Level != 2 && h.Level != 3 {
			continue
		}
		heading := Heading{Level: h.Level, ID: headingID(h), Text: plainText(h, d.source), HTML: md.flat(h, d.source)}
		if h.Level == 2 {
			section++
			heading.Number = section
		}
		d.page.Headings = append(d.page.Headings, heading)
	}
}

// lintHeading reports what a heading can't be or have.
func (d *draft) lintHeading(h *ast.Heading) {
	line := d.headingLine(h)
	if h.Level == 1 {
		d.fault(line, "the page's title is its only heading of level 1: start with ##", "a heading of level 1 in the body")
	}
	for _, a := range h.Attributes() {
		if string(a.Name) != "id" {
			d.fault(line, "a heading takes {#its-anchor} and nothing else", "unknown attribute %q on a heading", a.Name)
		}
	}
	if plainText(h, d.source) == "" {
		d.fault(line, "write its text after the #", "the heading is empty")
	}
}

// ownAnchor sets the anchor that an author gave to a heading; false where there
// is none, or none that can be.
func (d *draft) ownAnchor(h *ast.Heading) bool {
	given, own := h.AttributeString("id")
	h.RemoveAttributes()
	if !own {
		return false
	}
	line, id := d.headingLine(h), norm.NFC.String(attributeText(given))
	at, taken := d.anchors[id]
	switch {
	case !ownID.MatchString(id):
		d.fault(line, "use letters, digits and hyphens", "the anchor %q has other characters", id)
	case reserved[id]:
		d.fault(line, "choose another", "the site itself uses the anchor %q", id)
	case taken:
		d.fault(line, fmt.Sprintf("choose another: the heading or figure in line %d has it", at), "the anchor %q stands twice in this page", id)
	default:
		d.setAnchor(h, id)
		return true
	}
	return false
}

func attributeText(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

func (d *draft) setAnchor(h *ast.Heading, id string) {
	d.anchors[id] = d.headingLine(h)
	h.SetAttributeString("id", []byte(id))
}

func headingID(h *ast.Heading) string {
	id, ok := h.AttributeString("id")
	if !ok {
		return ""
	}
	return attributeText(id)
}

func (d *draft) headingLine(h *ast.Heading) int {
	if h.Lines().Len() > 0 {
		return d.line(h.Lines().At(0).Start)
	}
	return d.line(max(h.Pos(), 0))
}
