package content

import (
	"bytes"
	"html"
	"regexp"
	"sort"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// A draft is a page on its way from a file to the course: its Markdown as a
// tree, and what can be settled only when all pages are known.
type draft struct {
	page     *Page
	shadowed *Page // the page that has this one's address
	opaque   bool  // the body could not be read, so nobody knows its anchors

	keyLine   map[string]int // of the front matter's keys
	fragments []fragment
	sources   []*Source
	related   []*related

	source       []byte // the file, its front matter blanked out: offsets give lines
	starts       []int  // where each line of source starts
	doc          ast.Node
	anchors      map[string]int // the line of each; 0 for the page's own
	figureFailed bool           // some figure could not be read, so its paths are unknown
	parts        []Part
	dives        []cards
}

// A fragment is a line of inline Markdown in the front matter.
type fragment struct {
	source string
	line   int
	html   *HTML // where it goes; nil for nowhere
	flat   *HTML // where it goes with its links as plain text
}

// cards are the place of a page's children.
type cards struct {
	part int // index into parts
	line int
}

// A related page as front matter names it.
type related struct {
	Related
	page string
	line int
}

// setSource keeps a file's text with an empty line in place of each line before
// the body.
func (d *draft) setSource(text []byte, bodyLine int) {
	lines := bytes.SplitAfter(text, []byte("\n"))
	d.source = bytes.Repeat([]byte("\n"), bodyLine-1)
	if bodyLine <= len(lines) {
		d.source = append(d.source, bytes.Join(lines[bodyLine-1:], nil)...)
	}
	d.starts = []int{0}
	for i, c := range d.source {
		if c == '\n' {
			d.starts = append(d.starts, i+1)
		}
	}
}

// line gives the line of the file that holds an offset into source.
func (d *draft) line(offset int) int {
	return sort.Search(len(d.starts), func(i int) bool { return d.starts[i] > offset })
}

// rawLine gives a line of the source as it stands in the file.
func (d *draft) rawLine(line int) []byte {
	if line < 1 || line > len(d.starts) {
		return nil
	}
	return firstLine(d.source[d.starts[line-1]:])
}

// markdown is the Markdown of the course: GitHub's tables, strikethrough and
// links, no raw HTML, attributes on headings.
type markdown struct {
	parser   parser.Parser
	inline   parser.Parser // front matter: one paragraph, no blocks
	renderer renderer.Renderer
}

func newMarkdown() *markdown {
	whole := goldmark.New(
		goldmark.WithExtensions(
			// Alignment as a class: a style attribute is against the site's policy.
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)),
			extension.Strikethrough,
			extension.Linkify,
		),
		goldmark.WithParserOptions(
			parser.WithAttribute(),
			parser.WithParagraphTransformers(util.Prioritized(alertMarker{}, 50)), // before link definitions and tables
		),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodeRenderer{}, 100))),
	)
	inline := goldmark.New(
		goldmark.WithParser(parser.NewParser(
			parser.WithBlockParsers(util.Prioritized(parser.NewParagraphParser(), 100)),
			parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		)),
		goldmark.WithExtensions(extension.Strikethrough, extension.Linkify),
	)
	return &markdown{parser: whole.Parser(), inline: inline.Parser(), renderer: whole.Renderer()}
}

// plain gives inline Markdown as a reader reads it, without markup.
func (m *markdown) plain(source string) string {
	src := []byte(source)
	return plainText(m.inline.Parse(text.NewReader(src)), src)
}

// plainText gives the text of a node.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			value := n.Value(source)
			if !n.IsRaw() && n.Parent().Kind() != ast.KindCodeSpan {
				value = unescape(value)
			}
			b.Write(value)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// unescape resolves backslashes and entities.
func unescape(value []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
}

func inlineText(s string) HTML { return HTML(html.EscapeString(s)) }

// parseBody turns the body into a tree of what a page has (sections, figures,
// cards) and notes what is wrong in it.
func (l *loader) parseBody(d *draft) {
	pc := parser.NewContext()
	d.doc = l.md.parser.Parse(text.NewReader(d.source), parser.WithContext(pc))
	l.lint(d)
	l.fences(d)
	d.alerts(pc)
	d.tables()
	d.headings(l.md)
	d.sections()
}

// Kinds of the nodes that this package adds.
var (
	kindSection    = ast.NewNodeKind("Section")
	kindAlert      = ast.NewNodeKind("Alert")
	kindAlertTitle = ast.NewNodeKind("AlertTitle") // what stands after the kind, as inline Markdown
	kindPair       = ast.NewNodeKind("Pair")       // two cards that stand next to each other
	kindPart       = ast.NewNodeKind("Part")
	kindWide       = ast.NewNodeKind("Wide") // scrolls by itself where it is wider than the screen
)

// A block is a node of one of these kinds.
type block struct {
	ast.BaseBlock
	kind ast.NodeKind
}

func (b *block) Kind() ast.NodeKind            { return b.kind }
func (b *block) Dump(source []byte, level int) { ast.DumpHelper(b, source, level, nil, nil) }

// A sectionNode is a heading of level 2 and all up to the next.
type sectionNode struct {
	block
	number int
	id     string
	start  int // in the source
	length int // there, in bytes
}

// A partNode is the place of a figure, a listing or cards.
type partNode struct {
	block
	index int // into draft.parts
}

// nodes lists all nodes below n of one kind, so that the tree can be changed
// while they are visited.
func nodes[N ast.Node](n ast.Node) []N {
	var found []N
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if match, ok := n.(N); ok && entering {
			found = append(found, match)
		}
		return ast.WalkContinue, nil
	})
	return found
}

// replace puts a node in the place of another.
func replace(old, new ast.Node) { old.Parent().ReplaceChild(old.Parent(), old, new) }

// adopt moves all children of a node to another.
func adopt(from, to ast.Node) {
	for c := from.FirstChild(); c != nil; c = from.FirstChild() {
		to.AppendChild(to, c)
	}
}

// tables wraps each table, marks alignments with classes and headers with their
// scope.
func (d *draft) tables() {
	for _, table := range nodes[*extast.Table](d.doc) {
		for _, cell := range nodes[*extast.TableCell](table) {
			if cell.Alignment != extast.AlignNone {
				cell.SetAttributeString("class", []byte(cell.Alignment.String()))
			}
			if cell.Parent().Kind() == extast.KindTableHeader {
				cell.SetAttributeString("scope", []byte("col"))
			}
		}
		wide := &block{kind: kindWide}
		replace(table, wide)
		wide.AppendChild(wide, table)
	}
}

// sections gathers what stands below each heading of level 2, and marks the
// source lines below headings.
func (d *draft) sections() {
	for _, h := range nodes[*ast.Heading](d.doc) {
		if p, ok := h.NextSibling().(*ast.Paragraph); ok && sourceLine.MatchString(plainText(p, d.source)) {
			p.SetAttributeString("class", []byte("source"))
		}
	}
	var section *sectionNode
	for n := d.doc.FirstChild(); n != nil; {
		next := n.NextSibling()
		if h, ok := n.(*ast.Heading); ok && h.Level == 2 {
			s := &sectionNode{block: block{kind: kindSection}, number: 1, id: headingID(h)}
			if h.Lines().Len() > 0 { // else it is empty, and a fault
				s.start = h.Lines().At(0).Start
			}
			s.length = len(d.source) - s.start
			if section != nil {
				s.number, section.length = section.number+1, s.start-section.start
			}
			section = s
			replace(h, section)
		}
		if section != nil {
			section.AppendChild(section, n)
		}
		n = next
	}
}

var sourceLine = regexp.MustCompile(`^Sources?:`)
