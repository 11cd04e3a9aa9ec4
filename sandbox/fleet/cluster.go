package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockstep/sandbox"
)

// errOneServer says that several servers can't be had here: the engine is
// somebody else's server, or a simulation.
var errOneServer = errors.New("the sandbox has one server only")

// Replicated lends f a primary with one or two replicas, empty and in sync. They
// are called "primary", "replica" and "replica2". Where others have all there
// are, it waits no longer than the server's Options.Wait. The first ones are
// started when they are asked for, which takes longer than to be lent those that
// are ready.
func (c *Fleet) Replicated(ctx context.Context, replicas int, f func(*Cluster) error) error {
	if replicas < 1 || replicas > 2 {
		return fmt.Errorf("%w: %d replicas, of 1 or 2", sandbox.ErrTooMuch, replicas)
	}
	return c.gather(ctx, shape{replicas: replicas}, f)
}

// Independent lends f up to seven empty servers that know nothing of each other.
// They are called "n1", "n2" and so on. Otherwise it is like Replicated.
func (c *Fleet) Independent(ctx context.Context, n int, f func(*Cluster) error) error {
	if n < 1 || n > 7 {
		return fmt.Errorf("%w: %d servers, of 1 to 7", sandbox.ErrTooMuch, n)
	}
	return c.gather(ctx, shape{independent: n}, f)
}

// gather lends f a set of servers, and takes it back when f returns or panics.
func (c *Fleet) gather(ctx context.Context, what shape, f func(*Cluster) error) error {
	if c == nil {
		return errOneServer
	}
	fleet := c.pool(what)
	set, err := fleet.take(ctx, what)
	if err != nil {
		return err
	}
	lent := &Cluster{of: c, set: set}
	defer func() { fleet.giveBack(set, lent.end()) }()
	return f(lent)
}

// A Cluster is several real servers that are lent to one run. Its faults are
// real as well: a server that is killed is dead, and what it alone knew is lost.
//
// An order that can't be carried out, as to promote a primary, is the author's
// error, and comes as a *CommandError. Any other error is a failure of the
// sandbox, as with a DB.
type Cluster struct {
	of     *Fleet
	set    *set
	faulty atomic.Bool // nobody may have the servers after this run

	use  sync.RWMutex // held, shared, by what is under way
	over bool
}

// Nodes names the servers.
func (c *Cluster) Nodes() []string {
	var names []string
	for _, m := range c.set.members {
		names = append(names, m.name)
	}
	return names
}

// Up names the servers that the run has not taken down.
func (c *Cluster) Up() []string {
	var names []string
	for _, m := range c.set.members {
		if m.up() {
			names = append(names, m.name)
		}
	}
	return names
}

// Do sends commands to a server in one round trip, on the connection that a
// client of the run has to it, and gives one value for each. The client "" is
// for all that need no connection of their own. Where the run has taken the
// server down, or does so meanwhile, each value is an Error such as
// "DOWN n3 does not answer". A server that dies by itself is ErrDown.
func (c *Cluster) Do(ctx context.Context, client, node string, commands []sandbox.Command) ([]sandbox.Value, error) {
	if most := c.of.opt.Commands; len(commands) > most {
		return nil, fmt.Errorf("%w: %d commands at once, of %d at most", sandbox.ErrTooMuch, len(commands), most)
	}
	var values []sandbox.Value
	err := c.with(node, func(m *member) (err error) {
		values, err = m.do(ctx, client, commands)
		return err
	})
	return values, err
}

// HangUp cuts a client's connections, as a crash would, and waits until the
// servers have noticed.
func (c *Cluster) HangUp(client string) {
	c.use.RLock()
	defer c.use.RUnlock()
	if !c.over {
		for _, m := range c.set.members {
			m.hangUp(client)
		}
	}
}

// Sync waits until a replica has carried out all that its primary has so far.
func (c *Cluster) Sync(ctx context.Context, replica string) error {
	return c.withReplica(replica, func(m *member) error { return m.sync(ctx) })
}

// Cut stops replication to a replica for good, and at a known point: the replica
// has all that its primary has done until now, and gets nothing of what it does
// from now on. Neither of them is told; the connection falls silent.
func (c *Cluster) Cut(ctx context.Context, replica string) error {
	return c.withReplica(replica, func(m *member) error {
		if !m.relay.off.Load() && m.up() && m.primary.up() {
			if err := m.sync(ctx); err != nil {
				return err
			}
		}
		c.faulty.Store(true)
		m.relay.cut()
		return nil
	})
}

// Promote makes a replica a primary, and returns when it is one.
func (c *Cluster) Promote(ctx context.Context, replica string) error {
	return c.withReplica(replica, func(m *member) error {
		c.faulty.Store(true)
		return m.promote(ctx)
	})
}

// Kill ends a server as kill -9 does, and returns when it is gone.
func (c *Cluster) Kill(_ context.Context, node string) error {
	return c.with(node, func(m *member) error {
		c.faulty.Store(true)
		return m.kill()
	})
}

// Restart starts a server that is down. It comes up empty, since none keeps
// anything on disk, and follows nobody.
func (c *Cluster) Restart(ctx context.Context, node string) error {
	return c.with(node, func(m *member) error {
		c.faulty.Store(true)
		return m.start(ctx)
	})
}

// with finds a server, and keeps it from being given back meanwhile.
func (c *Cluster) with(name string, f func(*member) error) error {
	i := slices.IndexFunc(c.set.members, func(m *member) bool { return m.name == name })
	if i < 0 {
		return &sandbox.CommandError{Message: "there is no server " + name, Hint: "there are " + strings.Join(c.Nodes(), ", ")}
	}
	c.use.RLock()
	defer c.use.RUnlock()
	if c.over {
		return fmt.Errorf("%w: the servers were given back", sandbox.ErrDown)
	}
	err := f(c.set.members[i])
	if author := (*sandbox.CommandError)(nil); err != nil && !errors.As(err, &author) {
		c.faulty.Store(true)
	}
	return err
}

// withReplica is with for what only a replica can be told.
func (c *Cluster) withReplica(name string, f func(*member) error) error {
	return c.with(name, func(m *member) error {
		if m.primary == nil {
			return &sandbox.CommandError{Message: name + " is no replica"}
		}
		return f(m)
	})
}

// end takes the servers away from the run, and tells whether they are fit for
// another.
func (c *Cluster) end() (fit bool) {
	if !c.use.TryLock() { // the run left something behind
		c.faulty.Store(true)
		c.set.cut()
		c.use.Lock()
	}
	defer c.use.Unlock()
	c.over = true
	return !c.faulty.Load() && c.set.settled()
}
