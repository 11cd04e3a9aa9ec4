package run

import (
	"context"
	"slices"
	"time"

	"lockstep/figures"
	"lockstep/sandbox"
)

// race sends its steps at the same moment, each down a connection of its own.
func (r *singleRun) race(ctx context.Context, s figures.Step, race figures.Race, phase figures.Phase) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.races++
	type lane struct {
		send  figures.Send
		args  []string
		line  string
		reply sandbox.Value
		at    time.Time
		err   error
	}
	lanes := make([]lane, len(race.Steps))
	taken := map[string]bool{}
	for i, step := range race.Steps {
		send := step.Does.(figures.Send)
		racer := send
		for taken[racer.Actor] {
			racer.Actor += "'" // one actor twice: a connection for each
		}
		taken[racer.Actor] = true
		if err := r.connect(ctx, racer.Actor); err != nil {
			return err
		}
		args, line := send.Command.Fill(r.env)
		r.leased = append(r.leased, args...)
		lanes[i] = lane{send: racer, args: args, line: line}
		r.result.Trace = append(r.result.Trace, figures.Entry{Phase: phase, Actor: send.Actor, Target: send.Target, Command: line, Name: step.As, Note: step.Note, Race: r.races, Line: step.Line})
		r.result.Commands++
	}
	start, done := make(chan struct{}), make(chan int, len(lanes))
	for i := range lanes {
		go func() {
			<-start
			l := &lanes[i]
			l.reply, l.err = r.ask(ctx, l.send, l.args, l.line)
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
		r.take(pending{entry: first + i, as: race.Steps[i].As, promise: race.Steps[i].Promise}, l.reply, l.at.Sub(r.start).Microseconds())
	}
	slices.SortStableFunc(r.result.Trace[first:], func(a, b figures.Entry) int { return int(a.AtUS - b.AtUS) })
	if s.As != "" {
		r.env[s.As], r.result.Values[s.As] = votes, votes
	}
	return nil
}
