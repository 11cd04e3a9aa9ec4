package components

import (
	"fmt"

	"lockstep/content"
	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// A specimen is a figure in one of its states.
type specimen struct {
	Title  string
	Dir    string
	Figure *figures.Figure
	Engine sandbox.Engine
	Run    *Run
	Busy   bool
}

// galleryPage is the page that the gallery's figures believe to stand on.
func galleryPage() *content.Page { return &content.Page{Title: "Gallery", URL: "/gallery"} }

func allStatuses() []figures.Status { return append(figures.Statuses(), figures.Late, figures.Unjudged) }

// specimens are figures in all their states, with data that is hard to lay out.
func specimens() []specimen {
	valkey := sandbox.Engine{Name: "valkey", Version: "8.0.1", Mode: sandbox.Managed}
	all := []specimen{
		{Title: "Idle: eight actors, long names, a key of sixty characters", Figure: eightActors("eight"), Engine: valkey},
		{Title: "Chinese labels", Figure: labelled("chinese", "丢失的锁", "resource:锁:订单:一二三四五", []string{"工作者甲：阻塞删除", "工作者乙：带令牌校验的释放操作，租约已过期", "工作者丙"}), Engine: valkey},
		{Title: "Hebrew, right to left", Dir: "rtl", Figure: labelled("hebrew", "המנעול שאבד", "resource:lock", []string{"עובד א: מחיקה עיוורת", "עובד ב: שחרור עם בדיקת אסימון", "עובד ג"}), Engine: valkey},
		{Title: "Nothing protected, values observed", Figure: observing("observing"), Engine: valkey},
		{Title: "One path", Figure: labelled("one", "One path only", "k", []string{"the only one"}), Engine: valkey},
		{Title: "Markup in names", Figure: labelled("markup", `</script><b>O'Brien & Co`, `k"' onfocus=x`, []string{`</script><b>bold</b>`, `" onfocus="x`, `O'Brien & Co`}), Engine: valkey},
	}
	for _, status := range allStatuses() {
		name := status.String()
		if status == figures.Unjudged {
			name = "unjudged"
		}
		f := eightActors("live-" + name)
		all = append(all, specimen{Title: "Live: " + name, Figure: f, Engine: valkey, Run: &Run{Figure: f, Path: f.Paths[2], Result: sample(f, f.Paths[2], status, valkey)}})
	}
	busy := labelled("busy", "A run under way", "resource:lock", []string{"blind DEL", "token-checked release"})
	all = append(all, specimen{Title: "Busy", Figure: busy, Engine: valkey, Run: &Run{Figure: busy, Path: busy.Paths[0]}, Busy: true})
	trouble := labelled("trouble", "A run that could not be", "resource:lock", []string{"blind DEL", "token-checked release"})
	all = append(all, specimen{Title: "Recorded, the sandbox being busy", Figure: trouble, Engine: valkey, Run: &Run{Figure: trouble, Path: trouble.Paths[1], Trouble: "The sandbox is busy; try again in a moment."}})
	mini := sandbox.Engine{Name: "miniredis", Version: "2.40.0", Mode: sandbox.Embedded}
	simulation := labelled("simulation", "On the stand-in", "resource:lock", []string{"blind DEL", "token-checked release"})
	all = append(all, specimen{Title: "Simulated", Figure: simulation, Engine: mini, Run: &Run{Figure: simulation, Path: simulation.Paths[0], Result: sample(simulation, simulation.Paths[0], figures.Broken, mini)}})
	all = append(all, exploreSpecimens(valkey)...)
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
