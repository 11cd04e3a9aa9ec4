package figures

import (
	"maps"
	"slices"
	"strings"

	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// Judge finds the first rule that holds. Where none does it says so, and shows
// the replies: a verdict is never guessed.
func Judge(result *Result, path *Path, env map[string]any) {
	for _, rule := range path.Verdicts {
		if rule.When == nil || rule.When.Holds(env) {
			result.Status = rule.Status
			result.Verdict, result.Pattern = rule.Text.Render(env)
			return
		}
	}
	result.Verdict = "No rule of this figure fits what the server answered"
	if len(env) > 0 {
		result.Verdict += ": " + strings.Join(shown("", env), ", ")
	}
	result.Verdict += "."
}

// shown writes what rules can see, each value under the name by which they read it.
func shown(prefix string, env map[string]any) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if members, ok := env[name].(map[string]any); ok {
			all = append(all, shown(prefix+name+".", members)...)
			continue
		}
		all = append(all, prefix+name+" = "+expr.Print(env[name]))
	}
	return all
}

// KeyOf reads the reply of a peek.
func KeyOf(v sandbox.Value) KeyState {
	parts, ok := v.([]any)
	if !ok || len(parts) != 3 {
		return KeyState{Type: "none", TTL: -2}
	}
	s := KeyState{Type: expr.Print(parts[0])}
	s.TTL, _ = parts[2].(int64)
	switch value := parts[1].(type) {
	case []any:
		s.Text = listText(s.Type, value)
	case nil:
	default:
		s.Text = expr.Print(value)
	}
	return s
}

// listText puts a collection on one line: "fence 34, value x".
func listText(kind string, items []any) string {
	step := 1
	if kind == "hash" || kind == "zset" {
		step = 2
	}
	var parts []string
	for i := 0; i+step <= len(items); i += step {
		part := expr.Print(items[i])
		if step == 2 {
			part += " " + expr.Print(items[i+1])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// Failed tells whether a reply is nil, 0 or an error.
func Failed(reply sandbox.Value) bool {
	_, isError := reply.(sandbox.Error)
	return reply == nil || reply == int64(0) || isError
}
