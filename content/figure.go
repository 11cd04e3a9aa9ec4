package content

import (
	"bytes"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark/ast"

	"lockstep/figures/read"
)

// The info words of fences that are more than code.
const (
	figureFence  = "figure"
	scriptFence  = "script"
	divesFence   = "dives"
	sessionFence = "session"
)

// A fence is the text between two lines of backquotes.
type fence struct {
	node *ast.FencedCodeBlock
	word string // the first after the opening backquotes
	text []byte // without the indent of a list or the marks of a quote
	line int    // of the opening backquotes
	body int    // of the first line of text
}

func (d *draft) fence(n *ast.FencedCodeBlock) fence {
	f := fence{node: n, word: string(n.Language(d.source)), line: d.line(max(n.Pos(), 0))}
	f.body = f.line + 1
	if n.Lines().Len() > 0 {
		f.body = d.line(n.Lines().At(0).Start)
	}
	f.text = lines(n, d.source)
	return f
}

// lines gives the text of a block of code.
func lines(n ast.Node, source []byte) []byte {
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		b.Write(segment.Value(source))
	}
	return b.Bytes()
}

// fences reads the fences of the body. Those that stand for something become
// the places of parts; the others stay code.
func (l *loader) fences(d *draft) {
	d.anchors = map[string]int{}
	first := map[string]int{} // the lines of figures by id
	for _, n := range nodes[*ast.FencedCodeBlock](d.doc) {
		f := d.fence(n)
		d.closed(f)
		switch f.word {
		case figureFence:
			figure, faults := read.Figure(f.text, d.page.File, f.body, l.scripts)
			d.page.Faults = append(d.page.Faults, faults...)
			if figure == nil || len(faults) > 0 {
				d.figureFailed = true
			}
			if figure == nil {
				continue
			}
			line := figure.Line
			if line == 0 {
				line = f.line
			}
			if at, twice := first[figure.ID]; twice && figure.ID != "" {
				d.fault(line, fmt.Sprintf("the other stands in line %d", at), "the page has two figures %q", figure.ID)
				continue
			}
			if reserved[figure.ID] {
				d.fault(line, "choose another", "the site itself uses the anchor %q", figure.ID)
			}
			first[figure.ID] = line
			d.anchors[figure.ID] = line
			d.page.Figures = append(d.page.Figures, figure)
			d.put(n, Part{Figure: figure, Number: len(d.page.Figures)})
		case scriptFence:
			l.listings(d, f)
		case divesFence:
			if len(bytes.TrimSpace(f.text)) > 0 {
				d.fault(f.body, "leave it empty: the cards come from the pages below this one", "a dives block holds text")
			}
			d.dives = append(d.dives, cards{len(d.parts), f.line})
			d.put(n, Part{})
		case sessionFence:
			session, faults := read.Session(f.text, d.page.File, f.body, l.scripts)
			d.page.Faults = append(d.page.Faults, faults...)
			if session != nil {
				d.page.Sessions = append(d.page.Sessions, session)
			}
		default:
			d.misspelt(f)
		}
	}
}

// transcript colours a session: chroma's classes for a prompt, an input and an
// output.
func transcript(text string) HTML {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.TrimSuffix(line, "\n"), line[len(strings.TrimSuffix(line, "\n")):]
		if m := prompt.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(&b, `<span class="gp">%s</span>%s`, html.EscapeString(m[1]), html.EscapeString(m[2]))
		} else if strings.HasPrefix(line, "#") {
			fmt.Fprintf(&b, `<span class="c1">%s</span>`, html.EscapeString(line))
		} else {
			fmt.Fprintf(&b, `<span class="go">%s</span>`, html.EscapeString(line))
		}
		b.WriteString(end)
	}
	return HTML(b.String())
}

var prompt = regexp.MustCompile(`^((?:[A-Z][A-Za-z0-9_]*)?> )(.*)$`)

// put makes a fence the place of a part.
func (d *draft) put(n ast.Node, p Part) {
	replace(n, &partNode{block{kind: kindPart}, len(d.parts)})
	d.parts = append(d.parts, p)
}

// listings puts each script that a fence names.
func (l *loader) listings(d *draft, f fence) {
	known := slices.Sorted(maps.Keys(l.scripts))
	parent, named := f.node.Parent(), false
	for i, line := range strings.Split(string(f.text), "\n") {
		name := strings.TrimSpace(line)
		if name == "" {
			continue
		}
		named = true
		script, ok := l.scripts[name]
		if !ok {
			d.fault(f.body+i, read.Nearest(name, known), "there is no script %q", name)
			continue
		}
		parent.InsertBefore(parent, f.node, &partNode{block{kind: kindPart}, len(d.parts)})
		d.parts = append(d.parts, Part{Script: &script, Code: highlight("lua", script.Source)})
	}
	if !named {
		d.fault(f.line, "name one script a line, like release.lua", "a script block names no script")
	}
	parent.RemoveChild(parent, f.node)
}

// closed checks that a fence ends where its author thinks it does.
func (d *draft) closed(f fence) {
	opening := bytes.TrimLeft(d.rawLine(f.line), " \t>-+*0123456789.)")
	if len(opening) == 0 {
		return
	}
	mark := opening[:len(opening)-len(bytes.TrimLeft(opening, string(opening[:1])))]
	closing := bytes.TrimLeft(d.rawLine(f.body+f.node.Lines().Len()), " \t>")
	if !bytes.HasPrefix(closing, mark) || len(bytes.Trim(closing, string(mark[:1])+" \t")) > 0 {
		d.fault(f.line, "end it with "+string(mark)+" on a line of its own, as far to the right", "this block of code is never closed")
	}
}

// misspelt tells a slip in one of our words from the name of a language.
func (d *draft) misspelt(f fence) {
	for _, word := range []string{figureFence, scriptFence, divesFence, sessionFence} {
		if levenshtein.ComputeDistance(strings.ToLower(f.word), word) <= 2 && lexers.Get(f.word) == nil {
			d.fault(f.line, fmt.Sprintf("did you mean %q?", word), "unknown kind of block %q", f.word)
			return
		}
	}
}
