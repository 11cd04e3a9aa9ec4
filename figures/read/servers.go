package read

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox/sql"
)

// Bounds of what an author may ask for in real time.
const (
	maxTimed   = 10 * time.Second // from the start of a path to its end
	maxClients = 50
	maxRounds  = 5_000 // clients times how often each does its steps
	minEvery   = 5 * time.Millisecond
)

// topology reads "replicated", "replicated 2" or "independent 5".
func (p *figureParser) topology(n *yaml.Node) figures.Topology {
	source := p.text(n, "topology")
	kind, count, counted := strings.Cut(source, " ")
	number := 0
	if counted {
		number, _ = strconv.Atoi(strings.TrimSpace(count))
	}
	switch {
	case kind == "replicated" && !counted:
		return figures.Topology{Replicas: 1}
	case kind == "replicated" && (number == 1 || number == 2):
		return figures.Topology{Replicas: number}
	case kind == "independent" && number >= 1 && number <= 7:
		return figures.Topology{Independent: number}
	}
	if source != "" {
		p.fault(n.Line, "known are `replicated`, `replicated 2` and `independent N` with N from 1 to 7", "unknown topology %q", source)
	}
	return figures.Topology{}
}

// target finds the server that NAME@TARGET names. Without one a command goes
// to the primary, and among independent servers it has to say.
func (p *figureParser) target(name string, e entry) string {
	nodes := p.fig.Topology.Nodes()
	switch {
	case name == "sql":
		return name
	case name == "" && p.fig.Topology.Replicas > 0:
		return nodes[0]
	case name == "" && p.fig.Topology.Independent > 0 && kindOf(follow(e.value)) != "a map" && follow(e.value).Value != "work":
		p.fault(e.line, "write it as A@n1 or A@all", "%q doesn't say which of the %d servers", e.key, len(nodes))
	case name == "", name == "all" && len(nodes) > 0, slices.Contains(nodes, name):
	case len(nodes) == 0:
		p.fault(e.line, "give the figure a `topology:`, or leave the target out", "%q names a server, and the figure has only one", e.key)
		return ""
	default:
		p.fault(e.line, Nearest(name, append(nodes, "all", "sql")), "%q names no server of the topology", e.key)
	}
	return name
}

// node reads the server that a fault strikes.
func (p *figureParser) node(e entry) string {
	name, nodes := p.text(e.value, e.key), p.fig.Topology.Nodes()
	switch {
	case len(nodes) == 0:
		p.fault(e.line, "give the figure a `topology:`", "%s needs several servers", e.key)
	case !slices.Contains(nodes, name):
		p.fault(e.value.Line, Nearest(name, nodes), "%s names no server of the topology: %q", e.key, name)
	case (e.key == "cut" || e.key == "sync" || e.key == "promote") && !strings.HasPrefix(name, "replica"):
		p.fault(e.value.Line, "it takes a replica", "%s can't be done to %q", e.key, name)
	}
	return name
}

// statement reads an SQL statement.
func (p *figureParser) statement(n *yaml.Node, source string) expr.Command {
	c, err := expr.ParseStatement(source, p.bound)
	if err != nil {
		p.fault(follow(n).Line, "", "%v in %q", err, source)
		return c
	}
	if err := sql.Check(c.Sketch()[0]); err != nil {
		p.refused(follow(n).Line, err)
	}
	return c
}

func (p *figureParser) retry(n *yaml.Node) *figures.Retry {
	r := &figures.Retry{}
	for _, e := range p.entries(n, "retry") {
		switch e.key {
		case "every":
			r.Every = p.duration(e.value)
		case "jitter":
			r.Jitter = p.duration(e.value)
		case "for":
			r.For = p.duration(e.value)
		default:
			p.unknown(e, "retry", "every", "jitter", "for")
		}
	}
	if r.For == 0 || r.For > maxTimed {
		p.fault(n.Line, "add `for: 2s`", "retry doesn't say how long, or longer than %v", maxTimed)
	}
	return r
}

func (p *figureParser) sample(n *yaml.Node) *figures.Sample {
	s := &figures.Sample{}
	for _, e := range p.entries(n, "sample") {
		if e.key == "every" {
			s.Every = p.duration(e.value)
			continue
		}
		s.Values = append(s.Values, p.observation(e, "sample"))
	}
	if s.Every < minEvery {
		p.fault(n.Line, "add `every: 25ms`", "sample every %v; %v is the shortest", s.Every, minEvery)
		s.Every = minEvery
	}
	return s
}

func (p *figureParser) loads(n *yaml.Node) []figures.Load {
	var all []figures.Load
	for _, e := range p.entries(n, "loads") {
		l := figures.Load{Name: e.key, Clients: 1, Times: 1}
		for _, in := range p.entries(e.value, "load "+e.key) {
			switch in.key {
			case "clients", "times":
				n, err := strconv.Atoi(p.text(in.value, in.key))
				if err != nil || n < 1 {
					p.fault(in.value.Line, "a number from 1", "%s is %q", in.key, in.value.Value)
					continue
				}
				if in.key == "clients" {
					l.Clients = n
				} else {
					l.Times = n
				}
			case "steps":
				l.Steps = p.loadSteps(in.value)
			default:
				p.unknown(in, "a load", "clients", "times", "steps")
			}
		}
		if l.Clients > maxClients || l.Clients*l.Times > maxRounds {
			p.fault(e.line, "fewer of them show the same", "load %q is over the bounds: %d clients and %d rounds fit", e.key, maxClients, maxRounds)
		}
		if len(l.Steps) == 0 {
			p.fault(e.line, "give it `steps:`", "load %q does nothing", e.key)
		}
		all = append(all, l)
	}
	return all
}

// loadSteps reads what each client of a load does: `do:` steps as in programs,
// with retry.
func (p *figureParser) loadSteps(n *yaml.Node) []figures.Instruction {
	var all []figures.Instruction
	known := map[string]bool{"self": true, "round": true}
	for _, item := range p.items(n, "steps") {
		s := figures.Instruction{Step: figures.Step{Line: item.Line + p.offset}}
		send := figures.Send{}
		for _, e := range p.entries(item, "a step of a load") {
			switch e.key {
			case "do":
				send.Command = p.commandLine(e.value, p.text(e.value, "do"))
			case "retry":
				send.Retry = p.retry(e.value)
			case "else":
				s.Stop = p.elseStop(e)
			default:
				if !p.shared(e, &s.Step) {
					p.unknown(e, "a step of a load", "do", "retry", "as", "else", "note")
				}
			}
		}
		if send.Command.Source == "" {
			p.fault(item.Line, "write `do: COMMAND`", "a step of a load does nothing")
			continue
		}
		p.unbound(send.Command.Names(), s.Line, known, "a command")
		if s.As != "" {
			known[s.As] = true
		}
		s.Does = send
		all = append(all, s)
	}
	return all
}

// checkTimes finds what can't be timed.
func (p *figureParser) checkTimes(path *figures.Path) {
	if path.Sample != nil && len(path.Steps) == 0 {
		p.fault(path.Line-p.offset, "samples are read while steps run", "path %q samples, and has no steps", path.ID)
	}
	if d := path.Length(); d > maxTimed {
		p.fault(path.Line-p.offset, "scale it down, and say so", "path %q takes %v; %v fit", path.ID, d, maxTimed)
	}
	timed := path.Timed()
	for _, s := range path.Steps {
		if _, race := s.Does.(figures.Race); race && timed {
			p.fault(s.Line-p.offset, "in real time actors go side by side; give their steps the same `at`", "path %q has both times and a race", path.ID)
		}
	}
	if (&figures.Path{Steps: path.Setup}).Timed() {
		s := path.Setup[slices.IndexFunc(path.Setup, func(s figures.Step) bool { return (&figures.Path{Steps: []figures.Step{s}}).Timed() })]
		p.fault(s.Line-p.offset, "put it into the path's steps", "a setup can't be timed")
	}
}
