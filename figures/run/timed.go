package run

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"lockstep/figures"
	"lockstep/sandbox"
)

// timed runs a path in real time. Each actor is a lane of its own: its steps
// follow one another down its own connection, while those of others go on.
//
// A step with `at` starts at its moment; one without starts when the step
// before it is done. A step with `every` goes on beside all others, up to its
// `until` or the end of the path.
func (r *singleRun) timed(ctx context.Context, watch func(figures.Moment), hold func()) error {
	var before, after figures.KeyState
	for _, s := range r.path.Steps {
		if actor := s.Actor(); actor != "" {
			r.own[actor] = true
		}
	}
	if err := r.begin(ctx, &before); err != nil {
		return err
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	t := &timedRun{singleRun: r, watch: watch, hold: hold, lanes: map[string]*lane{}}
	for actor := range r.own {
		t.lanes[actor] = &lane{}
	}
	r.result.StepsUS = time.Since(r.start).Microseconds()
	t.zero = time.Now()
	t.tell(figures.Moment{})
	for _, e := range r.result.Trace {
		t.tell(figures.Moment{Entry: &e})
	}
	watching, done := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { r.kept.watch(watching) })
	defer watched.Wait()
	defer done()
	var err error
	if len(r.path.Loads) > 0 {
		err = t.loads(ctx)
	} else {
		err = t.run(ctx)
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.result.Trace, func(a, b figures.Entry) int { return int(a.AtUS - b.AtUS) })
	return r.end(ctx, &before, &after)
}

// A timedRun is a path in real time on its way.
type timedRun struct {
	*singleRun
	watch func(figures.Moment)
	hold  func()
	free  time.Duration // when the last step that no actor takes was done
	zero  time.Time     // when the steps began
	lanes map[string]*lane

	mu sync.Mutex // guards env, result and watch while lanes run
}

// A lane is an actor in real time.
type lane struct {
	line sync.Mutex // one command at a time goes down the connection

	mu      sync.Mutex
	stopped chan struct{} // closed when the actor resumes; nil while it runs
	dead    bool
	last    chan struct{} // closed when its newest step is done
}

// awake waits until the actor isn't stopped; false where it never will be again.
func (l *lane) awake(ctx context.Context) bool {
	for {
		l.mu.Lock()
		stopped, dead := l.stopped, l.dead
		l.mu.Unlock()
		if dead {
			return false
		}
		if stopped == nil {
			return true
		}
		select {
		case <-stopped:
		case <-ctx.Done():
			return false
		}
	}
}

// idle tells whether the actor is stopped or dead now.
func (l *lane) idle() (stopped, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopped != nil, l.dead
}

func (t *timedRun) tell(m figures.Moment) {
	if t.watch != nil {
		m.StepsUS = t.result.StepsUS
		t.watch(m)
	}
}

// note puts an entry into the trace and binds its reply.
func (t *timedRun) note(e figures.Entry, bind func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.AtUS = time.Since(t.start).Microseconds()
	t.result.Trace = append(t.result.Trace, e)
	if e.Command != "" {
		t.result.Commands++
	}
	if bind != nil {
		bind()
	}
	t.tell(figures.Moment{Entry: &e})
}

func (t *timedRun) bind(name string, v sandbox.Value) {
	t.env[name], t.result.Values[name] = v, v
}

// run starts every step at its time and waits for all of them.
func (t *timedRun) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	steps, beats := &sync.WaitGroup{}, &sync.WaitGroup{}
	over := make(chan struct{}) // closed when only beats and samples are left
	fail := func(err error) {
		if err != nil {
			cancel(err)
		}
	}
	if sample := t.sampled(); sample != nil {
		if err := t.connect(ctx, sampler); err != nil {
			return err
		}
		beats.Go(func() { fail(t.sample(ctx, sample, over)) })
	}
	previous := closed()
	for _, s := range t.path.Steps {
		send, sends := s.Does.(figures.Send)
		if s.Timed {
			if !t.until(ctx, s.At) {
				break
			}
		} else if send.Every == 0 {
			select {
			case <-previous:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			break
		}
		if send.Every > 0 {
			beats.Go(func() { fail(t.beat(ctx, s, send, over)) })
			continue
		}
		l := t.lanes[s.Actor()]
		if _, works := s.Does.(figures.Work); l == nil || !sends && !works {
			fail(t.control(ctx, s))
			t.free = time.Since(t.zero)
			continue
		}
		done, before := make(chan struct{}), l.last
		l.last, previous = done, done
		steps.Go(func() {
			defer close(done)
			if before != nil {
				<-before
			}
			if l.awake(ctx) {
				fail(t.act(ctx, l, s))
			}
		})
	}
	steps.Wait()
	t.lastBeats(ctx)
	close(over)
	beats.Wait()
	return t.why(ctx)
}

// lastBeats waits for the `until` of beats, and of what is timed past the last
// step.
func (t *timedRun) lastBeats(ctx context.Context) {
	var end time.Duration
	for _, s := range t.path.Steps {
		if send, ok := s.Does.(figures.Send); ok {
			end = max(end, send.Until)
		}
	}
	_ = pause(ctx, time.Until(t.zero.Add(end)))
}

// why is the error that ended a run, nil where it ended by itself.
func (t *timedRun) why(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return sandbox.Ended(ctx)
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// until waits for a moment of the path; false where the run ended before.
func (t *timedRun) until(ctx context.Context, at time.Duration) bool {
	if pause(ctx, time.Until(t.zero.Add(at))) != nil {
		return false
	}
	if t.hold != nil {
		t.hold()
	}
	// A fault of a server takes its time; what was due meanwhile is not late.
	t.kept.came(time.Since(t.zero) - max(at, t.free))
	return true
}

// control is a step that no actor takes for itself.
func (t *timedRun) control(ctx context.Context, s figures.Step) error {
	l := t.lanes[s.Actor()]
	happens := func() {
		t.note(figures.Entry{Phase: figures.PhaseSteps, Actor: s.Actor(), Event: s.Event(), Note: s.Note}, nil)
	}
	switch does := s.Does.(type) {
	case figures.Stop:
		l.stop()
	case figures.Resume:
		happens() // first: what the actor does on waking comes after it
		l.wake(false)
		return nil
	case figures.Crash:
		l.wake(true)
		t.hangUp(does.Actor)
	case figures.Wait:
		if err := pause(ctx, does.For); err != nil {
			return err
		}
	case figures.Lapse:
		// Unlike in a path without times, the lease may be a long one.
		key := does.Key.Fill(t.env)
		if err := t.expire(ctx, s, key, true, math.MaxInt64); err != nil {
			return err
		}
		t.note(figures.Entry{Phase: figures.PhaseSteps, Event: "lapse " + key, Note: s.Note}, nil)
		return nil
	case figures.Strike:
		if err := t.fault(ctx, does); err != nil {
			return err
		}
	case figures.Send, figures.Work, figures.Race: // a lane's, or none of a path in real time
	}
	happens()
	return nil
}

// stop lets the actor do nothing until it wakes.
func (l *lane) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped == nil {
		l.stopped = make(chan struct{})
	}
}

// wake ends a stop; for the dead, for good.
func (l *lane) wake(dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = l.dead || dead
	if l.stopped != nil {
		close(l.stopped)
		l.stopped = nil
	}
}

// act is one step of an actor, repeated where it says so.
func (t *timedRun) act(ctx context.Context, l *lane, s figures.Step) error {
	send, ok := s.Does.(figures.Send)
	if !ok {
		t.note(figures.Entry{Phase: figures.PhaseSteps, Actor: s.Actor(), Event: s.Event(), Note: s.Note}, nil)
		return nil
	}
	begun := time.Now()
	for tries := 1; ; tries++ {
		reply, err := t.send(ctx, l, s, send)
		if err != nil {
			if _, dead := l.idle(); dead {
				return nil // it crashed in the middle
			}
			return err
		}
		if s.As != "" && send.Retry != nil {
			t.mu.Lock()
			t.bind(s.As+"_tries", int64(tries))
			t.bind(s.As+"_ms", time.Since(begun).Milliseconds())
			t.mu.Unlock()
		}
		if send.Retry == nil || !figures.Failed(reply) || time.Since(begun) >= send.Retry.For {
			return nil
		}
		planned, from := jittered(send.Retry), time.Now()
		if err := pause(ctx, planned); err != nil {
			return err
		}
		t.kept.came(time.Since(from) - planned)
		if !l.awake(ctx) {
			return nil
		}
	}
}

// jittered is how long a client waits before it tries again.
func jittered(r *figures.Retry) time.Duration {
	if r.Jitter <= 0 {
		return r.Every
	}
	return r.Every + rand.N(r.Jitter)
}

// send sends one command of an actor and takes the reply in.
func (t *timedRun) send(ctx context.Context, l *lane, s figures.Step, send figures.Send) (sandbox.Value, error) {
	t.mu.Lock()
	args, line := send.Command.Fill(t.env)
	t.mu.Unlock()
	l.line.Lock()
	asked := time.Now()
	reply, err := t.ask(ctx, send, args, line)
	l.line.Unlock()
	if err == nil && send.Target != "sql" && !sandbox.Stateful(args) { // those may wait on purpose
		t.kept.came(time.Since(asked))
	}
	if err != nil {
		return nil, err
	}
	e := figures.Entry{Phase: figures.PhaseSteps, Actor: send.Actor, Target: send.Target, Command: line, Reply: reply, Name: s.As, Note: s.Note, Line: s.Line}
	_, e.Error = reply.(sandbox.Error)
	if s.Promise != nil && !s.Promise.Matches(reply) {
		e.Promise = s.Promise.String()
	}
	t.note(e, func() {
		switch {
		case s.As == "":
		case send.Every > 0:
			all, _ := t.env[s.As].([]any)
			t.bind(s.As, append(slices.Clone(all), reply))
		default:
			t.bind(s.As, reply)
		}
	})
	return reply, nil
}

// beat repeats a step. It leaves out the beats at which its actor is stopped,
// and ends with it.
func (t *timedRun) beat(ctx context.Context, s figures.Step, send figures.Send, over <-chan struct{}) error {
	l := t.lanes[send.Actor]
	if s.As != "" {
		t.mu.Lock()
		if t.env[s.As] == nil {
			t.bind(s.As, []any{})
		}
		t.mu.Unlock()
	}
	first := time.Since(t.zero)
	if s.Timed {
		first = s.At
	}
	for at := first; send.Until == 0 || at <= send.Until; at += send.Every {
		timer := time.NewTimer(time.Until(t.zero.Add(at)))
		select {
		case <-timer.C:
		case <-over:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		stopped, dead := l.idle()
		if dead {
			return nil
		}
		if stopped {
			continue
		}
		t.kept.came(time.Since(t.zero) - at)
		reply, err := t.send(ctx, l, s, send)
		if err != nil {
			if _, dead := l.idle(); dead {
				return nil
			}
			return err
		}
		if send.Stop && figures.Failed(reply) {
			return nil
		}
	}
	return nil
}

// sampler is the client that reads samples, on a connection of its own. No actor
// has its name.
const sampler = "samples"

// sampleEvery is how often the protected key is read where a path doesn't say.
const sampleEvery = 25 * time.Millisecond

// sampled is what is read along the way: where the path doesn't say, the protected
// key alone; nil where there is none.
func (t *timedRun) sampled() *figures.Sample {
	if t.path.Sample == nil && t.fig.Resource != "" {
		return &figures.Sample{Every: sampleEvery}
	}
	return t.path.Sample
}

// sample reads the path's values, and the protected key, again and again until
// the steps are over.
func (t *timedRun) sample(ctx context.Context, what *figures.Sample, over <-chan struct{}) error {
	ticker := time.NewTicker(what.Every)
	defer ticker.Stop()
	for last := false; ; {
		if err := t.readSample(ctx, what.Values); err != nil {
			return err
		}
		if last {
			return nil
		}
		select {
		case <-ticker.C:
		case <-over:
			last = true
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *timedRun) readSample(ctx context.Context, values []figures.Observation) error {
	var commands []sandbox.Command
	point := figures.SamplePoint{Values: map[string]any{}}
	for _, o := range values {
		step := figures.Send{Actor: sampler, Target: o.Target, Command: o.Command}
		t.mu.Lock()
		args, line := step.Command.Fill(t.env)
		t.mu.Unlock()
		if o.Target == "" {
			commands = append(commands, sandbox.Cmd(args...))
			continue
		}
		var err error
		if point.Values[o.Name], err = t.ask(ctx, step, args, line); err != nil {
			return err
		}
	}
	if t.fig.Resource != "" {
		commands = append(commands, sandbox.Peek(t.fig.Resource))
	}
	replies, err := t.do(ctx, sampler+t.home(), commands)
	if err != nil {
		return err
	}
	for _, o := range values {
		if o.Target == "" {
			point.Values[o.Name], replies = replies[0], replies[1:]
		}
	}
	point.AtUS = time.Since(t.start).Microseconds()
	if t.fig.Resource != "" {
		key := figures.KeyOf(replies[0])
		point.Key = &key
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Samples = append(t.result.Samples, point)
	t.tell(figures.Moment{Sample: &point})
	return nil
}
