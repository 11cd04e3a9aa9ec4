package components

import (
	"fmt"
	"strings"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// exploreSpecimens are figures that run every schedule, with data that is hard
// to lay out.
func exploreSpecimens(engine sandbox.Engine) []specimen {
	var all []specimen
	add := func(title, dir string, f *figures.Figure, r *figures.Result) {
		f.Title = title // figures of a page are told apart by their titles
		all = append(all, specimen{Title: title, Dir: dir, Figure: f, Engine: engine, Run: &Run{Figure: f, Path: f.Paths[0], Result: r}})
	}
	f := scheduling("map", 3, "resource:lock", "exclusion")
	add("Every schedule: 324 of them, one condition", "", f, sampleMap(f, 324, engine))
	f = scheduling("map-two", 3, "resource:lock", "exclusion", "newest")
	add("Every schedule: two conditions", "", f, sampleMap(f, 768, engine))
	f = scheduling("map-shared", 4, "resource:lock", "exclusion")
	add("Every schedule: too many for a cell each", "", f, sampleShared(f, 1260, engine))
	f = scheduling("map-eight", 8, "emq:{orders:europe:priority}:job:JOB01JQ8Z3T5V6W7X8Y9Z0:lock", "at-most-one-worker-inside")
	f.Actors[2].Label = "worker-europe-west-4-priority-queue-consumer-17"
	add("Every schedule: eight actors, long names, a long run", "", f, sampleMap(f, 120, engine))
	f = scheduling("map-rtl", 3, "resource:lock", "exclusion")
	for i, label := range []string{"עובד א", "עובד ב", "עובד ג"} {
		f.Actors[i].Label = label
	}
	add("Every schedule, right to left", "rtl", f, sampleMap(f, 44, engine))
	f = scheduling("picked", 3, "resource:lock", "exclusion")
	add("One schedule, picked by the reader", "", f, samplePicked(f, engine))
	return all
}

// scheduling is a figure whose actors take a lock, work, and let it go, while
// its lease may lapse.
func scheduling(id string, actors int, key string, conditions ...string) *figures.Figure {
	f := &figures.Figure{ID: id, Title: "Every order of " + fmt.Sprint(actors) + " clients", Resource: key, Idle: "Point at a release to run every order of it."}
	p := &figures.Path{ID: "blind-del", Label: "blind DEL", Actor: "A", Static: "In some orders two clients are inside."}
	for i := range actors {
		name := string(rune('A' + i))
		f.Actors = append(f.Actors, figures.Actor{Name: name, Label: "client " + name})
		p.Programs = append(p.Programs, figures.Program{Actor: name, Steps: []figures.Instruction{
			{Step: figures.Step{Does: figures.Send{Actor: name, Command: expr.Command{Source: "SET " + key + " " + name + " NX PX 30000"}}}, Stop: true, Enter: true},
			{Step: figures.Step{Does: figures.Work{Actor: name}}, Leave: true},
			{Step: figures.Step{Does: figures.Send{Actor: name, Command: expr.Command{Source: "DEL " + key}}}},
		}})
	}
	p.Events = []figures.Event{{Does: figures.Lapse{Key: expr.Plain(key)}, Name: "lapse", Times: 1}}
	for _, c := range conditions {
		p.Always = append(p.Always, figures.Condition{Name: c})
	}
	safe := *p
	safe.ID, safe.Label, safe.Static = "token-checked", "token-checked release", "In no order are two clients inside."
	f.Paths = []*figures.Path{p, &safe}
	return f
}

// someSchedules are n schedules in which each actor moves three times and the
// lease lapses once, in the order of the contract: of each beginning of two
// transitions equally many.
func someSchedules(moves []string, n int) []string {
	left := make([]int, len(moves))
	length := 0
	for i, m := range moves {
		left[i] = 3
		if m == "lapse" {
			left[i] = 1
		}
		length += left[i]
	}
	each := n/(len(moves)*len(moves)-1) + 1
	var all []string
	var walk func(made []string, quota int) int
	walk = func(made []string, quota int) int {
		if len(made) == length {
			all = append(all, strings.Join(made, "."))
			return 1
		}
		n := 0
		for i, m := range moves {
			if left[i] == 0 || n >= quota {
				continue
			}
			left[i]--
			if len(made) < 2 {
				walk(append(made, m), each)
			} else {
				n += walk(append(made, m), quota-n)
			}
			left[i]++
		}
		return n
	}
	walk(nil, each)
	return all[:min(n, len(all))]
}

// sampleMap is a result with n schedules, some of which break something.
func sampleMap(f *figures.Figure, n int, engine sandbox.Engine) *figures.Result {
	p := f.Paths[0]
	r := sampleReplay(f, engine)
	e := &figures.Explored{States: n / 2, Complete: true, Violations: map[string]int{}, Counterexamples: map[string]string{}}
	for _, c := range p.Always {
		e.Conditions = append(e.Conditions, c.Name)
	}
	for i, s := range someSchedules(moveNames(p), n) {
		c := figures.Cell{Schedule: s, Schedules: 1, Condition: -1}
		for j, name := range e.Conditions {
			if i%27 > 21-3*j && i%27 < 26-2*j {
				c.Breaks |= 1 << j
				e.Violations[name]++
				if e.Counterexamples[name] == "" {
					e.Counterexamples[name] = s
				}
			}
		}
		if c.Breaks != 0 {
			c.Broken, c.Condition = 1, 0
		}
		e.Cells = append(e.Cells, c)
	}
	e.Schedules, e.Total = len(e.Cells), len(e.Cells)
	e.Counterexamples[e.Conditions[0]] = r.Schedule.Schedule
	e.Example, r.Schedule, r.Next = r.Schedule, nil, nil
	r.Explored = e
	r.Verdict = fmt.Sprintf("%d of %d orders let two clients in.", e.Violations[e.Conditions[0]], e.Schedules)
	return r
}

// sampleShared is a result whose cells stand for many schedules each.
func sampleShared(f *figures.Figure, cells int, engine sandbox.Engine) *figures.Result {
	r := sampleMap(f, cells, engine)
	e := r.Explored
	e.Schedules = 0
	for i := range e.Cells {
		c := &e.Cells[i]
		moves := strings.Split(c.Schedule, ".")
		c.Schedule = strings.Join(moves[:len(moves)-3], ".")
		c.Schedules = 12
		if c.Broken > 0 {
			c.Broken = 1 + i%12
		}
		e.Schedules += c.Schedules
	}
	e.Total = e.Schedules
	return r
}

// samplePicked is a schedule half way that has just broken a condition.
func samplePicked(f *figures.Figure, engine sandbox.Engine) *figures.Result {
	r := sampleReplay(f, engine)
	r.Trace = r.Trace[:6]
	r.Schedule.Schedule, r.Schedule.Complete, r.Schedule.Steps = "A.A.lapse.B.A.C", false, 6
	r.Schedule.Inside = []string{"B", "C"}
	r.Schedule.Shortest, r.Schedule.Earliest = 10, 6
	r.Next = []string{"B", "C"}
	r.Resource.After = *r.Trace[5].Key
	return r
}

// sampleReplay is the lost-lock deletion, run to its end.
func sampleReplay(f *figures.Figure, engine sandbox.Engine) *figures.Result {
	key, condition := f.Resource, f.Paths[0].Always[0].Name
	none := figures.KeyState{Type: "none", TTL: -2}
	holds := func(actor string) figures.KeyState {
		return figures.KeyState{Type: "string", Text: actor, TTL: 29_999}
	}
	entry := func(actor, command string, reply any, k figures.KeyState, inside ...string) figures.Entry {
		return figures.Entry{Phase: figures.PhaseSteps, Actor: actor, Command: command, Reply: reply, Key: &k, Inside: inside}
	}
	event := func(actor, text string, k figures.KeyState, inside ...string) figures.Entry {
		return figures.Entry{Phase: figures.PhaseSteps, Actor: actor, Event: text, Key: &k, Inside: inside}
	}
	set := func(actor string) string { return "SET " + key + " " + actor + " NX PX 30000" }
	r := &figures.Result{
		Asked: figures.Asked{Figure: f.ID, Path: f.Paths[0].ID}, Judgement: figures.Judgement{Status: figures.Broken}, Engine: engine, Commands: 1866, TookUS: 25_800,
		Resource: &figures.Change{Key: key, Before: none, After: none},
		Trace: []figures.Entry{
			entry("A", set("A"), "OK", holds("A"), "A"),
			event("A", "work", holds("A")),
			event("", "lapse "+key, none),
			entry("B", set("B"), "OK", holds("B"), "B"),
			entry("A", "DEL "+key, int64(1), none, "B"),
			entry("C", set("C"), "OK", holds("C"), "B", "C"),
			event("B", "work", holds("C"), "C"),
			entry("B", "DEL "+key, int64(1), none, "C"),
			event("C", "work", none),
			entry("C", "DEL "+key, int64(0), none),
		},
		Replayed: figures.Replayed{Schedule: &figures.Replay{
			Schedule: "A.A.lapse.B.A.C.B.B.C.C", Complete: true, Broken: []string{condition}, Inside: []string{}, Steps: 10,
			Why: fmt.Sprintf("Step 6 breaks %s: %s is answered OK to %s, and now %s and %s are inside together.", condition, f.Label("C"), set("C"), f.Label("B"), f.Label("C")),
		}},
	}
	r.Trace[5].Breaks = []string{condition}
	for i := range r.Trace {
		r.Trace[i].AtUS = int64(180 * (i + 1))
	}
	r.Verdict = r.Schedule.Why
	return r
}
