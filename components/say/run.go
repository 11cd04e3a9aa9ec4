package say

import (
	"strconv"
	"strings"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// Reply is a reply that fits on a wire of the drawing.
func Reply(v sandbox.Value) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case sandbox.Error:
		return v.Code()
	case []any:
		if len(v) == 0 {
			return "empty"
		}
	}
	return expr.Print(v)
}

// Words is a value in a reader's words: a list is its items, an empty one is none.
func Words(v any) string {
	list, ok := v.([]any)
	switch {
	case !ok:
		return Reply(v)
	case len(list) == 0:
		return "none"
	}
	items := make([]string, len(list))
	for i, item := range list {
		items[i] = Words(item)
	}
	if last := len(items) - 1; last > 0 {
		return strings.Join(items[:last], ", ") + " and " + items[last]
	}
	return items[0]
}

// Command is a command that fits on a wire: its first word, or the name of
// the script that it runs.
func Command(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	name := strings.ToUpper(words[0])
	if (name == "EVAL" || name == "EVAL_RO") && len(words) > 1 && strings.HasSuffix(words[1], ".lua") {
		return words[1]
	}
	return name
}

// Written is a step's command as its author wrote it; empty for other steps.
func Written(s figures.Step) string {
	send, _ := s.Does.(figures.Send)
	return send.Command.Source
}

// Key is what a key holds, in one line.
func Key(k figures.KeyState) string {
	switch {
	case k.Type == "none" || k.Type == "":
		return "no key"
	case k.Type == "string":
		return strconv.Quote(k.Text)
	}
	return k.Text
}

// Did is Happened for a table that names the actor in a column of its own.
func Did(f *figures.Figure, e figures.Entry) string {
	if e.Actor == "" {
		return Happened(f, e)
	}
	return strings.TrimPrefix(Happened(f, e), f.Label(e.Actor)+" ")
}

// Happened says what happened where no command was sent.
func Happened(f *figures.Figure, e figures.Entry) string {
	kind, rest, _ := strings.Cut(e.Event, " ")
	switch kind {
	case "lapse":
		return "the lease of " + rest + " lapsed"
	case "wait":
		return "waited " + spaced(rest)
	case "crash":
		return f.Label(rest) + " crashed: its connection was cut"
	case "stop":
		return f.Label(rest) + " was paused"
	case "resume":
		return f.Label(rest) + " went on"
	case "work", "work:":
		works := strings.TrimSuffix("works: "+rest, ": ")
		if e.Actor != "" {
			works = f.Label(e.Actor) + " " + works
		}
		return works
	case "cut":
		return "replication to " + rest + " was cut"
	case "sync":
		return rest + " caught up"
	case "kill":
		return rest + " was killed"
	case "promote":
		return rest + " became the primary"
	case "down":
		return rest + " went down"
	case "up":
		return rest + " came up again"
	}
	return e.Event
}

// spaced writes a duration with a blank before its unit: "20 ms".
func spaced(s string) string {
	d, err := time.ParseDuration(s)
	if err != nil {
		return s
	}
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + " ms"
}
