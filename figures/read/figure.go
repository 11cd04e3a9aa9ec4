// Package read makes figures and sessions of what an author wrote in YAML, and
// finds all that is wrong with it at once. The language is FIGURES.md.
package read

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"lockstep/figures"
	"lockstep/lua"
)

// Bounds of what an author may ask for in one path.
const (
	maxSteps = 200
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
	fig     *figures.Figure
	actors  []string // the declared names; empty where none are declared
}

// Figure reads a figure from YAML that starts at line firstLine of file. The
// figure is nil where the text isn't even a map.
func Figure(text []byte, file string, firstLine int, scripts lua.Scripts) (*figures.Figure, figures.Faults) {
	p := &figureParser{
		reader:  reader{file: file, offset: firstLine - 1},
		scripts: scripts,
		fig:     &figures.Figure{File: file, Line: firstLine},
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
	var all shared
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
			all.needs = p.texts(e.value, "needs")
		case "topology":
		case "setup":
			f.Setup = p.steps(e.value, "setup")
		case "paths":
			paths = e.value
		case "observe":
			all.observe = p.observe(e.value)
		case "verdicts":
			all.rules = p.rules(e.value)
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
	p.paths(paths, all)
}

// shared is what a figure says for all of its paths.
type shared struct {
	needs   []string
	observe []figures.Observation
	rules   []figures.Rule
}

// paths reads a figure's paths, and checks what takes all of the figure to see.
func (p *figureParser) paths(paths *yaml.Node, all shared) {
	f := p.fig
	for _, n := range p.items(paths, "paths") {
		path := p.path(n, all)
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
	p.checkNames(all.rules)
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
		p.fig.Actors = append(p.fig.Actors, figures.Actor{Name: e.key, Label: label})
	}
}

// findActors takes the actors in the order in which they first act.
func (p *figureParser) findActors() {
	seen := map[string]bool{}
	add := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			p.fig.Actors = append(p.fig.Actors, figures.Actor{Name: name, Label: name})
		}
	}
	for _, path := range p.fig.Paths { // each with the figure's setup before its own
		for s := range figures.All(slices.Concat(path.Setup, path.Steps)) {
			add(s.Actor())
		}
		for _, program := range path.Programs {
			add(program.Actor)
		}
	}
}

func (p *figureParser) path(n *yaml.Node, all shared) *figures.Path {
	path := &figures.Path{Line: n.Line + p.offset, Needs: all.needs}
	var setup []figures.Step
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
			path.Needs = append(slices.Clone(all.needs), p.texts(e.value, "needs")...)
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
	p.whole(n, path, len(setup) > 0)
	path.Setup = append(slices.Clone(p.fig.Setup), setup...)
	path.Observe = mergeObserve(path.Observe, all.observe)
	path.Verdicts = append(slices.Clone(path.Verdicts), all.rules...)
	if path.Actor == "" {
		path.Actor = firstActor(path)
	}
	if p.fig.Topology.Several() && slices.ContainsFunc(path.Observe, func(o figures.Observation) bool { return o.Received != "" }) {
		p.fault(n.Line, "ask one server what it received", "path %q counts what an actor sent to several servers", path.ID)
	}
	return path
}

// whole finds what a path lacks, and parts of it that don't go together.
func (p *figureParser) whole(n *yaml.Node, path *figures.Path, setup bool) {
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
	case len(path.Programs) == 0 && len(path.Loads) == 0 && len(path.Steps) == 0 && !setup && len(p.fig.Setup) == 0:
		p.fault(n.Line, "give it `steps:` or `programs:`", "path %q does nothing", path.ID)
	}
}

// mergeObserve puts a path's own observations before the figure's; one of the
// same name replaces the figure's.
func mergeObserve(own, shared []figures.Observation) []figures.Observation {
	all := slices.Clone(own)
	for _, o := range shared {
		if !slices.ContainsFunc(own, func(x figures.Observation) bool { return x.Name == o.Name }) {
			all = append(all, o)
		}
	}
	return all
}

func firstActor(path *figures.Path) string {
	for s := range figures.All(path.Steps) {
		if s.Actor() != "" {
			return s.Actor()
		}
	}
	if len(path.Programs) > 0 {
		return path.Programs[0].Actor
	}
	return ""
}

func (p *figureParser) conditions(n *yaml.Node, what string) []figures.Condition {
	var all []figures.Condition
	for _, e := range p.entries(n, what) {
		all = append(all, figures.Condition{Name: e.key, Expr: p.expression(e.value, what+" "+e.key), Line: e.line + p.offset})
	}
	return all
}

func (p *figureParser) observe(n *yaml.Node) []figures.Observation {
	var all []figures.Observation
	for _, e := range p.entries(n, "observe") {
		if follow(e.value).Kind != yaml.MappingNode {
			all = append(all, p.observation(e, "observe"))
			continue
		}
		o := figures.Observation{Name: e.key, Line: e.line + p.offset}
		for _, in := range p.entries(e.value, "observe "+e.key) {
			if in.key != "received" {
				p.unknown(in, "observe "+e.key, "received")
				continue
			}
			o.Received = p.text(in.value, "received")
			p.knownActor(o.Received, in.value.Line)
		}
		all = append(all, o)
	}
	return all
}

// observation reads "holder: GET l" or "holder@replica: GET l".
func (p *figureParser) observation(e entry, what string) figures.Observation {
	name, target, _ := strings.Cut(e.key, "@")
	o := figures.Observation{Name: name, Target: p.target(target, e), Line: e.line + p.offset}
	line := p.text(e.value, what+" "+e.key)
	switch {
	case line == "":
	case o.Target == "sql":
		o.Command = p.statement(e.value, line)
	default:
		o.Command = p.commandLine(e.value, line)
	}
	return o
}

func (p *figureParser) rules(n *yaml.Node) []figures.Rule {
	var all []figures.Rule
	for _, item := range p.items(n, "verdicts") {
		rule := figures.Rule{Line: item.Line + p.offset}
		status, text := false, false
		for _, e := range p.entries(item, "a verdict") {
			switch e.key {
			case "when":
				rule.When = p.expression(e.value, "when")
			case "status":
				status = true
				rule.Status = figures.Status(p.text(e.value, "status"))
				if rule.Status != "" && !slices.Contains(figures.Statuses(), rule.Status) {
					p.fault(e.value.Line, Nearest(string(rule.Status), statusWords()), "unknown status %q", rule.Status)
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

func statusWords() (words []string) {
	for _, s := range figures.Statuses() {
		words = append(words, s.String())
	}
	return words
}
