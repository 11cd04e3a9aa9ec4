package figures

import (
	"context"
	"time"

	"lockstep/sandbox"
)

// faultWords are the events of a trace that strike a server.
var faultWords = map[StepKind]string{Cut: "cut", Sync: "sync", Kill: "kill", Promote: "promote", Down: "down", Up: "up"}

// strike does to a server what a step says: a real fault on a real process.
func (r *singleRun) strike(ctx context.Context, s Step, phase Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	does := map[StepKind]func(context.Context, string) error{
		Cut: r.cluster.Cut, Sync: r.cluster.Sync, Kill: r.cluster.Kill, Promote: r.cluster.Promote, Down: r.cluster.Down, Up: r.cluster.Restart,
	}
	if err := does[s.Kind](ctx, s.Target); err != nil {
		return err
	}
	r.event(s, phase, faultWords[s.Kind]+" "+s.Target)
	return nil
}

// toAll sends a command to every server that is up; the reply is the array of
// their replies, in order.
func (r *singleRun) toAll(ctx context.Context, s Step, phase Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	args, line := s.Command.fill(r.env)
	r.leased = append(r.leased, args...)
	nodes := r.cluster.Up()
	replies := make([]any, len(nodes))
	errs := make(chan error, len(nodes))
	for i, node := range nodes {
		go func() {
			got, err := r.cluster.Do(ctx, node, []sandbox.Command{sandbox.Cmd(args...)})
			if err == nil {
				replies[i] = got[0]
			}
			errs <- err
		}()
	}
	var failed error
	for range nodes {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	if failed != nil {
		return failed
	}
	r.record(s, phase, line, replies)
	return nil
}

// statement runs an SQL statement on the actor's own connection to the store.
func (r *singleRun) statement(ctx context.Context, s Step, phase Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	line := s.Command.line.fill(r.env)
	reply, err := r.sql.Do(ctx, s.Actor, line)
	if err != nil {
		return err
	}
	r.record(s, phase, line, reply)
	return nil
}

// record puts a command that has already been answered into the trace.
func (r *singleRun) record(s Step, phase Phase, line string, reply sandbox.Value) {
	r.result.Trace = append(r.result.Trace, Entry{Phase: phase, Actor: s.Actor, Target: s.Target, Command: line, Name: s.As, Note: s.Note, line: s.Line})
	r.result.Commands++
	r.take(pending{entry: len(r.result.Trace) - 1, as: s.As, promise: s.Promise}, reply, time.Since(r.start).Microseconds())
}
