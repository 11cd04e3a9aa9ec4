package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/sandbox"
)

const (
	pulseEvery  = 100 * time.Millisecond // between two looks at the server
	pulseWait   = 2 * time.Second        // for an answer; after that the server is hung
	pulseMisses = 3                      // failures of another kind in a row, and it is no good
	stopWait    = 500 * time.Millisecond // for a script to stop
	startWait   = 10 * time.Second       // for a server to be ready
	slowest     = 2 * time.Second        // between two attempts to start one
	healthy     = 30 * time.Second       // after which a crash is no longer a repeated one
)

// A Process is one life of a server: from when it was ready until it went away.
type Process struct {
	sandbox.Access
	root  sandbox.Login // may do everything; only on a process of our own
	Admin *redis.Client // loads scripts, stops endless ones
	pulse *redis.Client // one connection that is always open: a busy server takes no new ones
	facts *facts

	Gone <-chan struct{} // closed when its process has ended; nil if there is none to see
	said *tail           // by its process
	Stop func()          // ends it for good and waits

	// On a server of somebody else's, a database is claimed before it is lent
	// and released after; nil elsewhere.
	claim   func(ctx context.Context, number int) error
	release func(ctx context.Context, number int) bool
	renew   func(ctx context.Context) error // at each pulse
}

// A keeper keeps a server running and hands out the process that runs now.
type keeper struct {
	start func(context.Context) (*Process, error)
	log   *slog.Logger
	life  context.Context
	end   context.CancelFunc
	done  chan struct{} // closed when run has returned

	mu     sync.Mutex
	now    *Process
	why    error         // why there is none
	known  *facts        // of the last one
	change chan struct{} // closed at the next change of now
	beat   chan struct{} // closed at the next good pulse
}

func newKeeper(start func(context.Context) (*Process, error), log *slog.Logger) *keeper {
	life, end := context.WithCancel(context.Background())
	return &keeper{
		start: start, log: log, life: life, end: end, done: make(chan struct{}),
		why: errors.New("not started yet"), change: make(chan struct{}), beat: make(chan struct{}),
	}
}

// open starts the first process and keeps one running until close. That the
// first one doesn't start is an error; later ones are tried again.
func (k *keeper) open(ctx context.Context) error {
	first := make(chan error, 1)
	go k.run(first)
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return sandbox.Ended(ctx)
	}
}

// close stops the server and returns when it has ended.
func (k *keeper) close() {
	k.end()
	<-k.done
}

// run starts processes, one after the other.
func (k *keeper) run(first chan<- error) {
	defer close(k.done)
	// A child is killed when the thread that started it ends, so this goroutine
	// keeps its thread for good.
	runtime.LockOSThread()
	var delay time.Duration
	for k.life.Err() == nil {
		inst, err := k.start(k.life)
		if first != nil {
			if err != nil {
				first <- err
				return
			}
		}
		if err != nil {
			k.publish(nil, err)
			k.log.Error("the server did not start", "error", err, "again in", delay)
		} else {
			k.publish(inst, nil)
			if first != nil {
				first <- nil
				first = nil
			}
			begun := time.Now()
			err = k.watch(inst)
			k.publish(nil, err)
			inst.Stop()
			if k.life.Err() != nil {
				return
			}
			if time.Since(begun) > healthy {
				delay = 0
			}
			k.log.Warn("the server went away", "reason", err, "again in", delay)
		}
		select {
		case <-time.After(delay):
		case <-k.life.Done():
		}
		delay = min(max(2*delay, 25*time.Millisecond), slowest)
	}
}

// publish says which process runs now, or why none does.
func (k *keeper) publish(inst *Process, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now, k.why = inst, why
	if inst != nil {
		k.known = inst.facts
	}
	close(k.change)
	k.change = make(chan struct{})
}

// facts are those of the server that ran last.
func (k *keeper) facts() *facts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known
}

// current gives the process that runs now, or why there is none.
func (k *keeper) current() (*Process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now, k.why
}

// await is current for those who can wait a little.
func (k *keeper) await(ctx context.Context, until time.Time) (*Process, error) {
	for {
		k.mu.Lock()
		inst, why, change := k.now, k.why, k.change
		k.mu.Unlock()
		if inst != nil {
			return inst, nil
		}
		if !waitFor(ctx, change, until) {
			if ctx.Err() != nil {
				return nil, sandbox.Ended(ctx)
			}
			return nil, fmt.Errorf("%w: %w", sandbox.ErrDown, why)
		}
	}
}

// replaced waits until another process than this one runs.
func (k *keeper) replaced(ctx context.Context, inst *Process, until time.Time) bool {
	k.mu.Lock()
	now, change := k.now, k.change
	k.mu.Unlock()
	return now != inst || waitFor(ctx, change, until)
}

// calm waits until the server answers again.
func (k *keeper) calm(ctx context.Context, most time.Duration) bool {
	k.mu.Lock()
	beat := k.beat
	k.mu.Unlock()
	return waitFor(ctx, beat, time.Now().Add(most))
}

// waitFor waits for an event.
func waitFor(ctx context.Context, event <-chan struct{}, until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-event:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// watch looks after a process until it is no good any more, and says why.
func (k *keeper) watch(inst *Process) error {
	ticks := time.NewTicker(pulseEvery)
	defer ticks.Stop()
	misses, busy := 0, false
	for {
		select {
		case <-k.life.Done():
			return errors.New("closed")
		case <-inst.Gone:
			return errors.New("its process ended")
		case <-ticks.C:
		}
		err := inst.feel(k.life)
		held := redis.HasErrorPrefix(err, "BUSY")
		switch {
		case err == nil:
			misses = 0
			k.mu.Lock()
			close(k.beat)
			k.beat = make(chan struct{})
			k.mu.Unlock()
		case held && !busy:
			// It may be the machine that is slow, and not the script endless.
		case held:
			if err := k.unblock(inst); err != nil {
				return err
			}
		case errors.Is(err, errLost):
			return err
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("it does not answer: %w", err)
		default:
			if misses++; misses == pulseMisses {
				return fmt.Errorf("it does not answer: %w", err)
			}
		}
		busy = held
	}
}

// errLost says that the server is there, but no longer ours.
var errLost = errors.New("the server is no longer this sandbox's")

// feel asks the server whether it is well.
func (inst *Process) feel(life context.Context) error {
	ctx, cancel := context.WithTimeout(life, pulseWait)
	defer cancel()
	if err := inst.pulse.Ping(ctx).Err(); err != nil {
		return err
	}
	if inst.renew != nil {
		return inst.renew(ctx)
	}
	return nil
}

// unblock stops a script that runs too long. A script that has written can't be
// stopped by itself, and some loops never see the request: then the server is
// given up.
func (k *keeper) unblock(inst *Process) error {
	k.log.Warn("a script runs too long; stopping it")
	for range 5 {
		ctx, cancel := context.WithTimeout(k.life, stopWait)
		err := inst.pulse.ScriptKill(ctx).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOTBUSY") {
			err = inst.pulse.Ping(ctx).Err()
		}
		cancel()
		switch {
		case err == nil:
			return nil
		case k.life.Err() != nil:
			return k.life.Err()
		case redis.HasErrorPrefix(err, "UNKILLABLE"), !redis.HasErrorPrefix(err, "BUSY"):
			return fmt.Errorf("a script that ran too long could not be stopped: %w", err)
		}
	}
	return errors.New("a script that ran too long would not stop")
}

// prepare makes a server that answers ready for runs: it learns what it is,
// makes the users, and loads the scripts.
func (inst *Process) prepare(ctx context.Context, mode sandbox.Mode) error {
	info, err := inst.Admin.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask the server what it is: %w", err)
	}
	engine := sandbox.Engine{Name: "redis", Version: InfoField(info, "redis_version"), Mode: mode}
	if v := InfoField(info, "valkey_version"); v != "" {
		engine.Name, engine.Version = "valkey", v
	}
	inst.facts = &facts{engine: engine, commands: map[string]bool{}}
	if engine.Name == "redis" && older(engine.Version, "7.0") {
		return fmt.Errorf("redis %s is too old: the sandbox needs Valkey, or Redis 7.0 or newer", engine.Version)
	}
	list, err := inst.Admin.Do(ctx, "COMMAND", "LIST").StringSlice()
	if err != nil {
		return fmt.Errorf("ask for the server's commands: %w", err)
	}
	for _, name := range list {
		inst.facts.commands[strings.ToUpper(name)] = true
	}
	client, err := inst.Admin.Do(ctx, "CLIENT", "INFO").Text()
	if err != nil {
		return fmt.Errorf("ask for the connection: %w", err)
	}
	_, counted := sandbox.CountOf(client)
	inst.Counts = counted == nil
	inst.facts.counts = inst.Counts
	if err := inst.makeUsers(ctx); err != nil {
		return err
	}
	return inst.Scripts.Load(ctx, inst.Admin)
}

// makeUsers gives the lender and the runner what they may do, and nothing else.
func (inst *Process) makeUsers(ctx context.Context) error {
	lender := []any{"ACL", "SETUSER", inst.Lender.User, "reset", "on", ">" + inst.Lender.Password, "resetchannels", "-@all", "+select"}
	runner := []any{"ACL", "SETUSER", inst.Runner.User, "reset", "on", ">" + inst.Runner.Password, "~*", "resetchannels", "-@all"}
	for _, command := range sandbox.ACLCommands() {
		if inst.facts.commands[strings.ToUpper(command)] {
			runner = append(runner, "+"+command)
		}
	}
	for _, user := range [][]any{lender, runner} {
		if err := inst.Admin.Do(ctx, user...).Err(); err != nil {
			return fmt.Errorf("set up the sandbox's users (ACL SETUSER): %w", err)
		}
	}
	return nil
}

// InfoField reads one line of INFO.
func InfoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
