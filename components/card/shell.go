package card

import (
	"strconv"
	"strings"
	"time"

	"lockstep/figures"
	"lockstep/sandbox"
)

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
