package content

import (
	"bytes"
	"fmt"
	"regexp"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// lint looks for what Markdown takes without a word and shows as something else
// than the author meant.
func (l *loader) lint(d *draft) {
	for _, n := range nodes[*ast.HTMLBlock](d.doc) {
		d.rawBlock(n)
	}
	for _, n := range nodes[*ast.RawHTML](d.doc) {
		d.rawInline(n, d.source, d.line(n.Segments.At(0).Start))
	}
	for _, n := range nodes[*ast.Image](d.doc) {
		d.fault(d.line(max(n.Pos(), 0)), "draw it as a figure, or describe it", "images are not shown")
	}
	for _, n := range nodes[*ast.List](d.doc) {
		d.brokenList(n)
	}
	for _, n := range nodes[*extast.Table](d.doc) {
		d.longRows(n)
	}
	for _, n := range nodes[*ast.Paragraph](d.doc) {
		d.notQuite(n)
	}
}

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	anyTag  = regexp.MustCompile(`</?[A-Za-z][A-Za-z0-9-]*|<[!?]`)
)

const noHTML = "write it in Markdown; to show the tag itself, put it in backquotes"

// rawBlock reports the tags of a block of HTML, one fault a line.
func (d *draft) rawBlock(n *ast.HTMLBlock) {
	text := lines(n, d.source)
	if n.HasClosure() {
		text = append(text, n.ClosureLine.Value(d.source)...)
	}
	line := d.line(max(n.Pos(), 0))
	blank := func(c []byte) []byte { return bytes.Repeat([]byte("\n"), bytes.Count(c, []byte("\n"))) }
	text = comment.ReplaceAllFunc(text, blank)
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<!--")) {
		d.fault(line, "end it with -->", "a comment is never closed")
		return
	}
	tags := false
	for i, row := range bytes.Split(text, []byte("\n")) {
		if tag := anyTag.Find(row); tag != nil {
			tags = true
			d.fault(line+i, noHTML, "raw HTML, %q, is not shown", string(tag)+">")
		}
	}
	if rest := bytes.TrimSpace(text); !tags && len(rest) > 0 {
		d.fault(line, "put the comment on a line of its own", "the text beside a comment, %q, is not shown", firstLine(rest))
	}
}

// rawInline reports a tag in running text; of a pair only the opening one.
func (d *draft) rawInline(n *ast.RawHTML, source []byte, line int) {
	tag := n.Segments.Value(source)
	if bytes.HasPrefix(tag, []byte("<!--")) {
		return
	}
	name := anyTag.Find(tag)
	if bytes.HasPrefix(tag, []byte("</")) {
		for prev := n.PreviousSibling(); prev != nil; prev = prev.PreviousSibling() {
			open, ok := prev.(*ast.RawHTML)
			if ok && bytes.Equal(anyTag.Find(open.Segments.Value(source)), append([]byte("<"), name[2:]...)) {
				return
			}
		}
	}
	d.fault(line, noHTML, "raw HTML, %q, is not shown", tag)
}

// brokenList reports a numbered list that a block in its middle has cut in two:
// the block is indented less than the text of the item that it should belong to.
func (d *draft) brokenList(list *ast.List) {
	if !list.IsOrdered() {
		return
	}
	item, ok := list.LastChild().(*ast.ListItem)
	if !ok || list.NextSibling() == nil {
		return
	}
	first := list.NextSibling()
	next := first
	for ; next != nil; next = next.NextSibling() {
		if next.Kind() == ast.KindList {
			break
		}
		if next.Kind() == ast.KindHeading || next.Kind() == ast.KindThematicBreak {
			return
		}
	}
	rest, ok := next.(*ast.List)
	if !ok || next == first || rest.Marker != list.Marker || rest.Start != list.Start+list.ChildCount() {
		return
	}
	line := d.line(max(first.Pos(), 0))
	raw := d.rawLine(line)
	indent := len(raw) - len(bytes.TrimLeft(raw, " "))
	if first.Kind() != ast.KindFencedCodeBlock && indent == 0 {
		return // prose between two lists that go on counting
	}
	d.fault(line, fmt.Sprintf("indent the block by %d, as deep as the item's text", item.Offset),
		"the numbered list ends before this block and starts again after it, at %d", rest.Start)
}

// longRows reports rows with more cells than the header: their last cells would
// not be shown.
func (d *draft) longRows(table *extast.Table) {
	for n := table.FirstChild(); n != nil; n = n.NextSibling() {
		row, ok := n.(*extast.TableRow)
		if !ok || row.Pos() < 0 {
			continue
		}
		cells := countCells(firstLine(d.source[row.Pos():]))
		if cells > len(table.Alignments) {
			d.fault(d.line(row.Pos()), `a | inside a cell is written \|, in code too`,
				"the row has %d cells and the table's header %d", cells, len(table.Alignments))
		}
	}
}

// countCells counts the cells of a table's line as goldmark does.
func countCells(line []byte) int {
	line = bytes.TrimSpace(line)
	line = bytes.TrimPrefix(line, []byte("|"))
	if bytes.HasSuffix(line, []byte("|")) && !bytes.HasSuffix(line, []byte(`\|`)) {
		line = line[:len(line)-1]
	}
	return 1 + bytes.Count(line, []byte("|")) - bytes.Count(line, []byte(`\|`))
}

var (
	delimiterRow = regexp.MustCompile(`^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$`)
	lateAlert    = regexp.MustCompile(`^[ \t]*\[![A-Za-z_-]+\]([ \t]|$)`)
	footnote     = regexp.MustCompile(`\[\^[^\]\s]+\]`)
)

// notQuite reports paragraphs that were meant to be something else.
func (d *draft) notQuite(p *ast.Paragraph) {
	for i := range p.Lines().Len() {
		segment := p.Lines().At(i)
		row := bytes.TrimRight(segment.Value(d.source), "\n")
		line := d.line(segment.Start)
		switch {
		case i > 0 && delimiterRow.Match(row):
			above := p.Lines().At(i - 1)
			d.fault(line, "give both lines as many cells", "this is no table: the header has %d cells and this line %d",
				countCells(above.Value(d.source)), countCells(row))
		case lateAlert.Match(row):
			d.fault(line, "a block is a quote of its own: start each line with > and leave an empty line before it", "no block starts here, at %q", row)
		}
	}
	for c := p.FirstChild(); c != nil; c = c.NextSibling() {
		start, ok := c.(*ast.Text)
		if !ok {
			continue
		}
		end := start.Segment.Stop
		for next, ok := c.NextSibling().(*ast.Text); ok; next, ok = c.NextSibling().(*ast.Text) {
			end = max(end, next.Segment.Stop)
			c = next
		}
		if m := footnote.FindIndex(d.source[start.Segment.Start:end]); m != nil {
			d.fault(d.line(start.Segment.Start+m[0]), "put the note into the text, or into the sources", "footnotes are not shown")
		}
	}
}
