package content

// Blocks that authors write as alerts, `> [!KIND] title`, and what they become:
//
//	NOTE       <aside class="note" role="note">
//	VALKEY     <aside class="note note-valkey" role="note">
//	             with <p class="note-label"> and, where there is a title, <p class="note-title">
//	TAKEAWAY   <div class="take">, with <p class="take-title">
//	PATTERN    <div class="card card-pattern">
//	ECHOMQ     <div class="card card-echomq">
//	USE        <div class="card card-use">
//	AVOID      <div class="card card-avoid">
//	MISTAKE    <div class="card card-mistake">
//	DOOR       <div class="card card-door">
//	             with <p class="card-label"> and <p class="card-title">
//
// PATTERN next to ECHOMQ and USE next to AVOID stand in one <div class="pair">.

import (
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"lockstep/figures/read"
)

// An alertKind is one of the words after `> [!`.
type alertKind struct {
	word    string
	label   string // shown over the text
	element string
	class   string
	prefix  string // of the classes of its label and title
	pair    string // the kind that it stands next to
}

func alertKinds() []alertKind {
	return []alertKind{
		{word: "NOTE", label: "Note", element: "aside", class: "note", prefix: "note"},
		{word: "VALKEY", label: "Note on Valkey", element: "aside", class: "note note-valkey", prefix: "note"},
		{word: "TAKEAWAY", element: "div", class: "take", prefix: "take"},
		{word: "PATTERN", label: "The pattern", element: "div", class: "card card-pattern", prefix: "card", pair: "ECHOMQ"},
		{word: "ECHOMQ", label: "In EchoMQ", element: "div", class: "card card-echomq", prefix: "card", pair: "PATTERN"},
		{word: "USE", label: "When to use it", element: "div", class: "card card-use", prefix: "card", pair: "AVOID"},
		{word: "AVOID", label: "When not to", element: "div", class: "card card-avoid", prefix: "card", pair: "USE"},
		{word: "MISTAKE", label: "A common mistake", element: "div", class: "card card-mistake", prefix: "card"},
		{word: "DOOR", label: "Door", element: "div", class: "card card-door", prefix: "card"},
	}
}

// An alertNode is a quote that has turned out to be an alert.
type alertNode struct {
	block
	alertKind
}

var alertLine = regexp.MustCompile(`^[ \t]*\[!([A-Za-z_-]+)\](?:[ \t]+(.*?))?[ \t]*\n?$`)

// An alertMark is a quote whose first line names a kind.
type alertMark struct {
	quote  ast.Node
	word   string
	offset int
}

var alertMarks = parser.NewContextKey()

// alertMarker takes the line `[!KIND] title` out of a quote before goldmark
// reads it as prose. The title becomes a block of its own, so that its Markdown
// is read.
type alertMarker struct{}

func (alertMarker) Transform(p *ast.Paragraph, reader text.Reader, pc parser.Context) {
	quote := p.Parent()
	if quote.Kind() != ast.KindBlockquote || p.PreviousSibling() != nil {
		return
	}
	line := p.Lines().At(0)
	m := alertLine.FindSubmatchIndex(line.Value(reader.Source()))
	if m == nil {
		return
	}
	at := func(i int) int { return line.Start - line.Padding + i }
	word := string(reader.Source()[at(m[2]):at(m[3])])
	marks, _ := pc.Get(alertMarks).([]alertMark)
	pc.Set(alertMarks, append(marks, alertMark{quote, strings.ToUpper(word), line.Start}))
	if m[4] >= 0 && m[4] < m[5] {
		title := &block{kind: kindAlertTitle}
		title.Lines().Append(text.NewSegment(at(m[4]), at(m[5])))
		quote.InsertBefore(quote, p, title)
	}
	if p.Lines().Len() == 1 {
		quote.RemoveChild(quote, p)
		return
	}
	p.Lines().SetSliced(1, p.Lines().Len())
}

// alerts replaces the marked quotes and pairs the cards.
func (d *draft) alerts(pc parser.Context) {
	marks, _ := pc.Get(alertMarks).([]alertMark)
	kinds := alertKinds()
	var words []string
	for _, k := range kinds {
		words = append(words, k.word)
	}
	for _, mark := range marks {
		line := d.line(mark.offset)
		found := false
		for _, k := range kinds {
			if k.word != mark.word {
				continue
			}
			found = true
			alert := &alertNode{block: block{kind: kindAlert}, alertKind: k}
			alert.SetPos(mark.offset)
			replace(mark.quote, alert)
			adopt(mark.quote, alert)
			if !alert.HasChildren() {
				d.fault(line, "go on with lines that start with >", "the block %s is empty", k.word)
			}
		}
		if !found {
			d.fault(line, read.Nearest(mark.word, words), "unknown kind of block %q", mark.word)
		}
	}
	for _, first := range nodes[*alertNode](d.doc) {
		second, ok := first.NextSibling().(*alertNode)
		if !ok || second.word != first.pair || first.Parent().Kind() == kindPair {
			continue
		}
		pair := &block{kind: kindPair}
		replace(first, pair)
		pair.AppendChild(pair, first)
		pair.AppendChild(pair, second)
	}
}
