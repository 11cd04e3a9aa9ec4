package card

import (
	"fmt"
	"strings"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// A Specimen is a figure in one of its states.
type Specimen struct {
	Title  string
	Dir    string // "rtl"; else from left to right
	Figure *figures.Figure
	Stage  Stage
}

// Specimens are figures in all their states on one page, with data that is hard
// to lay out. What they show is made up.
func Specimens(page string) []Specimen {
	valkey := sandbox.Engine{Name: "valkey", Version: "8.0.1", Mode: sandbox.Managed}
	all := []Specimen{
		{Title: "Idle: eight actors, long names, a key of sixty characters", Figure: eightActors("eight"), Stage: Stage{Engine: valkey}},
		{Title: "Chinese labels", Figure: labelled("chinese", "丢失的锁", "resource:锁:订单:一二三四五", []string{"工作者甲：阻塞删除", "工作者乙：带令牌校验的释放操作，租约已过期", "工作者丙"}), Stage: Stage{Engine: valkey}},
		{Title: "Hebrew, right to left", Dir: "rtl", Figure: labelled("hebrew", "המנעול שאבד", "resource:lock", []string{"עובד א: מחיקה עיוורת", "עובד ב: שחרור עם בדיקת אסימון", "עובד ג"}), Stage: Stage{Engine: valkey}},
		{Title: "Nothing protected, values observed", Figure: observing("observing"), Stage: Stage{Engine: valkey}},
		{Title: "One path", Figure: labelled("one", "One path only", "k", []string{"the only one"}), Stage: Stage{Engine: valkey}},
		{Title: "Markup in names", Figure: labelled("markup", `</script><b>O'Brien & Co`, `k"' onfocus=x`, []string{`</script><b>bold</b>`, `" onfocus="x`, `O'Brien & Co`}), Stage: Stage{Engine: valkey}},
	}
	for _, status := range append(figures.Statuses(), figures.Late, figures.Unjudged) {
		name := status.String()
		if status == figures.Unjudged {
			name = "unjudged"
		}
		f := eightActors("live-" + name)
		all = append(all, Specimen{Title: "Live: " + name, Figure: f, Stage: Stage{Engine: valkey, Run: Run{Figure: f, Path: f.Paths[2], Result: sample(f, f.Paths[2], status, valkey)}}})
	}
	busy := labelled("busy", "A run under way", "resource:lock", []string{"blind DEL", "token-checked release"})
	all = append(all, Specimen{Title: "Busy", Figure: busy, Stage: Stage{Engine: valkey, Run: Run{Figure: busy, Path: busy.Paths[0]}, Busy: true}})
	trouble := labelled("trouble", "A run that could not be", "resource:lock", []string{"blind DEL", "token-checked release"})
	all = append(all, Specimen{Title: "Recorded, the sandbox being busy", Figure: trouble, Stage: Stage{Engine: valkey, Run: Run{Figure: trouble, Path: trouble.Paths[1], Trouble: "The sandbox is busy; try again in a moment."}}})
	mini := sandbox.Engine{Name: "miniredis", Version: "2.40.0", Mode: sandbox.Embedded}
	simulation := labelled("simulation", "On the stand-in", "resource:lock", []string{"blind DEL", "token-checked release"})
	all = append(all, Specimen{Title: "Simulated", Figure: simulation, Stage: Stage{Engine: mini, Run: Run{Figure: simulation, Path: simulation.Paths[0], Result: sample(simulation, simulation.Paths[0], figures.Broken, mini)}}})
	all = append(all, onServers(valkey)...)
	all = append(all, explored(valkey)...)
	for i := range all {
		all[i].Stage.Page, all[i].Stage.Number = page, i+1
	}
	return all
}

// labelled is a figure with one actor and one path for each label; the recorded
// verdicts go through the statuses.
func labelled(id, title, key string, labels []string) *figures.Figure {
	f := &figures.Figure{ID: id, Title: title, Resource: key, Idle: "Nothing was pointed at yet."}
	for i, label := range labels {
		actor := string(rune('A' + i))
		f.Actors = append(f.Actors, figures.Actor{Name: actor, Label: "client " + actor})
		text := "The recorded verdict of this path: " + label + "."
		f.Paths = append(f.Paths, &figures.Path{
			ID: fmt.Sprintf("p%d", i+1), Label: label, Actor: actor, Static: text,
			Verdicts: []figures.Rule{{Status: figures.Statuses()[i%5], Text: expr.Template{Source: text}}},
		})
	}
	return f
}

func eightActors(id string) *figures.Figure {
	f := labelled(id, "Eight workers, some with names that nobody would give them, reach for one key", "emq:{orders:europe:priority}:job:JOB01JQ8Z3T5V6W7X8Y9Z0:lock", []string{
		"worker A",
		"worker-europe-west-4-priority-queue-consumer-17",
		"blind DEL",
		"token-checked release, long after the lease is over",
		"SETNX, then EXPIRE",
		"F",
		"extend",
		"all at once",
	})
	f.Paths[3].Static = "A verdict that takes its time: the release reads 0, because the lease lapsed 40 ms ago and somebody else's token stands under the key; B's lock is left alone, B goes on working, and A learns that part of its work was done without the lock."
	f.Paths[3].Verdicts[0].Text.Source = f.Paths[3].Static
	f.Paths[6].Needs = []string{"SET IFEQ"}
	return f
}

func observing(id string) *figures.Figure {
	f := labelled(id, "K timers or one sweep", "", []string{"one timer for each job", "one sweep"})
	for _, p := range f.Paths {
		p.Observe = []figures.Observation{{Name: "timers"}, {Name: "sweep"}, {Name: "commands_received"}}
	}
	return f
}

// sample is a result in which every kind of entry stands.
func sample(f *figures.Figure, p *figures.Path, status figures.Status, engine sandbox.Engine) *figures.Result {
	key := figures.KeyState{Type: "string", Text: "abc", TTL: 29_998}
	return &figures.Result{
		Asked: figures.Asked{Figure: f.ID, Path: p.ID}, Judgement: figures.Judgement{Status: status, Verdict: p.Static}, Engine: engine, Commands: 9, TookUS: 23_480,
		Values:   map[string]any{"released": int64(1), "entered": "OK"},
		State:    map[string]any{"holder": "ccc"},
		Resource: &figures.Change{Key: f.Resource, Before: key, After: figures.KeyState{Type: "hash", Text: "state active, attempts 2, payload 0f8fad5b-d9cb-469f-a165-70867728950e", TTL: -1}},
		Trace: []figures.Entry{
			{AtUS: 210, Phase: figures.PhaseSetup, Actor: "A", Command: "SET resource:lock abc NX PX 20", Reply: "OK"},
			{AtUS: 21_310, Phase: figures.PhaseSetup, Event: "lapse resource:lock", Note: "A stalls past its lease."},
			{AtUS: 21_480, Phase: figures.PhaseSteps, Actor: "B", Command: "SET resource:lock xyz NX PX 30000", Reply: "OK", Race: 1},
			{AtUS: 21_481, Phase: figures.PhaseSteps, Actor: "C", Command: "SET resource:lock ccc NX PX 30000", Reply: nil, Race: 1},
			{AtUS: 21_700, Phase: figures.PhaseSteps, Actor: "C", Command: "EVAL release.lua 1 resource:lock abc", Reply: int64(1), Note: "DEL doesn't ask whose lock it is."},
			{AtUS: 21_730, Phase: figures.PhaseSteps, Event: "wait 20ms"},
			{AtUS: 21_760, Phase: figures.PhaseSteps, Actor: "B", Event: "crash B"},
			{AtUS: 22_100, Phase: figures.PhaseSteps, Actor: "A", Command: "EVAL emq_complete.lua 2 emq:{q}:active emq:{q}:job:JOB1 JOB1 1", Reply: sandbox.Error("EMQSTALE the claim is no longer the latest"), Error: true, Promise: "1"},
			{AtUS: 22_300, Phase: figures.PhaseSteps, Actor: "A", Command: "EVAL emq_claim.lua 2 emq:{q}:pending emq:{q}:active emq:{q}:job: 30000", Reply: []any{"JOB1", "payload", int64(2), []any{"nested", nil}}},
			{AtUS: 23_100, Phase: figures.PhaseObserve, Command: "GET resource:lock", Reply: "ccc"},
		},
	}
}

// onServers are figures with a topology: a failover, and a majority that is
// counted twice.
func onServers(engine sandbox.Engine) []Specimen {
	const take = "SET resource:lock %s NX PX 30000"
	sent := func(actor, target, token string, reply any) figures.Entry {
		return figures.Entry{Phase: figures.PhaseSteps, Actor: actor, Target: target, Command: fmt.Sprintf(take, token), Reply: reply}
	}
	event := func(text string) figures.Entry { return figures.Entry{Phase: figures.PhaseSteps, Event: text} }
	result := func(f *figures.Figure, status figures.Status, trace ...figures.Entry) Specimen {
		for i := range trace {
			trace[i].AtUS = int64(400 * (i + 1))
		}
		return Specimen{Title: f.Title, Figure: f, Stage: Stage{Engine: engine, Run: Run{Figure: f, Path: f.Paths[0], Result: &figures.Result{
			Asked: figures.Asked{Figure: f.ID, Path: f.Paths[0].ID}, Judgement: figures.Judgement{Status: status, Verdict: f.Paths[0].Static}, Engine: engine, Commands: 2, TookUS: 9_000, Trace: trace,
		}}}}
	}
	failover := labelled("failover", "Servers: the primary dies", "resource:lock", []string{"nothing had been copied", "it had been copied"})
	failover.Topology = figures.Topology{Replicas: 2}
	lost := result(failover, figures.Broken,
		event("cut replica"), event("cut replica2"), sent("A", "primary", "a-7c1e", "OK"), event("kill primary"), event("promote replica"), sent("B", "replica", "b-03fd", "OK"))
	lost.Stage.Run.Result.Resource = &figures.Change{Key: failover.Resource, Before: figures.KeyState{Type: "none", TTL: -2}, After: figures.KeyState{Type: "string", Text: "b-03fd", TTL: 29_999}}

	majority := labelled("majority", "Servers: a majority of five", "", []string{"one comes back empty", "three are down"})
	majority.Topology = figures.Topology{Independent: 5}
	majority.Paths[0].Observe = []figures.Observation{{Name: "holders", Target: "all", Command: expr.Command{Source: "GET resource:lock"}}}
	read := figures.Entry{Phase: figures.PhaseObserve, Target: "all", Command: "GET resource:lock", Name: "holders", Reply: []any{"a-7c1e", "a-7c1e", "b-03fd", "b-03fd"}}
	twice := result(majority, figures.Broken,
		sent("A", "n1", "a-7c1e", "OK"), sent("A", "n2", "a-7c1e", "OK"), sent("A", "n3", "a-7c1e", "OK"), event("down n3"), event("up n3"), event("down n5"),
		sent("B", "all", "b-03fd", []any{nil, nil, "OK", "OK"}), read)
	idle := *failover
	idle.ID, idle.Title = "failover-idle", "Servers, before a run"
	return []Specimen{{Title: idle.Title, Figure: &idle, Stage: Stage{Engine: engine}}, lost, twice}
}

// explored are figures that run every schedule, with data that is hard
// to lay out.
func explored(engine sandbox.Engine) []Specimen {
	var all []Specimen
	add := func(title, dir string, f *figures.Figure, r *figures.Result) {
		f.Title = title // figures of a page are told apart by their titles
		all = append(all, Specimen{Title: title, Dir: dir, Figure: f, Stage: Stage{Engine: engine, Run: Run{Figure: f, Path: f.Paths[0], Result: r}}})
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
