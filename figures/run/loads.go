package run

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/figures"
	"lockstep/sandbox"
)

// loads runs a path's loads one after another.
func (t *timedRun) loads(ctx context.Context) error {
	for _, l := range t.path.Loads {
		tally, err := t.load(ctx, l)
		if err != nil {
			return err
		}
		counted := tally.values()
		t.note(figures.Entry{
			Phase: figures.PhaseSteps, Name: l.Name, Reply: counted,
			Event: fmt.Sprintf("load %s: %d clients × %d: %d commands in %d ms", l.Name, l.Clients, l.Times, tally.sent.Load(), tally.took.Milliseconds()),
		}, func() {
			t.result.Commands += int(tally.sent.Load())
			t.bind(l.Name, counted)
		})
	}
	return nil
}

// A counter is what the clients of one load did together.
type counter struct {
	sent    atomic.Int64 // commands
	done    atomic.Int64 // rounds
	gaveUp  atomic.Int64 // rounds that ended at a retry or an "else: stop"
	longest atomic.Int64 // the longest wait of one retry, in nanoseconds
	took    time.Duration
}

// values are what the rules of a path may read of a load, as FIGURES.md says.
func (c *counter) values() map[string]any {
	return map[string]any{
		"sent": c.sent.Load(), "took_ms": c.took.Milliseconds(), "done": c.done.Load(),
		"gave_up": c.gaveUp.Load(), "longest_ms": time.Duration(c.longest.Load()).Milliseconds(),
	}
}

// load runs one load: so many clients, each on a connection of its own, all
// starting at the same moment.
func (t *timedRun) load(ctx context.Context, l figures.Load) (*counter, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conns := make([]*sandbox.Conn, l.Clients)
	for i := range conns {
		conn, err := t.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	var wg sync.WaitGroup
	sum, start := &counter{}, make(chan struct{})
	for i, conn := range conns {
		wg.Go(func() {
			<-start
			for n := range l.Times {
				if err := t.round(ctx, l, conn, i, n, sum); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	begun := time.Now()
	if l.Name == t.path.Loads[0].Name {
		t.kept.came(begun.Sub(t.zero)) // it was to start with the path
	}
	close(start)
	wg.Wait()
	sum.took = time.Since(begun)
	return sum, t.why(ctx)
}

// round is one client doing the steps once.
func (t *timedRun) round(ctx context.Context, l figures.Load, conn *sandbox.Conn, client, n int, sum *counter) error {
	env := map[string]any{"self": "W" + strconv.Itoa(client+1), "round": n}
	for _, s := range l.Steps {
		send := s.Does.(figures.Send)
		args, _ := send.Command.Fill(env)
		command := []sandbox.Command{sandbox.Cmd(args...)}
		begun := time.Now()
		late := time.Duration(0) // what it waited for the machine and not by plan
		var reply sandbox.Value
		for {
			asked := time.Now()
			replies, err := conn.Do(ctx, command)
			if err != nil {
				return err
			}
			late += time.Since(asked)
			sum.sent.Add(1)
			if reply = replies[0]; send.Retry == nil || !figures.Failed(reply) || time.Since(begun) >= send.Retry.For {
				break
			}
			planned, from := jittered(send.Retry), time.Now()
			if err := pause(ctx, planned); err != nil {
				return err
			}
			late += time.Since(from) - planned
		}
		t.kept.came(late)
		if send.Retry != nil {
			atMost(&sum.longest, int64(time.Since(begun)))
		}
		if (s.Stop || send.Retry != nil) && figures.Failed(reply) {
			sum.gaveUp.Add(1)
			return nil
		}
		if s.As != "" {
			env[s.As] = reply
		}
	}
	sum.done.Add(1)
	return nil
}

// atMost raises a number to n where it is below.
func atMost(number *atomic.Int64, n int64) {
	for {
		old := number.Load()
		if n <= old || number.CompareAndSwap(old, n) {
			return
		}
	}
}
