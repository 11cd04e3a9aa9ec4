package figures

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/sandbox"
)

// servers are what a run has been lent: one database or several servers, and
// an SQL store where the path uses one.
type servers struct {
	db      *sandbox.DB
	cluster *sandbox.Cluster
	sql     *sandbox.SQLRun
}

func newRun(fig *Figure, path *Path, on servers) *singleRun {
	most := len(path.Setup) + len(path.Steps) + len(path.Observe)
	r := &singleRun{
		fig: fig, path: path, servers: on,
		own:   map[string]bool{},
		conns: map[string]*sandbox.Conn{},
		env:   map[string]any{},
		result: &Result{
			Figure: fig.ID, Path: path.ID, Values: map[string]any{}, State: map[string]any{},
			Trace: make([]Entry, 0, most),
		},
		start:   time.Now(),
		pending: make([]pending, 0, most+2), // and the two looks at the key
	}
	maps.Copy(r.own, path.own)
	return r
}

// ownConnections are the actors for whom it matters that their commands come
// down a connection of their own: one that crashes, blocks, watches, opens a
// transaction, or whose commands the server is asked to count.
func ownConnections(path *Path) map[string]bool {
	own := map[string]bool{}
	for _, s := range slices.Concat(path.Setup, path.Steps) {
		switch s.Kind {
		case Crash:
			own[s.Actor] = true
		case Send:
			if sandbox.Stateful(s.Command.sketch()) {
				own[s.Actor] = true
			}
		}
	}
	for _, o := range path.Observe {
		if o.Received != "" {
			own[o.Received] = true
		}
	}
	return own
}

// usesSQL tells whether a path speaks to the SQL store.
func usesSQL(path *Path) bool {
	sends := func(s Step) bool { return s.Target == "sql" }
	return slices.ContainsFunc(slices.Concat(path.Setup, path.Steps), func(s Step) bool { return sends(s) || slices.ContainsFunc(s.Race, sends) }) ||
		slices.ContainsFunc(path.Observe, observesSQL) || path.Sample != nil && slices.ContainsFunc(path.Sample.Values, observesSQL)
}

func observesSQL(o Observation) bool { return o.Target == "sql" }

// A singleRun is one path on its way. Commands wait in pending until a reply is
// needed, so that a run costs as few round trips as its path allows.
type singleRun struct {
	servers
	fig    *Figure
	path   *Path
	own    map[string]bool
	conns  map[string]*sandbox.Conn // by actor, or other client of the path
	env    map[string]any
	result *Result
	start  time.Time

	pending []pending
	on      string // where the pending commands go: see where
	unbound map[string]bool
	leased  []string // arguments of the commands so far, to know a key that has lapsed from one that never was
	races   int

	received map[string]int64 // commands of an actor that the server had counted before the steps
}

// pending is a command that hasn't been sent yet.
type pending struct {
	command sandbox.Command
	entry   int // index into the trace; -1 for what the site reads for itself
	as      string
	promise *Value
	then    func(sandbox.Value)
}

func (r *singleRun) close() {
	for _, c := range r.conns {
		c.Close()
	}
}

// connect gives a client of the path a connection of its own. To several servers
// and to the SQL store it has one as soon as it sends something.
func (r *singleRun) connect(ctx context.Context, client string) error {
	r.own[client] = true
	if r.cluster != nil || r.conns[client] != nil {
		return nil
	}
	conn, err := r.db.Conn(ctx)
	if err == nil {
		r.conns[client] = conn
	}
	return err
}

// hangUp cuts an actor's connections.
func (r *singleRun) hangUp(actor string) {
	if r.cluster != nil {
		r.cluster.HangUp(actor)
	} else {
		r.conns[actor].Close()
	}
	if r.sql != nil {
		r.sql.Cut(actor)
	}
}

func (r *singleRun) all(ctx context.Context) error {
	var before, after KeyState
	if err := r.begin(ctx, &before); err != nil {
		return err
	}
	if err := r.steps(ctx, r.path.Steps, PhaseSteps); err != nil {
		return err
	}
	return r.end(ctx, &before, &after)
}

// begin connects the actors, runs the setup, and looks at the protected key.
func (r *singleRun) begin(ctx context.Context, before *KeyState) error {
	for actor := range r.own {
		if err := r.connect(ctx, actor); err != nil {
			return err
		}
	}
	if err := r.steps(ctx, r.path.Setup, PhaseSetup); err != nil {
		return err
	}
	if err := r.tally(ctx); err != nil {
		return err
	}
	return r.peek(ctx, before)
}

// end reads what is observed, and judges.
func (r *singleRun) end(ctx context.Context, before, after *KeyState) error {
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
		r.result.Resource = &Change{Key: r.fig.Resource, Before: *before, After: *after}
	}
	r.result.TookUS = time.Since(r.start).Microseconds()
	judge(r.result, r.path, r.env)
	return nil
}

func (r *singleRun) steps(ctx context.Context, steps []Step, phase Phase) error {
	for _, s := range steps {
		if err := r.step(ctx, s, phase); err != nil {
			return err
		}
	}
	return nil
}

func (r *singleRun) step(ctx context.Context, s Step, phase Phase) error {
	switch s.Kind {
	case Send:
		return r.send(ctx, s, phase)
	case Work:
		r.event(s, phase, strings.TrimSuffix("work: "+s.Text, ": "))
	case Wait:
		if err := r.flush(ctx); err != nil {
			return err
		}
		if err := pause(ctx, s.For); err != nil {
			return err
		}
		r.event(s, phase, "wait "+s.For.String())
	case Crash:
		if err := r.flush(ctx); err != nil {
			return err
		}
		r.hangUp(s.Actor)
		r.event(s, phase, "crash "+s.Actor)
	case Lapse:
		return r.lapse(ctx, s, phase)
	case Race:
		return r.race(ctx, s, phase)
	case Cut, Sync, Kill, Promote, Down, Up:
		return r.strike(ctx, s, phase)
	case Stop, Resume: // of paths in real time
	}
	return nil
}

// event records something that isn't a command, in its place among them.
func (r *singleRun) event(s Step, phase Phase, what string) {
	r.result.Trace = append(r.result.Trace, Entry{
		AtUS: time.Since(r.start).Microseconds(), Phase: phase, Actor: s.Actor, Event: what, Note: s.Note,
	})
}

// send queues a command. What is queued goes out first where the command comes
// down another connection, or reads a reply that hasn't come yet.
func (r *singleRun) send(ctx context.Context, s Step, phase Phase) error {
	if s.Target == "sql" || s.Target == "all" {
		return r.sendAlone(ctx, s, phase)
	}
	if err := r.ready(ctx, r.where(s), s.Command); err != nil {
		return err
	}
	args, line := s.Command.fill(r.env)
	r.leased = append(r.leased, args...)
	r.queue(pending{command: sandbox.Cmd(args...), as: s.As, promise: s.Promise},
		Entry{Phase: phase, Actor: s.Actor, Target: s.Target, Command: line, Name: s.As, Note: s.Note, line: s.Line})
	return nil
}

// ready sends what is queued if the next command can't join it.
func (r *singleRun) ready(ctx context.Context, on string, c Command) error {
	waits := on != r.on
	for _, n := range c.line.names() {
		waits = waits || r.unbound[n.root]
	}
	if waits {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	r.on = on
	return nil
}

func (r *singleRun) queue(p pending, e Entry) {
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
	if p.promise != nil && !p.promise.matches(reply) {
		e.Promise = p.promise.String()
	}
	if p.as != "" {
		r.env[p.as] = reply
		r.result.Values[p.as] = reply
	}
}

// where is the connection that a step's command goes down: "" the shared one to
// the one database, "A" an actor's own, "@n1" the shared one to one of several
// servers, "A@n1" an actor's own.
func (r *singleRun) where(s Step) string {
	client := ""
	if r.own[s.Actor] {
		client = s.Actor
	}
	if s.Target != "" {
		return client + "@" + s.Target
	}
	return client + r.home()
}

// home is where the site's own reads go: the database, or the first server
// that is up.
func (r *singleRun) home() string {
	if r.cluster == nil {
		return ""
	}
	if up := r.cluster.Up(); len(up) > 0 {
		return "@" + up[0]
	}
	return "@" + r.cluster.Nodes()[0]
}

// do sends commands in one round trip.
func (r *singleRun) do(ctx context.Context, on string, commands []sandbox.Command) ([]sandbox.Value, error) {
	client, node, several := strings.Cut(on, "@")
	switch {
	case several:
		return r.cluster.Do(ctx, client, node, commands)
	case client == "":
		return r.db.Do(ctx, commands)
	}
	return r.conns[client].Do(ctx, commands)
}

// lapse waits until the server has expired a key.
func (r *singleRun) lapse(ctx context.Context, s Step, phase Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	key := s.Key.fill(r.env)
	for first := true; ; first = false {
		replies, err := r.do(ctx, r.home(), []sandbox.Command{sandbox.Cmd("PTTL", key)})
		if err != nil {
			return err
		}
		left, _ := replies[0].(int64)
		switch {
		case left == -1:
			return Fault{File: r.fig.File, Line: s.Line, Message: fmt.Sprintf("lapse: %s holds no lease", key), Hint: "it has no expiry; set it with PX"}
		case left == -2 && first && !slices.Contains(r.leased, key):
			return Fault{File: r.fig.File, Line: s.Line, Message: fmt.Sprintf("lapse: there is no key %s", key), Hint: "set it with PX first"}
		case left == -2:
			r.event(s, phase, "lapse "+key)
			return nil
		case left > maxWait.Milliseconds():
			return Fault{File: r.fig.File, Line: s.Line, Message: fmt.Sprintf("lapse: %s has %d ms left; a run may wait %v", key, left, maxWait), Hint: "give it a short lease, such as PX 20"}
		}
		// A key is gone once the clock has passed its deadline, so one
		// millisecond more than what is left is enough.
		if err := pause(ctx, time.Duration(left)*time.Millisecond+time.Millisecond); err != nil {
			return err
		}
	}
}

// race sends its steps at the same moment, each down a connection of its own.
func (r *singleRun) race(ctx context.Context, s Step, phase Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.races++
	type lane struct {
		step  Step
		args  []string
		line  string
		reply sandbox.Value
		at    time.Time
		err   error
	}
	lanes := make([]lane, len(s.Race))
	taken := map[string]bool{}
	for i, step := range s.Race {
		racer := step
		for taken[racer.Actor] {
			racer.Actor += "'" // one actor twice: a connection for each
		}
		taken[racer.Actor] = true
		if err := r.connect(ctx, racer.Actor); err != nil {
			return err
		}
		args, line := step.words(r.env)
		r.leased = append(r.leased, args...)
		lanes[i] = lane{step: racer, args: args, line: line}
		r.result.Trace = append(r.result.Trace, Entry{Phase: phase, Actor: step.Actor, Target: step.Target, Command: line, Name: step.As, Note: step.Note, Race: r.races, line: step.Line})
		r.result.Commands++
	}
	start, done := make(chan struct{}), make(chan int, len(lanes))
	for i := range lanes {
		go func() {
			<-start
			l := &lanes[i]
			l.reply, l.err = r.ask(ctx, l.step, l.args, l.line)
			l.at = time.Now()
			done <- i
		}()
	}
	close(start)
	for range lanes {
		<-done
	}
	votes := make([]any, len(lanes))
	first := len(r.result.Trace) - len(lanes)
	for i, l := range lanes {
		if l.err != nil {
			return l.err
		}
		votes[i] = l.reply
		r.take(pending{entry: first + i, as: s.Race[i].As, promise: s.Race[i].Promise}, l.reply, l.at.Sub(r.start).Microseconds())
	}
	slices.SortStableFunc(r.result.Trace[first:], func(a, b Entry) int { return int(a.AtUS - b.AtUS) })
	if s.As != "" {
		r.env[s.As], r.result.Values[s.As] = votes, votes
	}
	return nil
}

// observe queues the reads that follow the steps.
func (r *singleRun) observe(ctx context.Context) error {
	for _, o := range r.path.Observe {
		if o.Received != "" {
			if err := r.flush(ctx); err != nil {
				return err
			}
			n, err := r.conns[o.Received].Received(ctx)
			if err != nil {
				return err
			}
			n -= r.received[o.Received]
			r.env[o.Name], r.result.State[o.Name] = n, n
			continue
		}
		if o.Target == "sql" || o.Target == "all" {
			if err := r.send(ctx, Step{Target: o.Target, Command: o.Command, As: o.Name}, PhaseObserve); err != nil {
				return err
			}
			r.result.State[o.Name] = r.env[o.Name]
			delete(r.result.Values, o.Name)
			continue
		}
		if err := r.ready(ctx, r.where(Step{Target: o.Target}), o.Command); err != nil {
			return err
		}
		args, line := o.Command.fill(r.env)
		at := len(r.result.Trace)
		r.queue(pending{command: sandbox.Cmd(args...)}, Entry{Phase: PhaseObserve, Target: o.Target, Command: line, Name: o.Name})
		r.pending[len(r.pending)-1].then = func(v sandbox.Value) {
			e := &r.result.Trace[at]
			e.AtUS, e.Reply = time.Since(r.start).Microseconds(), v
			_, e.Error = v.(sandbox.Error)
			r.env[o.Name], r.result.State[o.Name] = v, v
		}
	}
	return nil
}

// tally asks how many commands the server has counted before the steps.
func (r *singleRun) tally(ctx context.Context) error {
	for _, o := range r.path.Observe {
		if o.Received == "" {
			continue
		}
		if err := r.flush(ctx); err != nil {
			return err
		}
		n, err := r.conns[o.Received].Received(ctx)
		if err != nil {
			return err
		}
		if r.received == nil {
			r.received = map[string]int64{}
		}
		r.received[o.Received] = n
	}
	return nil
}

// peek queues a look at the protected key, where the figure has one.
func (r *singleRun) peek(ctx context.Context, into *KeyState) error {
	if r.fig.Resource == "" {
		return nil
	}
	if err := r.ready(ctx, r.home(), Command{}); err != nil {
		return err
	}
	r.pending = append(r.pending, pending{
		command: sandbox.Peek(r.fig.Resource),
		then:    func(v sandbox.Value) { *into = keyState(v) },
	})
	return nil
}

// keyState reads the reply of a peek.
func keyState(v sandbox.Value) KeyState {
	parts, ok := v.([]any)
	if !ok || len(parts) != 3 {
		return KeyState{Type: "none", TTL: -2}
	}
	s := KeyState{Type: Print(parts[0])}
	s.TTL, _ = parts[2].(int64)
	switch value := parts[1].(type) {
	case []any:
		s.Text = listText(s.Type, value)
	case nil:
	default:
		s.Text = Print(value)
	}
	return s
}

// listText puts a collection on one line: "fence 34, value x".
func listText(kind string, items []any) string {
	step := 1
	if kind == "hash" || kind == "zset" {
		step = 2
	}
	var parts []string
	for i := 0; i+step <= len(items); i += step {
		part := Print(items[i])
		if step == 2 {
			part += " " + Print(items[i+1])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// judge finds the first rule that holds. Where none does it says so, and shows
// the replies: a verdict is never guessed.
func judge(result *Result, path *Path, env map[string]any) {
	for _, rule := range path.Verdicts {
		if rule.When == nil || rule.When.holds(env) {
			result.Status = rule.Status
			result.Verdict, result.Pattern = rule.Text.render(env)
			return
		}
	}
	var shown []string
	for _, e := range result.Trace {
		if e.Name != "" {
			shown = append(shown, e.Name+" = "+Print(e.Reply))
		}
	}
	result.Verdict = "No rule of this figure fits what the server answered"
	if len(shown) > 0 {
		result.Verdict += ": " + strings.Join(shown, ", ")
	}
	result.Verdict += "."
}

// pause waits, or ends with the run.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return late(ctx)
	}
}

// late words the end of a run's context: past its limit, or given up.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return sandbox.ErrLate
	}
	return ctx.Err()
}
