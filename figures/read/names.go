package read

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
)

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
func (p *figureParser) checkSteps(path *figures.Path) {
	bound := map[string]bool{}
	crashed := map[string]int{}
	var waits time.Duration
	for s := range figures.All(slices.Concat(path.Setup, path.Steps)) {
		if line, dead := crashed[s.Actor()]; dead && s.Actor() != "" {
			p.fault(s.Line-p.offset, fmt.Sprintf("it crashed in line %d; let another actor go on", line), "%s acts after its crash", s.Actor())
		}
		switch does := s.Does.(type) {
		case figures.Send:
			p.unbound(does.Command.Names(), s.Line, bound, "a command")
		case figures.Crash:
			crashed[does.Actor] = s.Line
		case figures.Wait:
			waits += does.For
		}
		if s.As != "" {
			bound[s.As] = true
		}
	}
	if waits > figures.MaxWait {
		p.fault(path.Line-p.offset, fmt.Sprintf("a run may wait %v in all", figures.MaxWait), "path %q waits %v", path.ID, waits)
	}
	for _, o := range path.Observe {
		if bound[o.Name] {
			p.fault(o.Line-p.offset, "call one of them otherwise", "%q is both a reply and an observation", o.Name)
		}
	}
}

// unbound finds names that nothing has bound yet.
func (p *figureParser) unbound(names []expr.Name, line int, bound map[string]bool, what string) {
	for _, n := range names {
		if !bound[n.Root] {
			p.fault(line-p.offset, Nearest(n.Root, slices.Sorted(maps.Keys(bound))), "%s reads %q, which nothing before it binds", what, n.Root)
		}
	}
}

// checkNames finds names in rules and conditions that nothing ever binds. A
// rule of the figure may read what only some of its paths bind.
func (p *figureParser) checkNames(shared []figures.Rule) {
	all := map[string]bool{}
	for _, path := range p.fig.Paths {
		own := namesOf(path)
		maps.Copy(all, own)
		for _, rule := range path.Verdicts[:len(path.Verdicts)-len(shared)] {
			p.checkRule(rule, own)
		}
		p.checkPrograms(path)
	}
	for _, rule := range shared {
		p.checkRule(rule, all)
	}
}

func (p *figureParser) checkRule(rule figures.Rule, known map[string]bool) {
	if rule.When != nil {
		p.never(rule.When.Names, rule.Line, known, "when")
	}
	p.never(rule.Text.Names(), rule.Line, known, "text")
}

func (p *figureParser) never(names []expr.Name, line int, known map[string]bool, what string) {
	for _, n := range names {
		full := n.Root
		if n.Member != "" {
			full += "." + n.Member
		}
		if known[full] || known[n.Root] && (n.Member == "" || !known[n.Root+"."]) {
			continue
		}
		p.fault(line-p.offset, Nearest(full, slices.DeleteFunc(slices.Sorted(maps.Keys(known)), func(k string) bool { return strings.HasSuffix(k, ".") })),
			"%s, column %d: nothing binds %q", what, n.Column, full)
	}
}

// namesOf are all that a path's rules may read. An entry "A." says that the
// members of A are known one by one.
func namesOf(path *figures.Path) map[string]bool {
	known := map[string]bool{}
	for _, o := range path.Observe {
		known[o.Name] = true
	}
	for s := range figures.All(slices.Concat(path.Setup, path.Steps)) {
		if s.As != "" {
			known[s.As] = true
			if send, ok := s.Does.(figures.Send); ok && send.Retry != nil {
				known[s.As+"_tries"], known[s.As+"_ms"] = true, true
			}
		}
	}
	if path.Sample != nil {
		known["samples"] = true
	}
	for _, l := range path.Loads {
		known[l.Name], known[l.Name+"."] = true, true
		for _, n := range []string{"sent", "took_ms", "done", "gave_up", "longest_ms"} {
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
func (p *figureParser) checkPrograms(path *figures.Path) {
	if !path.Explores() {
		return
	}
	known := p.namesOfPrograms(path)
	names := map[string]bool{}
	for _, c := range slices.Concat(path.Always, path.Finally) {
		if c.Expr != nil {
			p.never(c.Expr.Names, c.Line, known, c.Name)
		}
		if names[c.Name] {
			p.fault(c.Line-p.offset, "call one of them otherwise", "two conditions are called %q", c.Name)
		}
		names[c.Name] = true
	}
	for _, ev := range path.Events {
		if ev.If != nil {
			p.never(ev.If.Names, ev.Line, known, "if")
		}
		if crash, ok := ev.Does.(figures.Crash); ok && !slices.ContainsFunc(path.Programs, func(pr figures.Program) bool { return pr.Actor == crash.Actor }) {
			p.fault(ev.Line-p.offset, "", "%s has no program in path %q and can't crash", crash.Actor, path.ID)
		}
	}
	for _, s := range path.Setup {
		switch s.Does.(type) {
		case figures.Send, figures.Lapse:
		default:
			p.fault(s.Line-p.offset, "there time is moved by hand, by lapse", "the setup of programs can only send commands and lapse keys (path %q)", path.ID)
		}
	}
	for _, program := range path.Programs {
		own := maps.Clone(known)
		own["self"] = true
		for _, s := range program.Steps {
			if send, ok := s.Does.(figures.Send); ok {
				p.never(send.Command.Names(), s.Line, own, "a command")
			}
			if s.As != "" {
				own[s.As] = true
			}
		}
	}
}

// namesOfPrograms are all that the conditions and events of programs may read.
func (p *figureParser) namesOfPrograms(path *figures.Path) map[string]bool {
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
	return known
}
