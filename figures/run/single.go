package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// A singleRun is one path on its way. Commands wait in pending until a reply is
// needed, so that a run costs as few round trips as its path allows.
type singleRun struct {
	servers
	fig    *figures.Figure
	path   *figures.Path
	own    map[string]bool
	conns  map[string]*sandbox.Conn // by actor, or other client of the path
	env    map[string]any
	result *figures.Result
	start  time.Time

	pending []pending
	on      string // where the pending commands go: see where
	unbound map[string]bool
	leased  []string // arguments of the commands so far, to know a key that has lapsed from one that never was
	races   int
	kept    *punctuality // of a run by the clock

	received map[string]int64 // commands of an actor that the server had counted before the steps
}

func newRun(fig *figures.Figure, path *figures.Path, plan *plan, on servers) *singleRun {
	most := len(path.Setup) + len(path.Steps) + len(path.Observe)
	r := &singleRun{
		fig: fig, path: path, servers: on,
		own:   map[string]bool{},
		conns: map[string]*sandbox.Conn{},
		env:   map[string]any{},
		result: &figures.Result{
			Asked: figures.Asked{Figure: fig.ID, Path: path.ID}, Values: map[string]any{}, State: map[string]any{},
			Trace: make([]figures.Entry, 0, most),
		},
		start:   time.Now(),
		pending: make([]pending, 0, most+2), // and the two looks at the key
	}
	maps.Copy(r.own, plan.own)
	return r
}

// pending is a command that hasn't been sent yet.
type pending struct {
	command sandbox.Command
	entry   int // index into the trace; -1 for what the site reads for itself
	as      string
	promise *expr.Promise
	then    func(sandbox.Value)
}

func (r *singleRun) close() {
	for _, c := range r.conns {
		c.Close()
	}
}

func (r *singleRun) all(ctx context.Context) error {
	var before, after figures.KeyState
	if err := r.begin(ctx, &before); err != nil {
		return err
	}
	if err := r.steps(ctx, r.path.Steps, figures.PhaseSteps); err != nil {
		return err
	}
	return r.end(ctx, &before, &after)
}

// begin connects the actors, runs the setup, and looks at the protected key.
func (r *singleRun) begin(ctx context.Context, before *figures.KeyState) error {
	for actor := range r.own {
		if err := r.connect(ctx, actor); err != nil {
			return err
		}
	}
	if err := r.steps(ctx, r.path.Setup, figures.PhaseSetup); err != nil {
		return err
	}
	if err := r.tally(ctx); err != nil {
		return err
	}
	return r.peek(ctx, before)
}

// end reads what is observed, and judges.
func (r *singleRun) end(ctx context.Context, before, after *figures.KeyState) error {
	if err := r.observe(ctx); err != nil {
		return err
	}
	if err := r.peek(ctx, after); err != nil {
		return err
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if r.fig.Resource != "" {
		r.result.Resource = &figures.Change{Key: r.fig.Resource, Before: *before, After: *after}
	}
	r.result.TookUS = time.Since(r.start).Microseconds()
	if r.kept != nil && r.kept.late() > 0 {
		tooLate(r.result, r.path, r.kept.late(), r.kept.slack)
		return nil
	}
	figures.Judge(r.result, r.path, r.env)
	return nil
}

func (r *singleRun) steps(ctx context.Context, steps []figures.Step, phase figures.Phase) error {
	for _, s := range steps {
		if err := r.step(ctx, s, phase); err != nil {
			return err
		}
	}
	return nil
}

func (r *singleRun) step(ctx context.Context, s figures.Step, phase figures.Phase) error {
	switch does := s.Does.(type) {
	case figures.Send:
		return r.send(ctx, s, does, phase)
	case figures.Work:
		r.event(s, phase, s.Event())
	case figures.Wait:
		if err := r.flush(ctx); err != nil {
			return err
		}
		if err := pause(ctx, does.For); err != nil {
			return err
		}
		r.event(s, phase, s.Event())
	case figures.Crash:
		if err := r.flush(ctx); err != nil {
			return err
		}
		r.hangUp(does.Actor)
		r.event(s, phase, s.Event())
	case figures.Lapse:
		return r.lapse(ctx, s, does, phase)
	case figures.Race:
		return r.race(ctx, s, does, phase)
	case figures.Strike:
		return r.strike(ctx, s, does, phase)
	case figures.Stop, figures.Resume: // of paths in real time
	}
	return nil
}

// event records something that isn't a command, in its place among them.
func (r *singleRun) event(s figures.Step, phase figures.Phase, what string) {
	r.result.Trace = append(r.result.Trace, figures.Entry{
		AtUS: time.Since(r.start).Microseconds(), Phase: phase, Actor: s.Actor(), Event: what, Note: s.Note,
	})
}

// send queues a command. What is queued goes out first where the command comes
// down another connection, or reads a reply that hasn't come yet.
func (r *singleRun) send(ctx context.Context, s figures.Step, send figures.Send, phase figures.Phase) error {
	if send.Target == "sql" || send.Target == "all" {
		return r.sendAlone(ctx, s, send, phase)
	}
	if err := r.ready(ctx, r.where(send), send.Command); err != nil {
		return err
	}
	args, line := send.Command.Fill(r.env)
	r.leased = append(r.leased, args...)
	r.queue(pending{command: sandbox.Cmd(args...), as: s.As, promise: s.Promise},
		figures.Entry{Phase: phase, Actor: send.Actor, Target: send.Target, Command: line, Name: s.As, Note: s.Note, Line: s.Line})
	return nil
}

// ready sends what is queued if the next command can't join it.
func (r *singleRun) ready(ctx context.Context, on string, c expr.Command) error {
	waits := on != r.on
	for _, n := range c.Names() {
		waits = waits || r.unbound[n.Root]
	}
	if waits {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.on = on
	return nil
}

func (r *singleRun) queue(p pending, e figures.Entry) {
	p.entry = len(r.result.Trace)
	r.result.Trace = append(r.result.Trace, e)
	r.result.Commands++
	if p.as != "" {
		if r.unbound == nil {
			r.unbound = map[string]bool{}
		}
		r.unbound[p.as] = true
	}
	r.pending = append(r.pending, p)
}

// flush sends what is queued in one round trip and takes the replies in.
func (r *singleRun) flush(ctx context.Context) error {
	if len(r.pending) == 0 {
		return nil
	}
	commands := make([]sandbox.Command, len(r.pending))
	for i, p := range r.pending {
		commands[i] = p.command
	}
	replies, err := r.do(ctx, r.on, commands)
	if err != nil {
		return err
	}
	at := time.Since(r.start).Microseconds()
	for i, p := range r.pending {
		r.take(p, replies[i], at)
	}
	r.pending, r.unbound = r.pending[:0], nil
	return nil
}

func (r *singleRun) take(p pending, reply sandbox.Value, at int64) {
	if p.then != nil {
		p.then(reply)
		return
	}
	e := &r.result.Trace[p.entry]
	e.AtUS, e.Reply = at, reply
	_, e.Error = reply.(sandbox.Error)
	if p.promise != nil && !p.promise.Matches(reply) {
		e.Promise = p.promise.String()
	}
	if p.as != "" {
		r.env[p.as] = reply
		r.result.Values[p.as] = reply
	}
}

// lapse waits until the server has expired a key.
func (r *singleRun) lapse(ctx context.Context, s figures.Step, lapse figures.Lapse, phase figures.Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	key := lapse.Key.Fill(r.env)
	if err := r.expire(ctx, s, key, slices.Contains(r.leased, key), figures.MaxWait); err != nil {
		return err
	}
	r.event(s, phase, "lapse "+key)
	return nil
}

// expire waits until a key has expired. One that isn't there is a fault unless it was
// leased before, and so is one with more than most left.
func (r *singleRun) expire(ctx context.Context, s figures.Step, key string, leased bool, most time.Duration) error {
	fault := func(hint, format string, args ...any) error {
		return figures.Fault{File: r.fig.File, Line: s.Line, Message: fmt.Sprintf(format, args...), Hint: hint}
	}
	for first := true; ; first = false {
		replies, err := r.do(ctx, r.home(), []sandbox.Command{sandbox.Cmd("PTTL", key)})
		if err != nil {
			return err
		}
		left, _ := replies[0].(int64)
		switch {
		case left == -1:
			return fault("it has no expiry; set it with PX", "lapse: %s holds no lease", key)
		case left == -2 && first && !leased:
			return fault("set it with PX first", "lapse: there is no key %s", key)
		case left == -2:
			return nil
		case left > most.Milliseconds():
			return fault("give it a short lease, such as PX 20", "lapse: %s has %d ms left; a run may wait %v", key, left, most)
		}
		// A key is gone once the clock has passed its deadline, so one
		// millisecond more than what is left is enough.
		if err := pause(ctx, time.Duration(left+1)*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, or ends with the run.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return sandbox.Ended(ctx)
	}
}
