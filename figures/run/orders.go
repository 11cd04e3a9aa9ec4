package run

import (
	"context"
	"time"

	"lockstep/figures"
	"lockstep/figures/explore"
	"lockstep/sandbox"
)

// explore runs every schedule of a path.
func (r *Runner) explore(ctx context.Context, fig *figures.Figure, path *figures.Path) (result *figures.Result, err error) {
	start := time.Now()
	err = r.Sandbox.Lend(ctx, explore.Databases, func(dbs []*sandbox.DB) (err error) {
		result, err = explore.Every(ctx, dbs, fig, path)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.remember(path, result.Explored)
	result.Known = r.allKnown(fig)
	result.Engine = r.Sandbox.Engine()
	result.TookUS = time.Since(start).Microseconds()
	return result, nil
}

// Replay runs one schedule of a path with programs, or a beginning of one: see
// explore.Replay.
func (r *Runner) Replay(ctx context.Context, fig *figures.Figure, path *figures.Path, schedule string) (result *figures.Result, err error) {
	if err := r.Able(fig, path); err != nil {
		return nil, err
	}
	known := r.allKnown(fig)
	err = r.Sandbox.Use(ctx, func(db *sandbox.DB) (err error) {
		ctx, cancel := context.WithTimeout(ctx, r.Limit)
		defer cancel()
		result, err = explore.Replay(ctx, db, fig, path, schedule, known[path.ID])
		return err
	})
	if err != nil {
		return nil, err
	}
	result.Engine, result.Known = r.Sandbox.Engine(), known
	return result, nil
}

// remember keeps what a complete exploration showed: for a later one that is
// cut off and can then say "n of N", and for schedules that are run alone.
func (r *Runner) remember(path *figures.Path, e *figures.Explored) {
	if e.Complete {
		e.Total = e.Schedules
		r.known.store(path, e)
		return
	}
	if known, ok := r.known.load(path); ok {
		e.Total = known.Schedules
	}
}

// allKnown is what is remembered of a figure's paths, by path.
func (r *Runner) allKnown(fig *figures.Figure) map[string]*figures.Explored {
	all := map[string]*figures.Explored{}
	for _, p := range fig.Paths {
		if e, ok := r.known.load(p); ok {
			all[p.ID] = e
		}
	}
	return all
}
