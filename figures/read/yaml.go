package read

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v4"

	"lockstep/figures"
	"lockstep/figures/expr"
)

// A reader walks the nodes of one YAML text and collects what is wrong with it.
// Nodes, not decoded values: a scalar stays as its author wrote it (0123 is not
// 83), and every fault knows its line.
type reader struct {
	file   string
	offset int      // added to a node's line to give the line in the file
	bound  []string // names that the author gives to replies and observations
	faults figures.Faults
}

func (r *reader) fault(line int, hint, format string, args ...any) {
	r.faults = append(r.faults, figures.Fault{File: r.file, Line: line + r.offset, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// document parses text and gives its top node, nil where there is none.
func (r *reader) document(text []byte) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		r.faults = append(r.faults, YAMLFault(err, text, r.file, r.offset+1))
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	return doc.Content[0]
}

var yamlMessage = regexp.MustCompile(`(?s)line (\d+):(?: column \d+:)? (.*)`)

// YAMLFault turns the YAML library's error into a fault of the file in which
// the text starts at line firstLine.
func YAMLFault(err error, text []byte, file string, firstLine int) figures.Fault {
	f := figures.Fault{File: file, Line: firstLine, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	m := yamlMessage.FindStringSubmatch(err.Error())
	if m == nil {
		return f
	}
	line, _ := strconv.Atoi(m[1])
	lines := strings.Split(string(text), "\n")
	f.Message = m[2]
	line = max(min(line, len(lines)), 1)
	quoted := func() string { return strings.TrimSpace(lines[line-1]) }
	switch {
	case strings.Contains(f.Message, "mapping values are not allowed"), strings.Contains(f.Message, "could not find expected ':'"):
		// The library notices a key without its colon at the next line.
		if line > 1 && !strings.Contains(lines[line-2], ":") && strings.TrimSpace(lines[line-2]) != "" {
			line--
			f.Message = fmt.Sprintf("%q is not a key with a value", quoted())
			f.Hint = "write it as `key: value`"
			break
		}
		f.Message = fmt.Sprintf("%q holds a second colon", quoted())
		f.Hint = "put the value in quotes where it holds `: `"
	case strings.Contains(f.Message, "cannot start any token"), strings.Contains(f.Message, "tab character"):
		f.Message = fmt.Sprintf("%q starts with a character that YAML doesn't take there", quoted())
		f.Hint = "indent by blanks, not by tabs, and put a value that starts with ` @ % or a tab in quotes"
	case strings.Contains(lines[line-1], "{{") && strings.Contains(f.Message, "did not find"):
		f.Message = fmt.Sprintf("%q starts with a brace, which YAML reads as a map", quoted())
		f.Hint = "put a value that starts with {{ in quotes"
	default:
		f.Message = fmt.Sprintf("%s, at %q", f.Message, quoted())
	}
	f.Line = firstLine + line - 1
	return f
}

// follow gives the node that an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// findNames collects the names that a figure binds, before any expression in
// it is read.
func (r *reader) findNames(n *yaml.Node) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			switch key := n.Content[i-1].Value; {
			case key == "as":
				r.bound = append(r.bound, child.Value)
			case (key == "observe" || key == "loads") && child.Kind == yaml.MappingNode:
				for j := 0; j < len(child.Content); j += 2 {
					name, _, _ := strings.Cut(child.Content[j].Value, "@")
					r.bound = append(r.bound, name)
				}
			}
		}
		r.findNames(child)
	}
}

// An entry is one key of a map with its value.
type entry struct {
	key   string
	line  int // of the key
	value *yaml.Node
}

// entries gives a map's keys in order. A key twice is a fault, and so is
// anything that isn't a map.
func (r *reader) entries(n *yaml.Node, what string) []entry {
	n = follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		line := 1
		if n != nil {
			line = n.Line
		}
		r.fault(line, "write `key: value` lines", "%s is %s, not a map", what, kindOf(n))
		return nil
	}
	var all []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			r.fault(key.Line, "write the keys out", "%s uses <<, which figures don't know", what)
			continue
		}
		if j := slices.IndexFunc(all, func(e entry) bool { return e.key == key.Value }); j >= 0 {
			r.fault(key.Line, fmt.Sprintf("it stands first in line %d", all[j].line+r.offset), "%s has the key %q twice", what, key.Value)
			continue
		}
		all = append(all, entry{key.Value, key.Line, value})
	}
	return all
}

// items gives a list's elements.
func (r *reader) items(n *yaml.Node, what string) []*yaml.Node {
	f := follow(n)
	if f == nil || f.Kind != yaml.SequenceNode {
		r.fault(n.Line, "start each element with `- `", "%s is %s, not a list", what, kindOf(f))
		return nil
	}
	return f.Content
}

// text gives a scalar as it was written.
func (r *reader) text(n *yaml.Node, what string) string {
	f := follow(n)
	if f == nil || f.Kind != yaml.ScalarNode || f.Tag == "!!null" && f.Value == "" {
		hint := "write it on the key's own line"
		if f != nil && f.Kind == yaml.MappingNode {
			hint = "put a text that starts with { or holds `: ` in quotes"
		}
		r.fault(n.Line, hint, "%s is %s, not a text", what, kindOf(f))
		return ""
	}
	return f.Value
}

// expression compiles a scalar.
func (r *reader) expression(n *yaml.Node, what string) *expr.Expr {
	source := r.text(n, what)
	if source == "" {
		return nil
	}
	e, err := expr.Compile(source, r.bound)
	if err != nil {
		r.fault(follow(n).Line, r.cutOff(n), "%s: %v in %q", what, err, source)
		return nil
	}
	if hint := r.cutOff(n); hint != "" {
		r.fault(follow(n).Line, hint, "%s is cut off by a comment after %q", what, source)
	}
	return e
}

// cutOff hints at ` #`, which starts a comment in the middle of an expression.
func (r *reader) cutOff(n *yaml.Node) string {
	n = follow(n)
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	open := strings.Count(n.Value, "(") != strings.Count(n.Value, ")") || strings.Count(n.Value, "{{") != strings.Count(n.Value, "}}")
	if n.LineComment != "" && !quoted && open {
		return "in YAML ` #` starts a comment: put the whole expression in quotes"
	}
	return ""
}

// template reads a scalar that may hold expressions.
func (r *reader) template(n *yaml.Node, what string) expr.Template {
	source := r.text(n, what)
	t, err := expr.ParseTemplate(source, r.bound)
	if err != nil {
		r.fault(follow(n).Line, r.cutOff(n), "%s: %v in %q", what, err, source)
	}
	return t
}

// unknown says that a key isn't known, and which known one is nearest.
func (r *reader) unknown(e entry, what string, known ...string) {
	r.fault(e.line, Nearest(e.key, known), "unknown key %q in %s", e.key, what)
}

// Nearest words a hint: the known name closest to the one found, or, where none
// is close, all of them.
func Nearest(found string, known []string) string {
	best, distance := "", len(found)
	apart := func(k string) int { return max(len(k)-len(found), len(found)-len(k)) }
	for _, k := range known {
		d := levenshtein.ComputeDistance(strings.ToLower(found), strings.ToLower(k))
		if d < distance || d == distance && best != "" && apart(k) < apart(best) {
			best, distance = k, d
		}
	}
	if best != "" && distance <= max(2, len(found)/3) {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return ""
	}
	return "known are " + strings.Join(known, ", ")
}

func kindOf(n *yaml.Node) string {
	switch {
	case n == nil, n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "empty"
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("the text %q", n.Value)
}
