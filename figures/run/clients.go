package run

import (
	"context"
	"slices"
	"strings"

	"lockstep/figures"
	"lockstep/sandbox"
	"lockstep/sandbox/fleet"
	"lockstep/sandbox/sql"
)

// servers are what a run has been lent: one database or several servers, and
// an SQL store where the path uses one.
type servers struct {
	db      *sandbox.DB
	cluster *fleet.Cluster
	sql     *sql.Run
}

// A plan is what a path's steps say of the connections it needs.
type plan struct {
	own map[string]bool // the actors with a connection of their own
	sql bool            // it speaks to the SQL store
}

// plan gives the plan of a path, made when it first runs.
func (r *Runner) plan(path *figures.Path) *plan {
	if p, ok := r.plans.load(path); ok {
		return p
	}
	p := &plan{own: ownConnections(path), sql: usesSQL(path)}
	r.plans.store(path, p)
	return p
}

// ownConnections are the actors for whom it matters that their commands come
// down a connection of their own: one that crashes, blocks, watches, opens a
// transaction, or whose commands the server is asked to count.
func ownConnections(path *figures.Path) map[string]bool {
	own := map[string]bool{}
	for _, s := range slices.Concat(path.Setup, path.Steps) {
		switch does := s.Does.(type) {
		case figures.Crash:
			own[does.Actor] = true
		case figures.Send:
			if sandbox.Stateful(does.Command.Sketch()) {
				own[does.Actor] = true
			}
		}
	}
	for _, o := range path.Observe {
		if o.Received != "" {
			own[o.Received] = true
		}
	}
	return own
}

// usesSQL tells whether a path speaks to the SQL store.
func usesSQL(path *figures.Path) bool {
	for s := range figures.All(slices.Concat(path.Setup, path.Steps)) {
		if send, ok := s.Does.(figures.Send); ok && send.Target == "sql" {
			return true
		}
	}
	return slices.ContainsFunc(path.Observe, observesSQL) || path.Sample != nil && slices.ContainsFunc(path.Sample.Values, observesSQL)
}

func observesSQL(o figures.Observation) bool { return o.Target == "sql" }

// connect gives a client of the path a connection of its own. To several servers
// and to the SQL store it has one as soon as it sends something.
func (r *singleRun) connect(ctx context.Context, client string) error {
	r.own[client] = true
	if r.cluster != nil || r.conns[client] != nil {
		return nil
	}
	conn, err := r.db.Conn(ctx)
	if err == nil {
		r.conns[client] = conn
	}
	return err
}

// hangUp cuts an actor's connections.
func (r *singleRun) hangUp(actor string) {
	if r.cluster != nil {
		r.cluster.HangUp(actor)
	} else {
		r.conns[actor].Close()
	}
	if r.sql != nil {
		r.sql.Cut(actor)
	}
}

// where is the connection that a step's command goes down: "" the shared one to
// the one database, "A" an actor's own, "@n1" the shared one to one of several
// servers, "A@n1" an actor's own.
func (r *singleRun) where(s figures.Send) string {
	client := ""
	if r.own[s.Actor] {
		client = s.Actor
	}
	if s.Target != "" {
		return client + "@" + s.Target
	}
	return client + r.home()
}

// home is where the site's own reads go: the database, or the first server
// that is up.
func (r *singleRun) home() string {
	if r.cluster == nil {
		return ""
	}
	if up := r.cluster.Up(); len(up) > 0 {
		return "@" + up[0]
	}
	return "@" + r.cluster.Nodes()[0]
}

// do sends commands in one round trip.
func (r *singleRun) do(ctx context.Context, on string, commands []sandbox.Command) ([]sandbox.Value, error) {
	client, node, several := strings.Cut(on, "@")
	switch {
	case several:
		return r.cluster.Do(ctx, client, node, commands)
	case client == "":
		return r.db.Do(ctx, commands)
	}
	return r.conns[client].Do(ctx, commands)
}
