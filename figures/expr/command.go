package expr

import (
	"strconv"
	"strings"

	"lockstep/sandbox"
)

// A Command is a command line whose arguments may hold expressions.
type Command struct {
	Source string
	args   []Template
	line   Template
	sql    bool // a statement for the SQL store: one argument, sent as it stands
}

// ParseStatement reads an SQL statement with expressions in it.
func ParseStatement(source string, bound []string) (Command, error) {
	line, err := ParseTemplate(source, bound)
	return Command{Source: source, line: line, sql: true}, err
}

// Names are those that the command's expressions read.
func (c Command) Names() []Name { return c.line.Names() }

// placeholder stands for the i-th expression while a line is split into its
// arguments; expressions may hold blanks and quotes of their own.
func placeholder(i int) string { return string(rune(0xF0000 + i)) }

// ParseCommand splits a command line as valkey-cli does.
func ParseCommand(source string, bound []string) (Command, error) {
	c := Command{Source: source}
	line, err := ParseTemplate(source, bound)
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

// Sketch is the command's arguments with expressions left as they stand, for
// the checks that can be made before anything runs.
func (c Command) Sketch() []string {
	if c.sql {
		return []string{c.line.sketch()}
	}
	args := make([]string, len(c.args))
	for i, a := range c.args {
		if a.plain() {
			args[i] = a.Fill(nil)
		} else {
			args[i] = "{{}}"
		}
	}
	return args
}

// Fill gives the arguments, and the line as the reader sees it. A statement has
// no arguments.
func (c Command) Fill(env map[string]any) (args []string, line string) {
	if c.sql {
		return nil, c.line.Fill(env)
	}
	args = make([]string, len(c.args))
	for i, a := range c.args {
		args[i] = a.Fill(env)
	}
	if c.line.plain() {
		return args, c.Source
	}
	return args, quoteLine(args)
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
