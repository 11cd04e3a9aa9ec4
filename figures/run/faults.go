package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockstep/figures"
	"lockstep/sandbox"
)

// strike does to a server what a step says: a real fault on a real process.
func (r *singleRun) strike(ctx context.Context, s figures.Step, strike figures.Strike, phase figures.Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	if err := r.fault(ctx, strike); err != nil {
		return err
	}
	r.event(s, phase, s.Event())
	return nil
}

func (r *singleRun) fault(ctx context.Context, strike figures.Strike) error {
	does := map[string]func(context.Context, string) error{
		"cut": r.cluster.Cut, "sync": r.cluster.Sync, "kill": r.cluster.Kill, "promote": r.cluster.Promote, "down": r.cluster.Kill, "up": r.cluster.Restart,
	}
	return does[strike.Fault](ctx, strike.Node)
}

// sendAlone sends a step's command by itself, not with what is queued.
func (r *singleRun) sendAlone(ctx context.Context, s figures.Step, send figures.Send, phase figures.Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	args, line := send.Command.Fill(r.env)
	r.leased = append(r.leased, args...)
	reply, err := r.ask(ctx, send, args, line)
	if err != nil {
		return err
	}
	r.result.Trace = append(r.result.Trace, figures.Entry{Phase: phase, Actor: send.Actor, Target: send.Target, Command: line, Name: s.As, Note: s.Note, Line: s.Line})
	r.result.Commands++
	r.take(pending{entry: len(r.result.Trace) - 1, as: s.As, promise: s.Promise}, reply, time.Since(r.start).Microseconds())
	return nil
}

// ask sends one command to where its step says: a server, every server that is
// up, or the SQL store, on the actor's own connection to it.
func (r *singleRun) ask(ctx context.Context, s figures.Send, args []string, line string) (sandbox.Value, error) {
	switch s.Target {
	case "sql":
		return r.sql.Do(ctx, s.Actor, line)
	case "all":
		return r.askAll(ctx, s, args)
	}
	replies, err := r.do(ctx, r.where(s), []sandbox.Command{sandbox.Cmd(args...)})
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

// askAll sends a command to every server that is up; the reply is the array of
// their replies, in order.
func (r *singleRun) askAll(ctx context.Context, s figures.Send, args []string) (sandbox.Value, error) {
	nodes := r.cluster.Up()
	replies := make([]any, len(nodes))
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			to := s
			to.Target = node
			replies[i], errs[i] = r.ask(ctx, to, args, "")
		})
	}
	all.Wait()
	return replies, errors.Join(errs...)
}
