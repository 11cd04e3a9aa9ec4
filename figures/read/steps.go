package read

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

func (p *figureParser) steps(n *yaml.Node, what string) []figures.Step {
	items := p.items(n, what)
	if len(items) > maxSteps {
		p.fault(n.Line, "make two figures of it", "%s has %d steps; %d fit", what, len(items), maxSteps)
		return nil
	}
	var all []figures.Step
	for _, item := range items {
		if s, ok := p.step(item); ok {
			all = append(all, s)
		}
	}
	return all
}

// step reads a map with one main key and any of as, reply, note.
func (p *figureParser) step(n *yaml.Node) (figures.Step, bool) {
	s := figures.Step{Line: n.Line + p.offset}
	main := ""
	entries := p.entries(n, "a step")
	for _, e := range entries {
		is := e.key
		if m := actorKey.FindStringSubmatch(e.key); m != nil {
			is, s.Actor = "actor", m[1]
			s.Target = p.target(m[2], e)
		}
		kind, isMain := mainKeys[is]
		if isMain {
			if main != "" {
				p.fault(e.line, "give each its own `- `", "a step does two things, %s and %s", main, e.key)
				return s, false
			}
			main, s.Kind = e.key, kind
		}
		switch is {
		case "actor":
			p.knownActor(s.Actor, e.line)
			p.command(&s, e.value)
		case "lapse":
			s.Key = p.template(e.value, "lapse")
		case "wait":
			s.For = p.duration(e.value)
		case "crash", "stop", "resume":
			s.Actor = p.text(e.value, is)
			p.knownActor(s.Actor, e.value.Line)
		case "race":
			s.Race = p.steps(e.value, "race")
			for _, r := range s.Race {
				if r.Kind != figures.Send {
					p.fault(r.Line-p.offset, "a race is between commands", "a race holds a step that sends nothing")
				}
			}
		case "work":
			s.Text = p.text(e.value, "work")
		case "cut", "sync", "kill", "promote", "down", "up":
			s.Target = p.node(e)
		case "at":
			s.Timed, s.At = true, p.duration(e.value)
		case "every":
			s.Every = p.duration(e.value)
		case "until":
			s.Until = p.duration(e.value)
		case "retry":
			s.Retry = p.retry(e.value)
		case "else":
			p.elseStop(e, &s)
		default:
			if !p.shared(e, &s) {
				p.unknown(e, "a step", append([]string{"an actor's name"}, stepKeys...)...)
			}
		}
	}
	if s.Until > 0 && s.Every == 0 {
		p.fault(n.Line, "say how often: `every: 100ms`", "until without every")
	}
	if main == "" && len(entries) > 0 {
		p.fault(n.Line, "start it with an actor (`A: SET …`), lapse, wait, crash, race or work", "a step does nothing")
		return s, false
	}
	return s, main != ""
}

// mainKeys are the main keys of steps.
var mainKeys = map[string]figures.StepKind{
	"actor": figures.Send, "lapse": figures.Lapse, "wait": figures.Wait, "crash": figures.Crash, "race": figures.Race, "work": figures.Work, "stop": figures.Stop, "resume": figures.Resume,
	"cut": figures.Cut, "sync": figures.Sync, "kill": figures.Kill, "promote": figures.Promote, "down": figures.Down, "up": figures.Up,
}

// elseStop reads `else: stop`.
func (p *figureParser) elseStop(e entry, s *figures.Step) {
	if to := p.text(e.value, "else"); to != "stop" {
		p.fault(e.value.Line, "`else: stop` is the only one", "unknown else %q", to)
	}
	s.Stop = true
}

// shared reads the keys that steps of paths and of programs have in common.
func (p *figureParser) shared(e entry, s *figures.Step) bool {
	switch e.key {
	case "as":
		s.As = p.text(e.value, "as")
		if s.As != "" && !regexp.MustCompile(`^[a-z_][A-Za-z0-9_]*$`).MatchString(s.As) {
			p.fault(e.value.Line, "a small letter, then letters, digits or _", "%q can't be a name in expressions", s.As)
		}
		if s.As == "code" {
			p.fault(e.value.Line, "call it otherwise", "code is a function of expressions")
		}
	case "reply":
		v := p.value(e.value)
		s.Promise = &v
	case "note":
		s.Note = p.text(e.value, "note")
	default:
		return false
	}
	return true
}

// command reads a command line, and checks what can be checked before it runs.
func (p *figureParser) command(s *figures.Step, n *yaml.Node) {
	line := p.text(n, "a command")
	if line == "" {
		return
	}
	if line == "work" {
		s.Kind = figures.Work
		return
	}
	s.Kind = figures.Send
	if s.Target == "sql" {
		s.Command = p.statement(n, line)
		return
	}
	s.Command = p.commandLine(n, line)
}

func (p *figureParser) commandLine(n *yaml.Node, line string) expr.Command {
	at := follow(n).Line
	c, err := expr.ParseCommand(line, p.bound)
	if err != nil {
		p.fault(at, "commands are quoted as in valkey-cli", "%v in %q", err, line)
		return c
	}
	p.checkCommand(at, c)
	return c
}

// checkCommand checks a command against the allow list and the scripts.
func (p *figureParser) checkCommand(at int, c expr.Command) {
	args := c.Sketch()
	if err := sandbox.Check(args); err != nil {
		message, hint := err.Error(), ""
		var refused *sandbox.CommandError
		if errors.As(err, &refused) {
			message, hint = refused.Message, refused.Hint
		}
		p.fault(at, hint, "%s", message)
		return
	}
	if name, ok := sandbox.ScriptOf(args); ok {
		if _, known := p.scripts[name]; !known {
			p.fault(at, Nearest(name, slices.Sorted(maps.Keys(p.scripts))), "unknown script %q", name)
		}
		p.checkKeys(at, args)
	}
}

// checkKeys compares numkeys with what follows it.
func (p *figureParser) checkKeys(line int, args []string) {
	if len(args) < 3 {
		p.fault(line, "write it as EVAL name.lua numkeys key … arg …", "EVAL without the number of its keys")
		return
	}
	if args[2] == "{{}}" {
		return
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 0 || n > len(args)-3 {
		p.fault(line, "write it as EVAL name.lua numkeys key … arg …", "EVAL says %s keys, and %d arguments follow", args[2], len(args)-3)
	}
}

func (p *figureParser) duration(n *yaml.Node) time.Duration {
	source := p.text(n, "wait")
	if source == "" {
		return 0
	}
	d, err := time.ParseDuration(source)
	if err != nil || d < 0 {
		p.fault(n.Line, "write it with its unit: 20ms, 1.5s", "%q is not a time", source)
		return 0
	}
	return d
}

// value reads a promised reply. Unquoted nil, null and ~ are nil.
func (p *figureParser) value(n *yaml.Node) expr.Promise {
	f := follow(n)
	switch {
	case f.Kind == yaml.SequenceNode:
		v := expr.Promise{IsList: true}
		for _, item := range f.Content {
			v.List = append(v.List, p.value(item))
		}
		return v
	case f.Kind == yaml.ScalarNode && f.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 &&
		(f.Tag == "!!null" || f.Value == "nil" || f.Value == "(nil)"):
		return expr.Promise{Nil: true}
	}
	return expr.Promise{Text: p.text(n, "reply")}
}

func (p *figureParser) programs(n *yaml.Node) []figures.Program {
	var all []figures.Program
	for _, e := range p.entries(n, "programs") {
		if !actorName.MatchString(e.key) {
			p.fault(e.line, "a capital letter, then letters, digits or _", "%q is not an actor's name", e.key)
			continue
		}
		p.knownActor(e.key, e.line)
		all = append(all, p.program(e))
	}
	return all
}

// program reads what one actor does. Marks are attached to the transition
// before them, to which they belong.
func (p *figureParser) program(e entry) figures.Program {
	program := figures.Program{Actor: e.key, Line: e.line + p.offset}
	for _, item := range p.items(e.value, "a program") {
		s := figures.Step{Actor: e.key, Line: item.Line + p.offset}
		mark := ""
		if f := follow(item); f.Kind == yaml.ScalarNode {
			mark = f.Value
		} else if !p.programStep(item, &s, &mark) {
			continue
		}
		last := len(program.Steps) - 1
		switch mark {
		case "":
			program.Steps = append(program.Steps, s)
		case "work":
			s.Kind = figures.Work
			program.Steps = append(program.Steps, s)
		case "enter":
			if last < 0 {
				program.Enter = true
			} else {
				program.Steps[last].Enter = true
			}
		case "leave":
			if last < 0 {
				p.fault(item.Line, "put it after a step", "a program starts with leave")
			} else {
				program.Steps[last].Leave = true
			}
		default:
			p.fault(item.Line, Nearest(mark, []string{"enter", "work", "leave"}), "unknown mark %q in a program", mark)
		}
	}
	if len(program.Steps) == 0 {
		p.fault(e.line, "give it at least one `- do: …`", "the program of %s does nothing", e.key)
	}
	return program
}

func (p *figureParser) programStep(n *yaml.Node, s *figures.Step, mark *string) bool {
	does := false
	entries := p.entries(n, "a step of a program")
	for _, e := range entries {
		switch e.key {
		case "do":
			does = true
			s.Command = p.commandLine(e.value, p.text(e.value, "do"))
			if sandbox.Stateful(s.Command.Sketch()) {
				p.fault(e.value.Line, "every schedule is replayed on shared connections", "%s belongs to one connection; a program can't use it", s.Command.Sketch()[0])
			}
		case "work":
			does = true
			s.Kind, s.Text = figures.Work, p.text(e.value, "work")
		case "enter", "leave":
			does = true
			*mark = e.key
		case "else":
			p.elseStop(e, s)
		default:
			if !p.shared(e, s) {
				p.unknown(e, "a step of a program", programKeys...)
			}
		}
	}
	if !does && len(entries) > 0 {
		p.fault(n.Line, "write `do: COMMAND`, work, enter or leave", "a step of a program does nothing")
	}
	return does
}

func (p *figureParser) events(n *yaml.Node) []figures.Event {
	var all []figures.Event
	for _, item := range p.items(n, "events") {
		ev := figures.Event{Times: 1, Line: item.Line + p.offset, Kind: -1}
		for _, e := range p.entries(item, "an event") {
			switch e.key {
			case "lapse":
				ev.Kind, ev.Key = figures.Lapse, p.text(e.value, "lapse")
			case "crash":
				ev.Kind, ev.Actor = figures.Crash, p.text(e.value, "crash")
				p.knownActor(ev.Actor, e.value.Line)
			case "if":
				ev.If = p.expression(e.value, "if")
			case "times":
				times, err := strconv.Atoi(p.text(e.value, "times"))
				if err != nil || times < 1 || times > 9 {
					p.fault(e.value.Line, "a number from 1 to 9", "times is %q", e.value.Value)
				}
				ev.Times = times
			default:
				p.unknown(e, "an event", eventKeys...)
			}
		}
		if ev.Kind < 0 {
			p.fault(item.Line, "write `lapse: KEY` or `crash: NAME`", "an event does nothing")
			continue
		}
		all = append(all, ev)
	}
	lapses := 0
	for _, ev := range all {
		if ev.Kind == figures.Lapse {
			lapses++
		}
	}
	for i := range all {
		switch {
		case all[i].Kind == figures.Crash:
			all[i].Name = "crash:" + all[i].Actor
		case lapses > 1:
			all[i].Name = "lapse:" + all[i].Key
		default:
			all[i].Name = "lapse"
		}
	}
	return all
}
