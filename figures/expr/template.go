package expr

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// A Template is text with expressions between {{ and }}.
type Template struct {
	Source string
	parts  []part
}

type part struct {
	text   string
	expr   *Expr // nil: text
	varies bool  // written {{~ expr }}
}

var braces = regexp.MustCompile(`\{\{(~?)\s*((?s:.*?))\s*\}\}`)

// ParseTemplate reads a text with expressions in it.
func ParseTemplate(source string, bound []string) (Template, error) {
	t := Template{Source: source}
	rest := 0
	for _, at := range braces.FindAllStringSubmatchIndex(source, -1) {
		if at[0] > rest {
			t.parts = append(t.parts, part{text: source[rest:at[0]]})
		}
		e, err := Compile(source[at[4]:at[5]], bound)
		if err != nil {
			var bad *exprError
			if errors.As(err, &bad) {
				bad.column += at[4]
			}
			return t, err
		}
		for i := range e.Names {
			e.Names[i].Column += at[4]
		}
		t.parts = append(t.parts, part{expr: e, varies: at[3] > at[2]})
		rest = at[1]
	}
	if i := strings.Index(source[rest:], "{{"); i >= 0 {
		return t, &exprError{column: rest + i + 1, message: "{{ is never closed by }}"}
	}
	if rest < len(source) {
		t.parts = append(t.parts, part{text: source[rest:]})
	}
	return t, nil
}

// plain tells whether the text has no expressions.
func (t Template) plain() bool {
	return !slices.ContainsFunc(t.parts, func(p part) bool { return p.expr != nil })
}

// Names are those that the text's expressions read.
func (t Template) Names() []Name {
	var all []Name
	for _, p := range t.parts {
		if p.expr != nil {
			all = append(all, p.expr.Names...)
		}
	}
	return all
}

// Render fills the text in. The pattern is a regular expression in which what
// may vary from run to run matches anything.
func (t Template) Render(env map[string]any) (text, pattern string) {
	if len(t.parts) == 1 && t.parts[0].expr == nil {
		return t.parts[0].text, "^" + regexp.QuoteMeta(t.parts[0].text) + "$"
	}
	var b, re strings.Builder
	re.WriteString("^(?s:")
	for _, p := range t.parts {
		s := p.text
		if p.expr != nil {
			v, err := p.expr.eval(env)
			if err != nil {
				v = nil
			}
			s = Print(v)
		}
		b.WriteString(s)
		if p.varies {
			re.WriteString(".+?")
		} else {
			re.WriteString(regexp.QuoteMeta(s))
		}
	}
	re.WriteString(")$")
	return b.String(), re.String()
}

// Fill gives the text with its expressions filled in.
func (t Template) Fill(env map[string]any) string {
	if len(t.parts) == 1 && t.parts[0].expr == nil {
		return t.parts[0].text
	}
	var b strings.Builder
	for _, p := range t.parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		if v, err := p.expr.eval(env); err == nil {
			b.WriteString(Print(v))
		}
	}
	return b.String()
}

// sketch is a text with its expressions replaced by 0.
func (t Template) sketch() string {
	var b strings.Builder
	for _, part := range t.parts {
		if part.expr != nil {
			b.WriteByte('0')
		} else {
			b.WriteString(part.text)
		}
	}
	return b.String()
}

// Plain is a text that holds no expressions, whatever stands in it.
func Plain(text string) Template {
	return Template{Source: text, parts: []part{{text: text}}}
}
