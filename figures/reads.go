package figures

import (
	"context"
	"strings"
	"time"

	"lockstep/sandbox"
)

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
