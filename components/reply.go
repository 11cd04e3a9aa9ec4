package components

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// printReply writes a reply as valkey-cli prints it.
func printReply(v sandbox.Value) string {
	switch v := v.(type) {
	case nil:
		return "(nil)"
	case sandbox.Error:
		return "(error) " + string(v)
	case int64:
		return "(integer) " + strconv.FormatInt(v, 10)
	case string:
		// A status reply comes without quotes. The client library gives both
		// kinds as text, so they are told apart by the words that servers use.
		switch v {
		case "OK", "QUEUED", "PONG":
			return v
		}
		return strconv.Quote(v)
	case []any:
		return strings.TrimSuffix(printArray(v, ""), "\n")
	}
	return fmt.Sprint(v)
}

func printArray(items []any, indent string) string {
	if len(items) == 0 {
		return "(empty array)\n"
	}
	var b strings.Builder
	width := len(strconv.Itoa(len(items)))
	for i, item := range items {
		head := fmt.Sprintf("%*d) ", width, i+1)
		if i > 0 {
			b.WriteString(indent)
		}
		b.WriteString(head)
		if inner, ok := item.([]any); ok {
			b.WriteString(printArray(inner, indent+strings.Repeat(" ", len(head))))
			continue
		}
		b.WriteString(printReply(item) + "\n")
	}
	return b.String()
}

// shortReply is a reply that fits on a wire of the drawing.
func shortReply(v sandbox.Value) string {
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

// shortCommand is a command that fits on a wire: its first word, or the name of
// the script that it runs.
func shortCommand(line string) string {
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

// ms writes microseconds as milliseconds, to a hundredth while that says something.
func ms(us int64) string {
	switch {
	case us < 10_000:
		return fmt.Sprintf("%.2f", float64(us)/1000)
	case us < 100_000:
		return fmt.Sprintf("%.1f", float64(us)/1000)
	}
	return group((us + 500) / 1000)
}

// group writes a number with its thousands apart.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes a number of things: "1 command", "6 commands".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return group(int64(n)) + " " + thing + "s"
}

// lease says how long a key has still to live.
func lease(ttl int64) string {
	switch {
	case ttl == -1:
		return "no expiry"
	case ttl < 0:
		return "no key"
	}
	return group(ttl) + " ms left"
}

// did is happened for a table that names the actor in a column of its own.
func did(f *figures.Figure, e figures.Entry) string {
	if e.Actor == "" {
		return happened(f, e)
	}
	return strings.TrimPrefix(happened(f, e), f.Label(e.Actor)+" ")
}

// happened says what happened where no command was sent.
func happened(f *figures.Figure, e figures.Entry) string {
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

// shellLines writes a run as commands for a shell, to be tried on a server of
// the reader's own.
func shellLines(r *figures.Result) string {
	var b strings.Builder
	for _, e := range r.Trace {
		switch {
		case e.Command == "":
			b.WriteString(shellEvent(e))
		case e.Target == "sql":
			b.WriteString("# in SQL: " + strings.Join(strings.Fields(e.Command), " "))
		case e.Target == "all":
			b.WriteString(shellCommand(e.Command) + " # at every server")
		case e.Target != "":
			b.WriteString(shellCommand(e.Command) + " # at " + e.Target)
		default:
			b.WriteString(shellCommand(e.Command))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// shellCommand writes one command as a call of valkey-cli. A script of the
// course is given by its file.
func shellCommand(line string) string {
	args, err := sandbox.Parse(line)
	if err != nil || len(args) == 0 {
		return "# " + line
	}
	if strings.EqualFold(args[0], "EVAL") && len(args) > 2 && strings.HasSuffix(args[1], ".lua") {
		if keys, err := strconv.Atoi(args[2]); err == nil && keys >= 0 && 3+keys <= len(args) {
			words := []string{"valkey-cli --eval lua/" + args[1]}
			words = append(words, shellWords(args[3:3+keys])...)
			words = append(words, ",")
			words = append(words, shellWords(args[3+keys:])...)
			return strings.Join(words, " ")
		}
	}
	return strings.Join(append([]string{"valkey-cli"}, shellWords(args)...), " ")
}

func shellEvent(e figures.Entry) string {
	kind, rest, _ := strings.Cut(e.Event, " ")
	switch kind {
	case "lapse":
		return `while [ "$(valkey-cli EXISTS ` + shellWord(rest) + `)" = 1 ]; do sleep 0.01; done`
	case "wait":
		if d, err := time.ParseDuration(rest); err == nil {
			return "sleep " + strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
		}
	}
	return "# " + e.Event
}

func shellWords(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = shellWord(a)
	}
	return out
}

// shellWord quotes a word where a shell would read more into it.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:/@%+=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
