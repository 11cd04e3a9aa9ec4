package figures

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"lockstep/lua"
	"lockstep/sandbox"
)

// Bounds of what an author may ask for in one path.
const (
	maxSteps = 200
	maxWait  = 2 * time.Second // all waits of a path together
	maxPaths = 24
)

var (
	actorName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_]*$`)
	actorKey  = regexp.MustCompile(`^([A-Z][A-Za-z0-9_]*)(?:@([a-z0-9]+))?$`)
	figureID  = regexp.MustCompile(`^[a-z0-9-]+$`)
)

var (
	figureKeys  = []string{"id", "title", "idle", "actors", "resource", "needs", "topology", "setup", "paths", "observe", "verdicts"}
	pathKeys    = []string{"id", "label", "actor", "needs", "setup", "steps", "programs", "events", "always", "finally", "sample", "loads", "observe", "verdicts", "static"}
	stepKeys    = []string{"lapse", "wait", "crash", "race", "work", "stop", "resume", "cut", "sync", "kill", "promote", "down", "up", "as", "reply", "note", "at", "every", "until", "retry", "else"}
	programKeys = []string{"do", "work", "as", "else", "reply", "note", "enter", "leave"}
	eventKeys   = []string{"lapse", "crash", "if", "times"}
	ruleKeys    = []string{"when", "status", "text"}
)

// figureParser reads one figure.
type figureParser struct {
	reader
	scripts lua.Scripts
	fig     *Figure
	actors  []string // the declared names; empty where none are declared
}

// Parse reads a figure from YAML that starts at line firstLine of file. The
// language is figures.md; all faults are found at once. The figure is nil where
// the text isn't even a map.
func Parse(text []byte, file string, firstLine int, scripts lua.Scripts) (*Figure, Faults) {
	p := &figureParser{
		reader:  reader{file: file, offset: firstLine - 1},
		scripts: scripts,
		fig:     &Figure{File: file, Line: firstLine},
	}
	top := p.document(text)
	if top == nil {
		if len(p.faults) == 0 {
			p.fault(1, "see the page on figures for one to start from", "the figure is empty")
		}
		return nil, p.faults
	}
	p.findNames(top)
	p.figure(top)
	p.faults.Sort()
	return p.fig, p.faults
}

func (p *figureParser) figure(top *yaml.Node) {
	f := p.fig
	var needs []string
	var observe []Observation
	var rules []Rule
	var paths *yaml.Node
	keys := p.entries(top, "the figure")
	for _, e := range keys {
		switch e.key { // first: steps are checked against them
		case "actors":
			p.declareActors(e.value)
		case "topology":
			f.Topology = p.topology(e.value)
		}
	}
	for _, e := range keys {
		switch e.key {
		case "id":
			f.ID = p.id(e.value, "a figure's id")
		case "title":
			f.Title = p.text(e.value, "title")
		case "idle":
			f.Idle = p.text(e.value, "idle")
		case "actors":
		case "resource":
			f.Resource = p.text(e.value, "resource")
		case "needs":
			needs = p.texts(e.value, "needs")
		case "topology":
		case "setup":
			f.Setup = p.steps(e.value, "setup")
		case "paths":
			paths = e.value
		case "observe":
			observe = p.observe(e.value)
		case "verdicts":
			rules = p.rules(e.value)
		default:
			p.unknown(e, "the figure", figureKeys...)
		}
	}
	if f.ID == "" && !slices.ContainsFunc(keys, func(e entry) bool { return e.key == "id" }) {
		p.fault(1, "ids are made of a-z, 0-9 and hyphens", "the figure has no id")
	}
	if f.Title == "" {
		f.Title = f.ID
	}
	if paths == nil {
		p.fault(1, "give it at least one under `paths:`", "the figure has no paths")
		return
	}
	for _, n := range p.items(paths, "paths") {
		path := p.path(n, needs, observe, rules)
		if other, ok := f.Path(path.ID); ok && path.ID != "" {
			p.fault(n.Line, fmt.Sprintf("it stands first in line %d", other.Line), "two paths have the id %q", path.ID)
			continue
		}
		f.Paths = append(f.Paths, path)
	}
	if len(f.Paths) > maxPaths {
		p.fault(paths.Line, "make two figures of it", "the figure has %d paths; %d fit", len(f.Paths), maxPaths)
	}
	if len(p.actors) == 0 {
		p.findActors()
	}
	for _, path := range f.Paths {
		p.checkSteps(path)
		p.checkTimes(path)
	}
	p.checkNames(rules)
}

func (p *figureParser) id(n *yaml.Node, what string) string {
	id := p.text(n, what)
	if id != "" && !figureID.MatchString(id) {
		p.fault(n.Line, "ids are made of a-z, 0-9 and hyphens", "%s is %q", what, id)
	}
	return id
}

// texts reads a list of texts, or one text.
func (p *figureParser) texts(n *yaml.Node, what string) []string {
	if f := follow(n); f.Kind == yaml.ScalarNode {
		return []string{p.text(n, what)}
	}
	var all []string
	for _, item := range p.items(n, what) {
		all = append(all, p.text(item, "an element of "+what))
	}
	return all
}

func (p *figureParser) declareActors(n *yaml.Node) {
	for _, e := range p.entries(n, "actors") {
		if !actorName.MatchString(e.key) {
			p.fault(e.line, "a capital letter, then letters, digits or _", "%q is not an actor's name", e.key)
			continue
		}
		label := e.key
		if kindOf(follow(e.value)) != "empty" {
			label = p.text(e.value, "an actor's label")
		}
		p.actors = append(p.actors, e.key)
		p.fig.Actors = append(p.fig.Actors, Actor{Name: e.key, Label: label})
	}
}

// findActors takes the actors in the order in which they first act.
func (p *figureParser) findActors() {
	var find func(steps []Step)
	seen := map[string]bool{}
	add := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			p.fig.Actors = append(p.fig.Actors, Actor{Name: name, Label: name})
		}
	}
	find = func(steps []Step) {
		for _, s := range steps {
			add(s.Actor)
			find(s.Race)
		}
	}
	find(p.fig.Setup)
	for _, path := range p.fig.Paths {
		find(path.Setup)
		find(path.Steps)
		for _, program := range path.Programs {
			add(program.Actor)
		}
	}
}

func (p *figureParser) path(n *yaml.Node, needs []string, observe []Observation, rules []Rule) *Path {
	path := &Path{Line: n.Line + p.offset, Needs: needs}
	var setup []Step
	for _, e := range p.entries(n, "a path") {
		switch e.key {
		case "id":
			path.ID = p.id(e.value, "a path's id")
		case "label":
			path.Label = p.text(e.value, "label")
		case "actor":
			path.Actor = p.text(e.value, "actor")
			p.knownActor(path.Actor, e.value.Line)
		case "needs":
			path.Needs = append(slices.Clone(needs), p.texts(e.value, "needs")...)
		case "setup":
			setup = p.steps(e.value, "setup")
		case "steps":
			path.Steps = p.steps(e.value, "steps")
		case "programs":
			path.Programs = p.programs(e.value)
		case "events":
			path.Events = p.events(e.value)
		case "always":
			path.Always = p.conditions(e.value, "always")
		case "finally":
			path.Finally = p.conditions(e.value, "finally")
		case "sample":
			path.Sample = p.sample(e.value)
		case "loads":
			path.Loads = p.loads(e.value)
		case "observe":
			path.Observe = p.observe(e.value)
		case "verdicts":
			path.Verdicts = p.rules(e.value)
		case "static":
			path.Static = p.text(e.value, "static")
		default:
			p.unknown(e, "a path", pathKeys...)
		}
	}
	if path.ID == "" {
		p.fault(n.Line, "ids are made of a-z, 0-9 and hyphens", "the path has no id")
	}
	if path.Label == "" {
		path.Label = path.ID
	}
	if kinds := min(len(path.Programs), 1) + min(len(path.Loads), 1); kinds > 0 && p.fig.Topology.Several() {
		p.fault(n.Line, "give it steps", "path %q can't run its clients on several servers", path.ID)
	} else if kinds > 1 || len(path.Loads) > 0 && len(path.Steps) > 0 {
		p.fault(n.Line, "make two paths of it", "path %q has loads beside other things to do", path.ID)
	}
	switch {
	case len(path.Programs) > 0 && len(path.Steps) > 0:
		p.fault(n.Line, "steps run once, in their order; programs run in every order", "path %q has both steps and programs", path.ID)
	case len(path.Programs) == 0 && (len(path.Events)+len(path.Always)+len(path.Finally)) > 0:
		p.fault(n.Line, "events, always and finally belong to programs", "path %q has no programs", path.ID)
	case len(path.Programs) == 0 && len(path.Loads) == 0 && len(path.Steps) == 0 && len(setup) == 0 && len(p.fig.Setup) == 0:
		p.fault(n.Line, "give it `steps:` or `programs:`", "path %q does nothing", path.ID)
	}
	path.Setup = append(slices.Clone(p.fig.Setup), setup...)
	path.Observe = mergeObserve(path.Observe, observe)
	path.Verdicts = append(slices.Clone(path.Verdicts), rules...)
	if path.Actor == "" {
		path.Actor = firstActor(path)
	}
	return path
}

// mergeObserve puts a path's own observations before the figure's; one of the
// same name replaces the figure's.
func mergeObserve(own, shared []Observation) []Observation {
	all := slices.Clone(own)
	for _, o := range shared {
		if !slices.ContainsFunc(own, func(x Observation) bool { return x.Name == o.Name }) {
			all = append(all, o)
		}
	}
	return all
}

func firstActor(path *Path) string {
	for _, s := range path.Steps {
		if s.Kind == Race && len(s.Race) > 0 {
			return s.Race[0].Actor
		}
		if s.Actor != "" {
			return s.Actor
		}
	}
	if len(path.Programs) > 0 {
		return path.Programs[0].Actor
	}
	return ""
}

func (p *figureParser) steps(n *yaml.Node, what string) []Step {
	items := p.items(n, what)
	if len(items) > maxSteps {
		p.fault(n.Line, "make two figures of it", "%s has %d steps; %d fit", what, len(items), maxSteps)
		return nil
	}
	var all []Step
	for _, item := range items {
		if s, ok := p.step(item); ok {
			all = append(all, s)
		}
	}
	return all
}

// step reads a map with one main key and any of as, reply, note.
func (p *figureParser) step(n *yaml.Node) (Step, bool) {
	s := Step{Line: n.Line + p.offset}
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
				if r.Kind != Send {
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
var mainKeys = map[string]StepKind{
	"actor": Send, "lapse": Lapse, "wait": Wait, "crash": Crash, "race": Race, "work": Work, "stop": Stop, "resume": Resume,
	"cut": Cut, "sync": Sync, "kill": Kill, "promote": Promote, "down": Down, "up": Up,
}

// elseStop reads `else: stop`.
func (p *figureParser) elseStop(e entry, s *Step) {
	if to := p.text(e.value, "else"); to != "stop" {
		p.fault(e.value.Line, "`else: stop` is the only one", "unknown else %q", to)
	}
	s.Stop = true
}

// shared reads the keys that steps of paths and of programs have in common.
func (p *figureParser) shared(e entry, s *Step) bool {
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
func (p *figureParser) command(s *Step, n *yaml.Node) {
	line := p.text(n, "a command")
	if line == "" {
		return
	}
	if line == "work" {
		s.Kind = Work
		return
	}
	s.Kind = Send
	if s.Target == "sql" {
		s.Command = p.statement(n, line)
		return
	}
	s.Command = p.commandLine(n, line)
}

func (p *figureParser) commandLine(n *yaml.Node, line string) Command {
	at := follow(n).Line
	c, err := parseCommand(line, p.bound)
	if err != nil {
		p.fault(at, "commands are quoted as in valkey-cli", "%v in %q", err, line)
		return c
	}
	p.checkCommand(at, c)
	return c
}

// checkCommand checks a command against the allow list and the scripts.
func (p *figureParser) checkCommand(at int, c Command) {
	args := c.sketch()
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
func (p *figureParser) value(n *yaml.Node) Value {
	f := follow(n)
	switch {
	case f.Kind == yaml.SequenceNode:
		v := Value{IsList: true}
		for _, item := range f.Content {
			v.List = append(v.List, p.value(item))
		}
		return v
	case f.Kind == yaml.ScalarNode && f.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 &&
		(f.Tag == "!!null" || f.Value == "nil" || f.Value == "(nil)"):
		return Value{Nil: true}
	}
	return Value{Text: p.text(n, "reply")}
}

func (p *figureParser) programs(n *yaml.Node) []Program {
	var all []Program
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
func (p *figureParser) program(e entry) Program {
	program := Program{Actor: e.key, Line: e.line + p.offset}
	for _, item := range p.items(e.value, "a program") {
		s := Step{Actor: e.key, Line: item.Line + p.offset}
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
			s.Kind = Work
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

func (p *figureParser) programStep(n *yaml.Node, s *Step, mark *string) bool {
	does := false
	entries := p.entries(n, "a step of a program")
	for _, e := range entries {
		switch e.key {
		case "do":
			does = true
			s.Command = p.commandLine(e.value, p.text(e.value, "do"))
			if sandbox.Stateful(s.Command.sketch()) {
				p.fault(e.value.Line, "every schedule is replayed on shared connections", "%s belongs to one connection; a program can't use it", s.Command.sketch()[0])
			}
		case "work":
			does = true
			s.Kind, s.Text = Work, p.text(e.value, "work")
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

func (p *figureParser) events(n *yaml.Node) []Event {
	var all []Event
	for _, item := range p.items(n, "events") {
		ev := Event{Times: 1, Line: item.Line + p.offset, Kind: -1}
		for _, e := range p.entries(item, "an event") {
			switch e.key {
			case "lapse":
				ev.Kind, ev.Key = Lapse, p.text(e.value, "lapse")
			case "crash":
				ev.Kind, ev.Actor = Crash, p.text(e.value, "crash")
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
		if ev.Kind == Lapse {
			lapses++
		}
	}
	for i := range all {
		switch {
		case all[i].Kind == Crash:
			all[i].Name = "crash:" + all[i].Actor
		case lapses > 1:
			all[i].Name = "lapse:" + all[i].Key
		default:
			all[i].Name = "lapse"
		}
	}
	return all
}

func (p *figureParser) conditions(n *yaml.Node, what string) []Condition {
	var all []Condition
	for _, e := range p.entries(n, what) {
		all = append(all, Condition{Name: e.key, Expr: p.expression(e.value, what+" "+e.key), Line: e.line + p.offset})
	}
	return all
}

func (p *figureParser) observe(n *yaml.Node) []Observation {
	var all []Observation
	for _, e := range p.entries(n, "observe") {
		o := Observation{Name: e.key, Line: e.line + p.offset}
		if name, target, ok := strings.Cut(e.key, "@"); ok {
			o.Name, o.Target = name, p.target(target, e)
		} else {
			o.Target = p.target("", e)
		}
		if follow(e.value).Kind == yaml.MappingNode {
			for _, in := range p.entries(e.value, "observe "+e.key) {
				if in.key != "received" {
					p.unknown(in, "observe "+e.key, "received")
					continue
				}
				o.Received = p.text(in.value, "received")
				p.knownActor(o.Received, in.value.Line)
			}
		} else if line := p.text(e.value, "observe "+e.key); line != "" {
			if o.Target == "sql" {
				o.Command = p.statement(e.value, line)
			} else {
				o.Command = p.commandLine(e.value, line)
			}
		}
		all = append(all, o)
	}
	return all
}

func (p *figureParser) rules(n *yaml.Node) []Rule {
	var all []Rule
	for _, item := range p.items(n, "verdicts") {
		rule := Rule{Line: item.Line + p.offset}
		status, text := false, false
		for _, e := range p.entries(item, "a verdict") {
			switch e.key {
			case "when":
				rule.When = p.expression(e.value, "when")
			case "status":
				status = true
				name := p.text(e.value, "status")
				if err := rule.Status.UnmarshalText([]byte(name)); err != nil && name != "" {
					p.fault(e.value.Line, Nearest(name, statusNames[1:]), "unknown status %q", name)
				}
			case "text":
				text = true
				rule.Text = p.template(e.value, "text")
			default:
				p.unknown(e, "a verdict", ruleKeys...)
			}
		}
		if !status || !text {
			p.fault(item.Line, "a verdict has when, status and text", "a verdict lacks its %s", map[bool]string{true: "text", false: "status"}[status])
			continue
		}
		all = append(all, rule)
	}
	return all
}

// knownActor checks a name against the declared ones.
func (p *figureParser) knownActor(name string, line int) {
	if name == "" || len(p.actors) == 0 || slices.Contains(p.actors, name) {
		return
	}
	p.fault(line, Nearest(name, p.actors), "unknown actor %q", name)
}

// checkSteps finds what only the order of a path's steps shows: an actor that
// acts after its crash, waits that are too long, names read before they are
// bound.
func (p *figureParser) checkSteps(path *Path) {
	bound := map[string]bool{}
	crashed := map[string]int{}
	var waits time.Duration
	var walk func(steps []Step)
	walk = func(steps []Step) {
		for _, s := range steps {
			if s.Kind == Send {
				p.unbound(s.Command.line.names(), s.Line, bound, "a command")
			}
			if line, dead := crashed[s.Actor]; dead && s.Actor != "" {
				p.fault(s.Line-p.offset, fmt.Sprintf("it crashed in line %d; let another actor go on", line), "%s acts after its crash", s.Actor)
			}
			switch s.Kind {
			case Crash:
				crashed[s.Actor] = s.Line
			case Wait:
				waits += s.For
			case Race:
				walk(s.Race)
			}
			if s.As != "" {
				bound[s.As] = true
			}
		}
	}
	walk(path.Setup)
	walk(path.Steps)
	if waits > maxWait {
		p.fault(path.Line-p.offset, fmt.Sprintf("a run may wait %v in all", maxWait), "path %q waits %v", path.ID, waits)
	}
	for _, o := range path.Observe {
		if bound[o.Name] {
			p.fault(o.Line-p.offset, "call one of them otherwise", "%q is both a reply and an observation", o.Name)
		}
	}
}

// unbound finds names that nothing has bound yet.
func (p *figureParser) unbound(names []name, line int, bound map[string]bool, what string) {
	for _, n := range names {
		if !bound[n.root] {
			p.fault(line-p.offset, Nearest(n.root, slices.Sorted(maps.Keys(bound))), "%s reads %q, which nothing before it binds", what, n.root)
		}
	}
}

// checkNames finds names in rules and conditions that nothing ever binds. A
// rule of the figure may read what only some of its paths bind.
func (p *figureParser) checkNames(shared []Rule) {
	all := map[string]bool{}
	for _, path := range p.fig.Paths {
		own := path.names()
		maps.Copy(all, own)
		for _, rule := range path.Verdicts[:len(path.Verdicts)-len(shared)] {
			p.checkRule(rule, own)
		}
		p.checkPrograms(path, own)
	}
	for _, rule := range shared {
		p.checkRule(rule, all)
	}
}

func (p *figureParser) checkRule(rule Rule, known map[string]bool) {
	if rule.When != nil {
		p.never(rule.When.names, rule.Line, known, "when")
	}
	p.never(rule.Text.names(), rule.Line, known, "text")
}

func (p *figureParser) never(names []name, line int, known map[string]bool, what string) {
	for _, n := range names {
		full := n.root
		if n.member != "" {
			full += "." + n.member
		}
		if known[full] || known[n.root] && (n.member == "" || !known[n.root+"."]) {
			continue
		}
		p.fault(line-p.offset, Nearest(full, slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(k string) bool { return strings.HasSuffix(k, ".") })),
			"%s, column %d: nothing binds %q", what, n.column, full)
	}
}

// names are all that the path's rules may read. An entry "A." says that the
// members of A are known one by one.
func (path *Path) names() map[string]bool {
	known := map[string]bool{}
	for _, o := range path.Observe {
		known[o.Name] = true
	}
	var add func(steps []Step)
	add = func(steps []Step) {
		for _, s := range steps {
			if s.As != "" {
				known[s.As] = true
				if s.Retry != nil {
					known[s.As+"_tries"], known[s.As+"_ms"] = true, true
				}
			}
			add(s.Race)
		}
	}
	add(path.Setup)
	add(path.Steps)
	if path.Sample != nil {
		known["samples"] = true
	}
	for _, l := range path.Loads {
		known[l.Name], known[l.Name+"."] = true, true
		for _, n := range loadNames {
			known[l.Name+"."+n] = true
		}
	}
	if !path.Explores() {
		return known
	}
	for _, n := range []string{"schedules", "states", "violations", "violations.", "counterexamples", "counterexamples."} {
		known[n] = true
	}
	for _, c := range slices.Concat(path.Always, path.Finally) {
		known["violations."+c.Name] = true
		known["counterexamples."+c.Name] = true
	}
	return known
}

// checkPrograms checks the conditions, events and commands of programs.
func (p *figureParser) checkPrograms(path *Path, rules map[string]bool) {
	if !path.Explores() {
		return
	}
	known := map[string]bool{"inside": true, "insiders": true}
	for _, s := range path.Setup {
		if s.As != "" {
			known[s.As] = true
		}
	}
	for _, o := range path.Observe {
		known[o.Name] = true
		if o.Received != "" {
			p.fault(o.Line-p.offset, "it belongs to a path with steps", "received can't be observed where programs run")
		}
	}
	for _, program := range path.Programs {
		known[program.Actor], known[program.Actor+"."] = true, true
		for _, s := range program.Steps {
			if s.As != "" {
				known[program.Actor+"."+s.As] = true
			}
		}
	}
	for _, c := range slices.Concat(path.Always, path.Finally) {
		if c.Expr != nil {
			p.never(c.Expr.names, c.Line, known, c.Name)
		}
	}
	for _, ev := range path.Events {
		if ev.If != nil {
			p.never(ev.If.names, ev.Line, known, "if")
		}
		if ev.Kind == Crash && !slices.ContainsFunc(path.Programs, func(pr Program) bool { return pr.Actor == ev.Actor }) {
			p.fault(ev.Line-p.offset, "", "%s has no program in path %q and can't crash", ev.Actor, path.ID)
		}
	}
	names := map[string]bool{}
	for _, c := range slices.Concat(path.Always, path.Finally) {
		if names[c.Name] {
			p.fault(c.Line-p.offset, "call one of them otherwise", "two conditions are called %q", c.Name)
		}
		names[c.Name] = true
	}
	for _, s := range path.Setup {
		if s.Kind != Send && s.Kind != Lapse {
			p.fault(s.Line-p.offset, "there time is moved by hand, by lapse", "the setup of programs can only send commands and lapse keys (path %q)", path.ID)
		}
	}
	for _, program := range path.Programs {
		own := maps.Clone(known)
		own["self"] = true
		for _, s := range program.Steps {
			p.never(s.Command.line.names(), s.Line, own, "a command")
			if s.As != "" {
				own[s.As] = true
			}
		}
	}
}
