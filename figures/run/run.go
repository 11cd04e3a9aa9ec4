// Package run runs the paths of figures on what the sandbox lends: one run after
// its steps or by the clock, and every order by way of package explore. It also
// holds a figure against what its author states of it.
package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
	"lockstep/sandbox/fleet"
	"lockstep/sandbox/server"
	"lockstep/sandbox/sql"
)

// A Runner runs paths on a sandbox.
type Runner struct {
	Sandbox *server.Server
	Fleet   *fleet.Fleet  // for figures on several servers; nil where there is one
	SQL     *sql.Store    // for figures whose fence stands at another store
	Limit   time.Duration // wall time of one run, waiting for a database aside

	known byPath[*figures.Explored] // the last complete exploration
	plans byPath[*plan]

	hold func() // tests make a step late with it; nil otherwise
}

// A NeedsError says that the server lacks a command, or another thing that it
// has since some version, which a path needs.
type NeedsError struct {
	command string
	since   string // "Valkey 9.0"; empty where it isn't known
	engine  sandbox.Engine
}

func (e *NeedsError) Error() string {
	if e.since == "" {
		return fmt.Sprintf("%s %s has no %s", e.engine.Name, e.engine.Version, e.command)
	}
	return fmt.Sprintf("%s came with %s; this server is %s %s", e.command, e.since, e.engine.Name, e.engine.Version)
}

// A SimulatedError says that the embedded server would answer a command of the
// path otherwise than Valkey does.
type SimulatedError struct{ command string }

func (e *SimulatedError) Error() string {
	return fmt.Sprintf("the simulated server answers %s otherwise than Valkey", e.command)
}

// A ServersError says that this machine can't give a path the servers it needs.
type ServersError struct{ engine sandbox.Engine }

func (e *ServersError) Error() string {
	return fmt.Sprintf("this path needs several servers of its own, and this site has the one %s", e.engine.Mode)
}

// Run runs one path and judges what the server answered. The error is a fault
// of the dive (Fault), a NeedsError, a SimulatedError, a ServersError, or the
// sandbox's: ErrBusy, ErrDown or ErrLate.
func (r *Runner) Run(ctx context.Context, fig *figures.Figure, path *figures.Path) (*figures.Result, error) {
	return r.Watch(ctx, fig, path, nil)
}

// Watch is Run, and tells watch what happens as it happens where the path runs
// in real time.
func (r *Runner) Watch(ctx context.Context, fig *figures.Figure, path *figures.Path, watch func(figures.Moment)) (*figures.Result, error) {
	if err := r.Able(fig, path); err != nil {
		return nil, err
	}
	if path.Explores() {
		return r.explore(ctx, fig, path)
	}
	for tries := 1; ; tries++ {
		result, err := r.once(ctx, fig, path, watch)
		if err != nil || result.Status != figures.Late || tries == lateTries {
			return result, err
		}
	}
}

// once is Watch for one run of a path with steps or loads.
func (r *Runner) once(ctx context.Context, fig *figures.Figure, path *figures.Path, watch func(figures.Moment)) (*figures.Result, error) {
	var result *figures.Result
	var ended time.Time
	err := r.lend(ctx, fig, path, func(on servers) error {
		defer func() { ended = time.Now() }()
		within, cancel := context.WithTimeout(ctx, r.Limit+path.Length())
		defer cancel()
		run := newRun(fig, path, r.plan(path), on)
		result = run.result
		defer run.close()
		if !path.Timed() {
			return run.all(within)
		}
		run.kept = &punctuality{slack: slackOf(path)}
		err := run.timed(within, watch, r.hold)
		if errors.Is(err, sandbox.ErrLate) && ctx.Err() == nil {
			tooLate(result, path, run.kept.late(), run.kept.slack)
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	result.Engine, result.Ended = r.Sandbox.Engine(), ended
	if r.plan(path).sql {
		store := r.SQL.Engine()
		result.Store = &store
	}
	return result, nil
}

// lend borrows what a path runs on.
func (r *Runner) lend(ctx context.Context, fig *figures.Figure, path *figures.Path, f func(servers) error) error {
	var on servers
	inner := func() error { return f(on) }
	if r.plan(path).sql {
		inner = func() error {
			return r.SQL.Use(ctx, func(sql *sql.Run) error {
				on.sql = sql
				return f(on)
			})
		}
	}
	cluster := func(c *fleet.Cluster) error {
		on.cluster = c
		return inner()
	}
	switch {
	case fig.Topology.Replicas > 0:
		return r.Fleet.Replicated(ctx, fig.Topology.Replicas, cluster)
	case fig.Topology.Independent > 0:
		return r.Fleet.Independent(ctx, fig.Topology.Independent, cluster)
	}
	return r.Sandbox.Use(ctx, func(db *sandbox.DB) error {
		on.db = db
		return inner()
	})
}

// Able says why the sandbox's server can't run the path as Valkey would: a
// NeedsError, a SimulatedError or a ServersError; nil where it can.
func (r *Runner) Able(fig *figures.Figure, path *figures.Path) error {
	engine := r.Sandbox.Engine()
	if fig.Topology.Several() && r.Fleet == nil {
		return &ServersError{engine: engine}
	}
	for _, need := range path.Needs {
		if !r.Sandbox.Has(need) {
			return &NeedsError{command: need, since: server.Since(need), engine: engine}
		}
	}
	counting := slices.ContainsFunc(path.Observe, func(o figures.Observation) bool { return o.Received != "" })
	switch {
	case !engine.Simulated() && counting && !r.Sandbox.Counts():
		return &NeedsError{command: "a count of commands by connection", since: "Valkey 8.0", engine: engine}
	case !engine.Simulated():
		return nil
	case counting:
		return &SimulatedError{command: "CLIENT INFO"}
	}
	for _, c := range commandsOf(path) {
		if args := c.Sketch(); !r.Sandbox.Faithful(args) {
			return &SimulatedError{command: args[0]}
		}
	}
	return nil
}

// commandsOf are all that a path may send.
func commandsOf(path *figures.Path) []expr.Command {
	steps := slices.Concat(path.Setup, path.Steps)
	for _, program := range path.Programs {
		for _, s := range program.Steps {
			steps = append(steps, s.Step)
		}
	}
	for _, load := range path.Loads {
		for _, s := range load.Steps {
			steps = append(steps, s.Step)
		}
	}
	var all []expr.Command
	for s := range figures.All(steps) {
		if send, ok := s.Does.(figures.Send); ok && send.Target != "sql" {
			all = append(all, send.Command)
		}
	}
	for _, o := range path.Observe {
		if o.Received == "" && o.Target != "sql" {
			all = append(all, o.Command)
		}
	}
	return all
}
