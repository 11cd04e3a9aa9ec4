package figures

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/sandbox"
)

// loadNames are what the rules of a path may read of each of its loads:
// commands sent, milliseconds from the first to the last, rounds that were
// done and rounds that gave up, and the longest wait of one retry in
// milliseconds.
var loadNames = []string{"sent", "took_ms", "done", "gave_up", "longest_ms"}

// loads runs a path's loads one after another.
func (t *timedRun) loads(ctx context.Context) error {
	for _, l := range t.path.Loads {
		tally, err := t.load(ctx, l)
		if err != nil {
			return err
		}
		counted := map[string]any{
			"sent": tally.sent.Load(), "took_ms": tally.took.Milliseconds(), "done": tally.done.Load(),
			"gave_up": tally.gaveUp.Load(), "longest_ms": time.Duration(tally.longest.Load()).Milliseconds(),
		}
		t.note(Entry{
			Phase: PhaseSteps, Name: l.Name, Reply: counted,
			Event: fmt.Sprintf("load %s: %d clients × %d: %d commands in %d ms", l.Name, l.Clients, l.Times, tally.sent.Load(), tally.took.Milliseconds()),
		}, func() {
			t.result.Commands += int(tally.sent.Load())
			t.bind(l.Name, counted)
		})
	}
	return nil
}

// A tally is what the clients of one load did together.
type tally struct {
	sent, done, gaveUp, longest atomic.Int64
	took                        time.Duration
}

// load runs one load: so many clients, each on a connection of its own, all
// starting at the same moment.
func (t *timedRun) load(ctx context.Context, l Load) (*tally, error) {
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
	sum, start := &tally{}, make(chan struct{})
	for i, conn := range conns {
		wg.Go(func() {
			<-start
			for round := range l.Times {
				if err := l.round(ctx, conn, i, round, sum); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	begun := time.Now()
	close(start)
	wg.Wait()
	sum.took = time.Since(begun)
	return sum, t.why(ctx)
}

// round is one client doing the steps once.
func (l Load) round(ctx context.Context, conn *sandbox.Conn, client, round int, sum *tally) error {
	env := map[string]any{"self": "W" + strconv.Itoa(client+1), "round": round}
	for _, s := range l.Steps {
		args, _ := s.Command.fill(env)
		command := []sandbox.Command{sandbox.Cmd(args...)}
		begun := time.Now()
		var reply sandbox.Value
		for {
			replies, err := conn.Do(ctx, command)
			if err != nil {
				return err
			}
			sum.sent.Add(1)
			if reply = replies[0]; s.Retry == nil || !failed(reply) || time.Since(begun) >= s.Retry.For {
				break
			}
			if err := pause(ctx, s.Retry.wait()); err != nil {
				return err
			}
		}
		if s.Retry != nil {
			atMost(&sum.longest, int64(time.Since(begun)))
		}
		if (s.Stop || s.Retry != nil) && failed(reply) {
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
