package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

const (
	syncWait = 5 * time.Second        // for a replica to catch up
	syncTick = 200 * time.Microsecond // between two looks at how far it is
)

// A member is one server of a set, through all its lives.
type member struct {
	of      *Fleet
	name    string
	dir     string
	key     string  // what replicas log in with
	primary *member // whom it follows at first; nil if nobody
	relay   *relay  // its way there

	starting sync.Mutex

	mu      sync.Mutex
	inst    *server.Process    // nil while it is down
	clients map[string]*client // of the run, by name; "" is those that need no connection of their own
	over    bool               // never to be started again
}

// A client is a connection to a member.
type client struct {
	turn chan struct{} // full while commands are under way
	link *sandbox.Link // nil until there is one; the member's mu guards it
}

// client gives the connection of the client with a name.
func (m *member) client(name string) *client {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clients[name]
	if c == nil {
		c = &client{turn: make(chan struct{}, 1)}
		m.clients[name] = c
	}
	return c
}

// socket is the same in every life.
func (m *member) socket() string { return filepath.Join(m.dir, "s") }

// start brings the server up, empty.
func (m *member) start(ctx context.Context) error {
	m.starting.Lock()
	defer m.starting.Unlock()
	if m.up() {
		return &sandbox.CommandError{Message: m.name + " is up"}
	}
	// A server loads what it finds in its directory.
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("a directory for %s: %w", m.name, err)
	}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return fmt.Errorf("a directory for %s: %w", m.name, err)
	}
	inst, err := m.of.beside.Beside(ctx, m.dir, memberConfig(m.key), m.of.yard.run)
	if err != nil {
		if ctx.Err() != nil {
			return sandbox.Ended(ctx)
		}
		return fmt.Errorf("%w: %s: %w", sandbox.ErrDown, m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		inst.Stop()
		return errClosed
	}
	m.inst = inst
	return nil
}

// memberConfig is what sets one server of several apart from one alone: it is
// smaller, and ready to have replicas and to be one. Where a thing is said
// twice, what is said last counts.
func memberConfig(key string) string {
	sum := sha256.Sum256([]byte(key))
	return strings.Join([]string{
		"maxclients 64",
		"maxmemory 16mb",
		"client-output-buffer-limit normal 4mb 2mb 5",
		"client-output-buffer-limit replica 16mb 8mb 5",
		"repl-backlog-size 64kb",
		"repl-diskless-sync no", // else a replica's first sign of life can be missed, and the next takes a second
		"repl-diskless-load on-empty-db",
		"masteruser replica",
		"masterauth " + key,
		"user replica reset on #" + hex.EncodeToString(sum[:]) + " +psync +replconf +ping",
		"",
	}, "\n")
}

// now gives the server's present life, nil while it is down.
func (m *member) now() *server.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inst
}

// up tells whether the server is meant to be there. One that died by itself is:
// its silence must not pass for an answer.
func (m *member) up() bool { return m.now() != nil }

// do sends commands of a run's client.
func (m *member) do(ctx context.Context, name string, commands []sandbox.Command) ([]sandbox.Value, error) {
	c := m.client(name)
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, sandbox.Ended(ctx)
	}
	values := make([]sandbox.Value, 0, len(commands))
	for _, part := range m.parts(commands) {
		some, err := m.send(ctx, c, part)
		if err != nil {
			return nil, err
		}
		values = append(values, some...)
	}
	return values, nil
}

// parts gives the commands that may go in one pipeline. A replica can refuse a
// write in the midst of an array that a script gives, and go-redis then takes
// the rest of the array for the replies to what comes behind: so nothing does.
func (m *member) parts(commands []sandbox.Command) [][]sandbox.Command {
	if m.primary == nil {
		return [][]sandbox.Command{commands}
	}
	var parts [][]sandbox.Command
	begin := 0
	for i := range commands {
		if commands[i].Scripted() || i == len(commands)-1 {
			parts = append(parts, commands[begin:i+1])
			begin = i + 1
		}
	}
	return parts
}

// send sends commands in one pipeline.
func (m *member) send(ctx context.Context, c *client, commands []sandbox.Command) ([]sandbox.Value, error) {
	inst, link, err := m.reach(ctx, c)
	var values []sandbox.Value
	if err == nil && inst != nil {
		values, err = link.Do(ctx, commands, false)
	}
	switch {
	case m.of.life.Err() != nil:
		return nil, errClosed
	case inst == nil, err != nil && m.now() != inst: // or taken down meanwhile
		return m.silence(commands), nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if slices.ContainsFunc(values, refusesWrites) {
		m.renounce(c, link) // go-redis gives up a connection that turns out to be to a replica
	}
	return values, nil
}

// reach connects a client to the server; both are nil while it is down.
func (m *member) reach(ctx context.Context, c *client) (*server.Process, *sandbox.Link, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inst != nil && c.link == nil {
		link, err := m.inst.Dial(ctx, m.of.life, 0, false, false)
		if err != nil {
			return m.inst, nil, err
		}
		c.link = link
	}
	return m.inst, c.link, nil
}

// renounce closes a connection on which nothing is under way.
func (m *member) renounce(c *client, link *sandbox.Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.link == link {
		c.link = nil
	}
	link.Retire(m.of.life)
}

// hangUp cuts a client's connection, and waits until the server has noticed.
func (m *member) hangUp(name string) {
	var link *sandbox.Link
	m.mu.Lock()
	if c := m.clients[name]; c != nil {
		link, c.link = c.link, nil
		delete(m.clients, name)
	}
	m.mu.Unlock()
	if link != nil {
		link.Crash(m.of.life)
	}
}

// silence is what one hears of a server that is down.
func (m *member) silence(commands []sandbox.Command) []sandbox.Value {
	return slices.Repeat([]sandbox.Value{sandbox.Error("DOWN " + m.name + " does not answer")}, len(commands))
}

// refusesWrites tells whether a reply is a replica's to a command that writes.
func refusesWrites(v sandbox.Value) bool {
	e, ok := v.(sandbox.Error)
	return ok && (e.Code() == "READONLY" || strings.Contains(string(e), "-READONLY "))
}

// kill ends the server's life.
func (m *member) kill() error {
	m.mu.Lock()
	inst := m.inst
	m.inst = nil
	var links []*sandbox.Link
	for _, c := range m.clients {
		if c.link != nil {
			links = append(links, c.link)
			c.link = nil
		}
	}
	m.mu.Unlock()
	if inst == nil {
		return &sandbox.CommandError{Message: m.name + " is down already"}
	}
	inst.Stop()
	for _, link := range links {
		if done := link.Retire(m.of.life); done != nil {
			<-done // at once: there is nobody at the other end
		}
	}
	return nil
}

// stop ends the server for good, and takes away what it leaves.
func (m *member) stop() {
	m.mu.Lock()
	m.over = true
	m.mu.Unlock()
	_ = m.kill()
	if m.relay != nil {
		m.relay.close()
	}
	_ = os.RemoveAll(m.dir)
}

// settled tells whether the server lives, and is done with all that a run sent.
// The clients that had a connection of their own are gone after it.
func (m *member) settled() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inst == nil || isClosed(m.inst.Gone) {
		return false
	}
	settled := true
	for name, c := range m.clients {
		if c.link != nil && (name != "" || !c.link.Fit()) {
			settled = c.link.Retire(m.of.life) == nil && settled
			c.link = nil
		}
		if name != "" {
			delete(m.clients, name)
		}
	}
	return settled
}

// cut ends what is under way.
func (m *member) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.clients {
		if c.link != nil {
			c.link.Cut()
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// greet sees to it that there is a connection for the next run.
func (m *member) greet(ctx context.Context) error {
	c := m.client("")
	m.mu.Lock()
	if c.link != nil && !c.link.Alive() {
		c.link.Close()
		c.link = nil
	}
	m.mu.Unlock()
	_, _, err := m.reach(ctx, c)
	return err
}

// promote makes it a primary.
func (m *member) promote(ctx context.Context) error {
	if err := m.order(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	info, err := m.replication(ctx)
	if err != nil {
		return err
	}
	if role := server.InfoField(info, "role"); role != "master" {
		return fmt.Errorf("%w: %s was promoted, and is still a %s", sandbox.ErrDown, m.name, role)
	}
	return nil
}

// sync waits until a replica has carried out all that its primary has by now.
func (m *member) sync(ctx context.Context) error {
	if m.relay.off.Load() {
		return &sandbox.CommandError{Message: m.name + " is cut off from " + m.primary.name + " and can't catch up"}
	}
	ctx, cancel := context.WithTimeout(ctx, syncWait)
	defer cancel()
	info, err := m.primary.replication(ctx)
	if err != nil {
		return err
	}
	goal, err := strconv.ParseInt(server.InfoField(info, "master_repl_offset"), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: how far %s is: %w", sandbox.ErrDown, m.primary.name, err)
	}
	tick := time.NewTicker(syncTick)
	defer tick.Stop()
	for {
		info, err := m.replication(ctx)
		if err != nil {
			return err
		}
		if server.InfoField(info, "role") == "master" {
			return &sandbox.CommandError{Message: m.name + " is no replica any more"}
		}
		reached, err := strconv.ParseInt(server.InfoField(info, "slave_repl_offset"), 10, 64)
		if err == nil && reached >= goal && server.InfoField(info, "master_link_status") == "up" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s has not caught up with %s: %w", m.name, m.primary.name, sandbox.Ended(ctx))
		}
	}
}

// replication is what the server says of it.
func (m *member) replication(ctx context.Context) (string, error) {
	var info string
	err := m.admin(ctx, func(admin *redis.Client) (err error) {
		info, err = admin.Info(ctx, "replication").Result()
		return err
	})
	return info, err
}

// order sends a command that no run may.
func (m *member) order(ctx context.Context, words ...any) error {
	return m.admin(ctx, func(admin *redis.Client) error { return admin.Do(ctx, words...).Err() })
}

// admin reaches the server as the one that may do everything.
func (m *member) admin(ctx context.Context, f func(*redis.Client) error) error {
	inst := m.now()
	if inst == nil {
		return &sandbox.CommandError{Message: m.name + " is down"}
	}
	err := f(inst.Admin)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return sandbox.Ended(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: %s: %w", sandbox.ErrLate, m.name, err)
	}
	return fmt.Errorf("%w: %s: %w", sandbox.ErrDown, m.name, err)
}
