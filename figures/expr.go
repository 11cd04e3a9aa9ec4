package figures

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"lockstep/sandbox"
)

// maxNodes bounds the size of an expression; with the library's own memory
// budget it bounds what evaluating one can cost.
const maxNodes = 500

// An Expr is a compiled expression. It has no side effects.
type Expr struct {
	Source  string
	program *vm.Program
	names   []name
}

// A name that an expression reads: "released", or "A.got".
type name struct {
	root, member string
	column       int // from 1
}

// An exprError is a fault in an expression, with the column at which it starts.
type exprError struct {
	column  int
	message string
}

func (e *exprError) Error() string { return fmt.Sprintf("column %d: %s", e.column, e.message) }

// compile reads an expression. The names that it uses are kept, so that a name
// which nothing binds can be found before anything runs.
//
// The library has functions of its own, such as first; a name in bound is the
// author's, and hides the function of that name.
func compile(source string, bound []string) (*Expr, error) {
	seen := &nameVisitor{}
	options := []expr.Option{
		expr.AllowUndefinedVariables(),
		expr.MaxNodes(maxNodes),
		expr.Patch(seen),
		expr.DisableBuiltin("now"),
		expr.Function("code", func(args ...any) (any, error) { return code(args[0]), nil }, new(func(any) string)),
	}
	for _, name := range bound {
		options = append(options, expr.DisableBuiltin(name))
	}
	program, err := expr.Compile(source, options...)
	if err != nil {
		var at *file.Error
		if errors.As(err, &at) {
			message, _, _ := strings.Cut(at.Message, "\n")
			return nil, &exprError{column: at.Column + 1, message: message}
		}
		return nil, &exprError{column: 1, message: err.Error()}
	}
	return &Expr{Source: source, program: program, names: seen.names}, nil
}

// code is the first word of an error reply; of anything else it is "".
func code(v any) string {
	if e, ok := v.(sandbox.Error); ok {
		return e.Code()
	}
	return ""
}

// nameVisitor collects the names that an expression reads.
type nameVisitor struct {
	names []name
}

func (v *nameVisitor) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.MemberNode:
		root, ok := n.Node.(*ast.IdentifierNode)
		if !ok {
			return
		}
		if property, ok := n.Property.(*ast.StringNode); ok {
			// The visitor meets a member's root before the member: make it whole.
			for i := range v.names {
				if v.names[i].root == root.Value && v.names[i].member == "" && v.names[i].column == root.Location().From+1 {
					v.names[i].member = property.Value
				}
			}
		}
	case *ast.IdentifierNode:
		if n.Value == "code" { // the function
			return
		}
		seen := name{root: n.Value, column: n.Location().From + 1}
		if !slices.Contains(v.names, seen) {
			v.names = append(v.names, seen)
		}
	}
}

// eval gives the value of an expression. A name that isn't in env is nil.
func (e *Expr) eval(env map[string]any) (any, error) {
	return expr.Run(e.program, env)
}

// holds tells whether the expression is true. One that can't be judged, such as
// a comparison of nil with a number, doesn't hold.
func (e *Expr) holds(env map[string]any) bool {
	v, err := e.eval(env)
	return err == nil && v == true
}

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

// parseTemplate reads a text with expressions in it.
func parseTemplate(source string, bound []string) (Template, error) {
	t := Template{Source: source}
	rest := 0
	for _, at := range braces.FindAllStringSubmatchIndex(source, -1) {
		if at[0] > rest {
			t.parts = append(t.parts, part{text: source[rest:at[0]]})
		}
		e, err := compile(source[at[4]:at[5]], bound)
		if err != nil {
			var bad *exprError
			if errors.As(err, &bad) {
				bad.column += at[4]
			}
			return t, err
		}
		for i := range e.names {
			e.names[i].column += at[4]
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

// names are those that the text's expressions read.
func (t Template) names() []name {
	var all []name
	for _, p := range t.parts {
		if p.expr != nil {
			all = append(all, p.expr.names...)
		}
	}
	return all
}

// render fills the text in. The pattern is a regular expression in which what
// may vary from run to run matches anything.
func (t Template) render(env map[string]any) (text, pattern string) {
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

// fill gives the text with its expressions filled in.
func (t Template) fill(env map[string]any) string {
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

// Print writes a value as a text shows it: nil, 1, abc, [abc, nil].
func Print(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case string:
		return v
	case sandbox.Error:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = Print(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// matches tells whether a reply is what an author promised.
func (want Value) matches(reply any) bool {
	switch {
	case want.Nil:
		return reply == nil
	case want.IsList:
		items, ok := reply.([]any)
		return ok && slices.EqualFunc(want.List, items, Value.matches)
	}
	if e, ok := reply.(sandbox.Error); ok {
		return string(e) == want.Text || e.Code() == want.Text
	}
	_, list := reply.([]any)
	return reply != nil && !list && Print(reply) == want.Text
}

// String writes a promised value as a text shows it.
func (want Value) String() string {
	switch {
	case want.Nil:
		return "nil"
	case want.IsList:
		items := make([]string, len(want.List))
		for i, item := range want.List {
			items[i] = item.String()
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return want.Text
}

// A Command is a command line whose arguments may hold expressions.
type Command struct {
	Source string
	args   []Template
	line   Template
	sql    bool // a statement for the SQL store: it has no arguments
}

// placeholder stands for the i-th expression while a line is split into its
// arguments; expressions may hold blanks and quotes of their own.
func placeholder(i int) string { return string(rune(0xF0000 + i)) }

// parseCommand splits a command line as valkey-cli does.
func parseCommand(source string, bound []string) (Command, error) {
	c := Command{Source: source}
	line, err := parseTemplate(source, bound)
	if err != nil {
		return c, err
	}
	c.line = line
	var masked strings.Builder
	var exprs []part
	for _, p := range line.parts {
		if p.expr == nil {
			masked.WriteString(p.text)
			continue
		}
		masked.WriteString(placeholder(len(exprs)))
		exprs = append(exprs, p)
	}
	args, err := sandbox.Parse(masked.String())
	if err != nil {
		return c, err
	}
	for _, arg := range args {
		t := Template{Source: arg}
		var text strings.Builder
		for _, r := range arg {
			if i := int(r) - 0xF0000; i >= 0 && i < len(exprs) {
				if text.Len() > 0 {
					t.parts = append(t.parts, part{text: text.String()})
					text.Reset()
				}
				t.parts = append(t.parts, exprs[i])
				continue
			}
			text.WriteRune(r)
		}
		if text.Len() > 0 || len(t.parts) == 0 {
			t.parts = append(t.parts, part{text: text.String()})
		}
		c.args = append(c.args, t)
	}
	return c, nil
}

// sketch is the command's arguments with expressions left as they stand, for
// the checks that can be made before anything runs.
func (c Command) sketch() []string {
	args := make([]string, len(c.args))
	for i, a := range c.args {
		if a.plain() {
			args[i] = a.fill(nil)
		} else {
			args[i] = "{{}}"
		}
	}
	return args
}

// fill gives the arguments, and the line as the reader sees it.
func (c Command) fill(env map[string]any) (args []string, line string) {
	args = make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = a.fill(env)
	}
	if c.line.plain() {
		return args, c.Source
	}
	return args, quoteLine(args)
}

// words are a step's command as it is sent, and its text. SQL goes as it stands.
func (s Step) words(env map[string]any) (args []string, line string) {
	if s.Target == "sql" {
		return nil, s.Command.line.fill(env)
	}
	return s.Command.fill(env)
}

// quoteLine writes arguments so that valkey-cli would read them back.
func quoteLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\r\n\"'\\") {
			a = strconv.Quote(a)
		}
		out[i] = a
	}
	return strings.Join(out, " ")
}
