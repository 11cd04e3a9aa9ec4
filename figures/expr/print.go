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

// A Value is what an author wrote for a reply: nil, or text that is compared
// with the reply as it prints, or a list of them.
type Promise struct {
	Nil    bool
	Text   string
	List   []Promise
	IsList bool
}

// matches tells whether a reply is what an author promised.
func (want Promise) Matches(reply any) bool {
	switch {
	case want.Nil:
		return reply == nil
	case want.IsList:
		items, ok := reply.([]any)
		return ok && slices.EqualFunc(want.List, items, Promise.Matches)
	}
	if e, ok := reply.(sandbox.Error); ok {
		return string(e) == want.Text || e.Code() == want.Text
	}
	_, list := reply.([]any)
	return reply != nil && !list && Print(reply) == want.Text
}

// String writes a promised value as a text shows it.
func (want Promise) String() string {
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
