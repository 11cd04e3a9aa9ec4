package read

import (
	"regexp"
	"strings"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/lua"
	"lockstep/sandbox"
)

var prompt = regexp.MustCompile(`^(?:[A-Z][A-Za-z0-9_]*)?> (.*)$`)

// Session reads a transcript that starts at line firstLine of file. A
// line "> COMMAND" or "A> COMMAND" is a command, "# …" a remark, and all other
// lines are replies.
func Session(text []byte, file string, firstLine int, scripts lua.Scripts) (*figures.Session, figures.Faults) {
	p := &figureParser{reader: reader{file: file, offset: firstLine - 1}, scripts: scripts, fig: &figures.Figure{}}
	s := &figures.Session{Text: strings.TrimRight(string(text), "\n"), File: file, Line: firstLine}
	for i, line := range strings.Split(s.Text, "\n") {
		m := prompt.FindStringSubmatch(line)
		last := len(s.Exchanges) - 1
		switch {
		case m != nil:
			c := p.sessionCommand(i+1, m[1])
			s.Exchanges = append(s.Exchanges, figures.Exchange{Command: c, Line: firstLine + i})
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

func (p *figureParser) sessionCommand(line int, source string) expr.Command {
	c, err := expr.ParseCommand(source, nil)
	if err != nil {
		p.fault(line, "commands are quoted as in valkey-cli", "%v in %q", err, source)
		return c
	}
	p.checkCommand(line, c)
	if args := c.Sketch(); sandbox.Stateful(args) {
		p.fault(line, "use a figure for it", "%s can't stand in a session", args[0])
	}
	return c
}
