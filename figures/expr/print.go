package expr

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/sandbox"
)

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
	case map[string]any:
		var items []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			items = append(items, name+" "+Print(v[name]))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// A Promise is what an author wrote for a reply: nil, or a text that is compared
// with the reply as it prints, or a []any of them.
type Promise struct{ Value any }

// Matches tells whether a reply is what an author promised.
func (p Promise) Matches(reply any) bool {
	switch want := p.Value.(type) {
	case nil:
		return reply == nil
	case []any:
		items, ok := reply.([]any)
		return ok && slices.EqualFunc(want, items, func(want, item any) bool { return Promise{want}.Matches(item) })
	}
	if e, ok := reply.(sandbox.Error); ok {
		return string(e) == p.Value || e.Code() == p.Value
	}
	_, list := reply.([]any)
	return reply != nil && !list && Print(reply) == p.Value
}

// String writes a promised value as a text shows it.
func (p Promise) String() string { return Print(p.Value) }
