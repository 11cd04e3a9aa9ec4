package run

import (
	"context"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
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
			if err := r.send(ctx, figures.Step{As: o.Name}, figures.Send{Target: o.Target, Command: o.Command}, figures.PhaseObserve); err != nil {
				return err
			}
			r.result.State[o.Name] = r.env[o.Name]
			delete(r.result.Values, o.Name)
			continue
		}
		if err := r.ready(ctx, r.where(figures.Send{Target: o.Target}), o.Command); err != nil {
			return err
		}
		args, line := o.Command.Fill(r.env)
		at := len(r.result.Trace)
		r.queue(pending{command: sandbox.Cmd(args...)}, figures.Entry{Phase: figures.PhaseObserve, Target: o.Target, Command: line, Name: o.Name})
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
func (r *singleRun) peek(ctx context.Context, into *figures.KeyState) error {
	if r.fig.Resource == "" {
		return nil
	}
	if err := r.ready(ctx, r.home(), expr.Command{}); err != nil {
		return err
	}
	r.pending = append(r.pending, pending{
		command: sandbox.Peek(r.fig.Resource),
		then:    func(v sandbox.Value) { *into = figures.KeyOf(v) },
	})
	return nil
}
