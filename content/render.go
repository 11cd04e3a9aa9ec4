package content

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
	"golang.org/x/text/width"
)

// What the body is written with, besides Markdown's own elements and the blocks
// of alerts.go:
//
//	<section class="long-3">         a heading of level 2 and what follows it: about
//	                                 so many thousand bytes of source
//	<h2 id>, <span class="secno">    its number, "§1"
//	<a class="anchor">               in each heading, a link to itself
//	<p class="source">               the line of sources below a heading
//	<pre class="code chroma" dir>    code; tabindex="0" where it may be wider than a
//	                                 screen; in it <code class="language-lua"> with
//	                                 chroma's short classes (k, s, c1, …; in a session
//	                                 gp for a prompt, go for a reply)
//	<div class="wide" tabindex="0">  round a table, to scroll by itself
//	<th class="right">, <td …>       left, center and right cells

// mark stands round the number of a part in rendered HTML. No text holds it:
// normal takes it out.
const mark = "\x00"

// render writes the body as parts.
func (l *loader) render(d *draft) {
	if d.doc == nil {
		return
	}
	var b bytes.Buffer
	if err := l.md.renderer.Render(&b, d.source, d.doc); err != nil {
		d.fault(0, "", "the page cannot be rendered: %v", err)
		return
	}
	d.page.Body = nil
	for i, piece := range strings.Split(b.String(), mark) {
		if i%2 == 0 {
			if strings.TrimSpace(piece) != "" {
				d.page.Body = append(d.page.Body, Part{HTML: HTML(piece)})
			}
			continue
		}
		n, err := strconv.Atoi(piece)
		if err != nil || n >= len(d.parts) {
			d.fault(0, "", "the page cannot be rendered: there is no part %q", piece)
			return
		}
		d.page.Body = append(d.page.Body, d.parts[n])
	}
}

// inlineHTML writes what stands in a document of one paragraph, or in a heading.
func (m *markdown) inlineHTML(n ast.Node, source []byte) HTML {
	var b bytes.Buffer
	if n.Kind() == ast.KindDocument {
		if n = n.FirstChild(); n == nil {
			return ""
		}
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if err := m.renderer.Render(&b, source, c); err != nil {
			return inlineText(plainText(n, source))
		}
	}
	return HTML(strings.TrimSpace(b.String()))
}

// flat is inlineHTML without links: for cards and tables of contents, which are
// links themselves.
func (m *markdown) flat(n ast.Node, source []byte) HTML {
	return HTML(anchorTag.ReplaceAllString(string(m.inlineHTML(n, source)), ""))
}

var anchorTag = regexp.MustCompile(`</?a(?: [^>]*)?>`)

// nodeRenderer writes what goldmark would write otherwise, or doesn't know.
type nodeRenderer struct{}

func (nodeRenderer) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindHeading, renderHeading)
	reg.Register(ast.KindFencedCodeBlock, renderCode)
	reg.Register(ast.KindCodeBlock, renderCode)
	reg.Register(ast.KindHTMLBlock, renderNothing)
	reg.Register(ast.KindRawHTML, renderNothing)
	reg.Register(ast.KindImage, renderNothing)
	reg.Register(kindSection, renderSection)
	reg.Register(kindAlert, renderAlert)
	reg.Register(kindAlertTitle, renderAlertTitle)
	reg.Register(kindPair, wrapped("<div class=\"pair\">\n"))
	reg.Register(kindPart, renderPart)
	reg.Register(kindWide, wrapped("<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">\n"))
}

func renderNothing(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

// longest is the class of the longest sections, in thousands of bytes. The style
// sheet goes by it to leave room for a section that has not been laid out yet.
const longest = 12

func renderSection(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		s := n.(*sectionNode)
		fmt.Fprintf(w, "<section class=\"long-%d\" aria-labelledby=\"%s\">\n", min(1+s.length/1000, longest), escape(s.id))
	} else {
		io.WriteString(w, "</section>\n")
	}
	return ast.WalkContinue, nil
}

func renderHeading(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	h := n.(*ast.Heading)
	id := escape(headingID(h))
	if !entering {
		fmt.Fprintf(w, " <a class=\"anchor\" href=\"#%s\" aria-label=\"Link to this section\">#</a></h%d>\n", id, h.Level)
		return ast.WalkContinue, nil
	}
	fmt.Fprintf(w, "<h%d id=\"%s\">", h.Level, id)
	if s, ok := h.Parent().(*sectionNode); ok && s.FirstChild() == n {
		fmt.Fprintf(w, "<span class=\"secno\">§%d</span> ", s.number)
	}
	return ast.WalkContinue, nil
}

func renderAlert(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	a := n.(*alertNode)
	if !entering {
		fmt.Fprintf(w, "</%s>\n", a.element)
		return ast.WalkContinue, nil
	}
	fmt.Fprintf(w, "<%s class=\"%s\"", a.element, a.class)
	if a.element == "aside" {
		fmt.Fprintf(w, " role=\"note\" aria-label=\"%s\"", a.label)
	}
	io.WriteString(w, ">\n")
	if a.label != "" {
		fmt.Fprintf(w, "<p class=\"%s-label\">%s</p>\n", a.prefix, a.label)
	}
	return ast.WalkContinue, nil
}

func renderAlertTitle(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		io.WriteString(w, "</p>\n")
		return ast.WalkContinue, nil
	}
	class := "note-title"
	if a, ok := n.Parent().(*alertNode); ok {
		class = a.prefix + "-title"
	}
	fmt.Fprintf(w, "<p class=\"%s\">", class)
	return ast.WalkContinue, nil
}

// wrapped writes a <div> round what a node holds.
func wrapped(open string) renderer.NodeRendererFunc {
	return func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			io.WriteString(w, open)
		} else {
			io.WriteString(w, "</div>\n")
		}
		return ast.WalkContinue, nil
	}
}

func renderPart(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		fmt.Fprintf(w, "%s%d%s", mark, n.(*partNode).index, mark)
	}
	return ast.WalkContinue, nil
}

func renderCode(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := ""
	if f, ok := n.(*ast.FencedCodeBlock); ok {
		language = string(f.Language(source))
	}
	text := string(lines(n, source))
	io.WriteString(w, `<pre class="code chroma" dir="ltr"`)
	if wide(text) {
		io.WriteString(w, ` tabindex="0"`)
	}
	io.WriteString(w, "><code")
	if language != "" {
		fmt.Fprintf(w, " class=\"language-%s\"", html.EscapeString(language))
	}
	code := highlight(language, text)
	if language == sessionFence {
		code = transcript(text)
	}
	fmt.Fprintf(w, ">%s</code></pre>\n", code)
	return ast.WalkSkipChildren, nil
}

// wide tells whether code may be wider than a small screen.
func wide(text string) bool {
	for line := range strings.Lines(text) {
		columns := 0
		for _, r := range line {
			switch width.LookupRune(r).Kind() {
			case width.EastAsianWide, width.EastAsianFullwidth:
				columns += 2
			default:
				columns++
			}
		}
		if columns > 32 {
			return true
		}
	}
	return false
}

// highlight colours code by classes. Its text stays as it is, byte for byte.
func highlight(language, text string) HTML {
	plain := HTML(html.EscapeString(text))
	if language == "" {
		return plain
	}
	lexer := lexers.Get(language)
	if lexer == nil {
		return plain
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, text)
	if err != nil {
		return plain
	}
	var b, seen strings.Builder
	for token := tokens(); token != chroma.EOF; token = tokens() {
		seen.WriteString(token.Value)
		class := ""
		for t := token.Type; t != 0 && class == ""; t = t.Parent() {
			class = chroma.StandardTypes[t]
		}
		if class == "" {
			b.WriteString(html.EscapeString(token.Value))
		} else {
			fmt.Fprintf(&b, "<span class=\"%s\">%s</span>", class, html.EscapeString(token.Value))
		}
	}
	if seen.String() != text { // a lexer that tidies up
		return plain
	}
	return HTML(b.String())
}
