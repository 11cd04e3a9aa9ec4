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

// A draft is a step whose keys are being read.
type draft struct {
	figures.Step
	main   string // the main key
	send   figures.Send
	stop   bool // "else: stop"
	repeat bool // every or retry
}

// step reads a map with one main key and any of those that go with it.
func (p *figureParser) step(n *yaml.Node) (figures.Step, bool) {
	d := draft{Step: figures.Step{Line: n.Line + p.offset}}
	entries := p.entries(n, "a step")
	for _, e := range entries {
		does := p.kind(e)
		if does == nil {
			p.beside(e, &d)
			continue
		}
		if d.main != "" {
			p.fault(e.line, "give each its own `- `", "a step does two things, %s and %s", d.main, e.key)
			return d.Step, false
		}
		d.main, d.Does = e.key, does
	}
	if d.send.Until > 0 && d.send.Every == 0 {
		p.fault(n.Line, "say how often: `every: 100ms`", "until without every")
	}
	if d.main == "" {
		if len(entries) > 0 {
			p.fault(n.Line, "start it with an actor (`A: SET …`), lapse, wait, crash, race or work", "a step does nothing")
		}
		return d.Step, false
	}
	p.finish(n, &d)
	return d.Step, true
}

// kind reads what a step does by its main key; nil where the key is none.
func (p *figureParser) kind(e entry) figures.Kind {
	if m := actorKey.FindStringSubmatch(e.key); m != nil {
		p.knownActor(m[1], e.line)
		return p.command(e, m[1], m[2])
	}
	switch e.key {
	case "lapse":
		return figures.Lapse{Key: p.template(e.value, "lapse")}
	case "wait":
		return figures.Wait{For: p.duration(e.value)}
	case "race":
		return p.race(e)
	case "work":
		return figures.Work{Text: p.text(e.value, "work")}
	case "crash":
		return figures.Crash{Actor: p.struck(e)}
	case "stop":
		return figures.Stop{Actor: p.struck(e)}
	case "resume":
		return figures.Resume{Actor: p.struck(e)}
	case "cut", "sync", "kill", "promote", "down", "up":
		return figures.Strike{Fault: e.key, Node: p.node(e)}
	}
	return nil
}

func (p *figureParser) race(e entry) figures.Kind {
	race := figures.Race{Steps: p.steps(e.value, "race")}
	for _, s := range race.Steps {
		if _, ok := s.Does.(figures.Send); !ok {
			p.fault(s.Line-p.offset, "a race is between commands", "a race holds a step that sends nothing")
		}
	}
	return race
}

// struck reads the actor whom something befalls.
func (p *figureParser) struck(e entry) string {
	name := p.text(e.value, e.key)
	p.knownActor(name, e.value.Line)
	return name
}

// beside reads a key that goes with the main one.
func (p *figureParser) beside(e entry, d *draft) {
	switch e.key {
	case "at":
		d.Timed, d.At = true, p.duration(e.value)
	case "every":
		d.send.Every, d.repeat = p.duration(e.value), true
	case "until":
		d.send.Until = p.duration(e.value)
	case "retry":
		d.send.Retry, d.repeat = p.retry(e.value), true
	case "else":
		d.stop = p.elseStop(e)
	default:
		if !p.shared(e, &d.Step) {
			p.unknown(e, "a step", append([]string{"an actor's name"}, stepKeys...)...)
		}
	}
}

// finish gives a command what only commands may have.
func (p *figureParser) finish(n *yaml.Node, d *draft) {
	send, sends := d.Does.(figures.Send)
	if sends {
		send.Every, send.Until, send.Retry, send.Stop = d.send.Every, d.send.Until, d.send.Retry, d.stop
		d.Does = send
	}
	switch {
	case d.repeat && !sends:
		p.fault(n.Line, "", "only a command can be repeated")
	case sends && send.Every > 0 && send.Every < minEvery:
		p.fault(n.Line, "", "every %v; %v is the shortest", send.Every, minEvery)
	case d.stop && send.Every == 0:
		p.fault(n.Line, "in steps it ends an `every`", "else: stop without every")
	}
}

// elseStop reads `else: stop`.
func (p *figureParser) elseStop(e entry) bool {
	if to := p.text(e.value, "else"); to != "stop" {
		p.fault(e.value.Line, "`else: stop` is the only one", "unknown else %q", to)
	}
	return true
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
		s.Promise = &expr.Promise{Value: p.value(e.value)}
	case "note":
		s.Note = p.text(e.value, "note")
	default:
		return false
	}
	return true
}

// command reads NAME@TARGET: COMMAND, and checks what can be checked before it
// runs; NAME: work sends none.
func (p *figureParser) command(e entry, actor, target string) figures.Kind {
	send := figures.Send{Actor: actor, Target: p.target(target, e)}
	line := p.text(e.value, "a command")
	switch {
	case line == "work":
		return figures.Work{Actor: actor}
	case line == "":
	case send.Target == "sql":
		send.Command = p.statement(e.value, line)
	default:
		send.Command = p.commandLine(e.value, line)
	}
	return send
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
		p.refused(at, err)
		return
	}
	if name, ok := sandbox.ScriptOf(args); ok {
		if _, known := p.scripts[name]; !known {
			p.fault(at, Nearest(name, slices.Sorted(maps.Keys(p.scripts))), "unknown script %q", name)
		}
		p.checkKeys(at, args)
	}
}

// refused says why a command or a statement can't be sent.
func (p *figureParser) refused(line int, err error) {
	message, hint := err.Error(), ""
	var refused *sandbox.CommandError
	if errors.As(err, &refused) {
		message, hint = refused.Message, refused.Hint
	}
	p.fault(line, hint, "%s", message)
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
func (p *figureParser) value(n *yaml.Node) any {
	f := follow(n)
	switch {
	case f.Kind == yaml.SequenceNode:
		list := []any{}
		for _, item := range f.Content {
			list = append(list, p.value(item))
		}
		return list
	case f.Kind == yaml.ScalarNode && f.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 &&
		(f.Tag == "!!null" || f.Value == "nil" || f.Value == "(nil)"):
		return nil
	}
	return p.text(n, "reply")
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
	program := figures.Program{Actor: e.key}
	for _, item := range p.items(e.value, "a program") {
		s := figures.Instruction{Step: figures.Step{Line: item.Line + p.offset}}
		mark := ""
		if f := follow(item); f.Kind == yaml.ScalarNode {
			mark = f.Value
		} else if !p.programStep(item, e.key, &s, &mark) {
			continue
		}
		last := len(program.Steps) - 1
		switch mark {
		case "":
			program.Steps = append(program.Steps, s)
		case "work":
			s.Does = figures.Work{Actor: e.key}
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

func (p *figureParser) programStep(n *yaml.Node, actor string, s *figures.Instruction, mark *string) bool {
	does := false
	entries := p.entries(n, "a step of a program")
	for _, e := range entries {
		switch e.key {
		case "do":
			does = true
			c := p.commandLine(e.value, p.text(e.value, "do"))
			if sandbox.Stateful(c.Sketch()) {
				p.fault(e.value.Line, "every schedule is replayed on shared connections", "%s belongs to one connection; a program can't use it", c.Sketch()[0])
			}
			s.Does = figures.Send{Actor: actor, Command: c}
		case "work":
			does = true
			s.Does = figures.Work{Actor: actor, Text: p.text(e.value, "work")}
		case "enter", "leave":
			does = true
			*mark = e.key
		case "else":
			s.Stop = p.elseStop(e)
		default:
			if !p.shared(e, &s.Step) {
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
		ev := figures.Event{Times: 1, Line: item.Line + p.offset}
		for _, e := range p.entries(item, "an event") {
			switch e.key {
			case "lapse":
				// A key as it stands, since nothing has run that it could depend on.
				ev.Does = figures.Lapse{Key: expr.Plain(p.text(e.value, "lapse"))}
			case "crash":
				ev.Does = figures.Crash{Actor: p.struck(e)}
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
		if ev.Does == nil {
			p.fault(item.Line, "write `lapse: KEY` or `crash: NAME`", "an event does nothing")
			continue
		}
		all = append(all, ev)
	}
	nameEvents(all)
	return all
}

// nameEvents names events as they stand in schedules: a lapse by its key only
// where there are several.
func nameEvents(all []figures.Event) {
	lapses := 0
	for _, ev := range all {
		if what, _ := ev.Words(); what == "lapse" {
			lapses++
		}
	}
	for i, ev := range all {
		name, whom := ev.Words()
		if name != "lapse" || lapses > 1 {
			name += ":" + whom
		}
		all[i].Name = name
	}
}
