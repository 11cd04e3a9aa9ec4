package figures

import (
	"fmt"
	"regexp"
	"strings"

	"lockstep/lua"
	"lockstep/sandbox"
)

// A Session is a transcript in a dive: commands, and under each the reply as
// valkey-cli prints it. It runs in a database of its own when a dive is checked.
type Session struct {
	Text      string
	Exchanges []Exchange
	File      string
	Line      int
}

// An Exchange is one command of a session and its reply.
type Exchange struct {
	Command Command
	Reply   string // "..." stands for what may differ from run to run
	Line    int
}

var prompt = regexp.MustCompile(`^(?:[A-Z][A-Za-z0-9_]*)?> (.*)$`)

// ParseSession reads a transcript that starts at line firstLine of file. A
// line "> COMMAND" or "A> COMMAND" is a command, "# …" a remark, and all other
// lines are replies.
func ParseSession(text []byte, file string, firstLine int, scripts lua.Scripts) (*Session, Faults) {
	p := &figureParser{reader: reader{file: file, offset: firstLine - 1}, scripts: scripts, fig: &Figure{}}
	s := &Session{Text: strings.TrimRight(string(text), "\n"), File: file, Line: firstLine}
	for i, line := range strings.Split(s.Text, "\n") {
		m := prompt.FindStringSubmatch(line)
		last := len(s.Exchanges) - 1
		switch {
		case m != nil:
			c := p.sessionCommand(i+1, m[1])
			s.Exchanges = append(s.Exchanges, Exchange{Command: c, Line: firstLine + i})
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
		case last < 0:
			p.fault(i+1, "commands start with `> `", "a session starts with a reply")
		default:
			s.Exchanges[last].Reply += strings.TrimRight(line, " ") + "\n"
		}
	}
	for i, e := range s.Exchanges {
		s.Exchanges[i].Reply = strings.TrimRight(e.Reply, "\n")
		if e.Reply == "" && len(p.faults) == 0 {
			p.fault(e.Line-firstLine+1, "write it as valkey-cli prints it, or `...` where it varies", "%s has no reply under it", e.Command.Source)
		}
	}
	return s, p.faults
}

func (p *figureParser) sessionCommand(line int, source string) Command {
	c, err := parseCommand(source, nil)
	if err != nil {
		p.fault(line, "commands are quoted as in valkey-cli", "%v in %q", err, source)
		return c
	}
	p.checkCommand(line, c)
	if args := c.sketch(); sandbox.Stateful(args) {
		p.fault(line, "use a figure for it", "%s can't stand in a session", args[0])
	}
	return c
}

// CLI writes a reply as valkey-cli prints it.
func CLI(v sandbox.Value) string {
	switch v := v.(type) {
	case nil:
		return "(nil)"
	case int64:
		return fmt.Sprintf("(integer) %d", v)
	case sandbox.Error:
		return "(error) " + string(v)
	case string:
		if v == "OK" || v == "QUEUED" || v == "PONG" {
			return v
		}
		return fmt.Sprintf("%q", v)
	case []any:
		if len(v) == 0 {
			return "(empty array)"
		}
		width := len(fmt.Sprint(len(v)))
		lines := make([]string, len(v))
		for i, item := range v {
			head := fmt.Sprintf("%*d) ", width, i+1)
			lines[i] = head + strings.ReplaceAll(CLI(item), "\n", "\n"+strings.Repeat(" ", len(head)))
		}
		return strings.Join(lines, "\n")
	}
	return Print(v)
}

// sameReply compares a written reply with a real one; "..." matches anything.
func sameReply(written, got string) bool {
	parts := strings.Split(written, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^(?s:" + strings.Join(parts, ".*") + ")$").MatchString(got)
}
