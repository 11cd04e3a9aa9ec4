// Package sql is a store that is not Valkey, for figures whose fence stands in SQL:
// a database of each run's own in SQLite, or in a PostgreSQL that somebody else runs.
package sql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstep/sandbox"
)

// A Store lends empty SQL databases, for a figure whose protected resource is not
// in Valkey. A run's database is its own, and gone after it.
type Store struct {
	store  engine
	bounds bounds
	slots  chan struct{} // one for each run that may start

	life    context.Context // ends with Close
	end     context.CancelFunc
	closing sync.Once
}

// bounds are how much of the store is given away.
type bounds struct {
	runs   int           // databases lent at once
	actors int           // connections of one run
	conns  int           // connections of all runs, to a store that counts them
	wait   time.Duration // how long to wait for a database
	answer time.Duration // how long one statement may take
	rows   int           // most rows of a reply
	bytes  int           // most bytes of a reply
	writes int           // most rows that a run may change
}

// defaultBounds leave room for PostgreSQL, which looks for deadlocks after a
// second and serves a hundred connections, unless told otherwise.
func defaultBounds() bounds {
	return bounds{
		runs: 16, actors: 8, conns: 48,
		wait: 100 * time.Millisecond, answer: 2 * time.Second,
		rows: 1000, bytes: 256 << 10, writes: 10_000,
	}
}

// within checks a reply against its bounds.
func (b bounds) within(rows, bytes int) error {
	if rows > b.rows || bytes > b.bytes {
		return fmt.Errorf("%w: a reply of more than %d rows or %d bytes", sandbox.ErrTooMuch, b.rows, b.bytes)
	}
	return nil
}

// An engine makes empty databases.
type engine interface {
	engine() sandbox.Engine
	// create makes a database for one run.
	create(ctx context.Context) (database, error)
	close()
}

// A database is the database of one run.
type database interface {
	connect(ctx context.Context) (session, error)
	// drop removes the database once its connections are closed. It never fails:
	// what can't be removed now is removed when the store is next opened.
	drop()
}

// A session is a connection to the database of a run.
type session interface {
	do(ctx context.Context, s parsed) (sandbox.Value, error)
	close()
}

// Open opens the store: SQLite within this process where dsn is "", else the
// PostgreSQL server at dsn.
func Open(ctx context.Context, dsn string) (*Store, error) {
	return open(ctx, dsn, defaultBounds())
}

func open(ctx context.Context, dsn string, bounds bounds) (*Store, error) {
	s := &Store{bounds: bounds, slots: make(chan struct{}, bounds.runs)}
	var err error
	if dsn == "" {
		s.store, err = openSQLite(bounds)
	} else {
		s.store, err = openPostgres(ctx, dsn, bounds)
	}
	if err != nil {
		return nil, err
	}
	s.life, s.end = context.WithCancel(context.Background())
	for range bounds.runs {
		s.slots <- struct{}{}
	}
	return s, nil
}

// Engine names the store.
func (s *Store) Engine() sandbox.Engine { return s.store.engine() }

// Close ends the runs that are under way and closes the store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.end()
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for range cap(s.slots) {
			select {
			case <-s.slots:
			case <-patience.Done(): // a run that does not return is left behind
			}
		}
		s.store.close()
	})
	return nil
}

// Use lends f an empty database, and drops it when f returns or panics.
func (s *Store) Use(ctx context.Context, f func(*Run) error) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { s.slots <- struct{}{} }()
	database, err := s.store.create(ctx)
	if err != nil {
		return failure(ctx, err)
	}
	r := &Run{s: s, database: database, actors: map[string]*client{}}
	r.life, r.end = context.WithCancel(s.life)
	defer r.close()
	return f(r)
}

// Places tells how many runs have databases at once.
func (s *Store) Places() int { return cap(s.slots) }

// take waits for a database that may be made, a little while.
func (s *Store) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return sandbox.Ended(ctx)
	}
	timer := time.NewTimer(s.bounds.wait)
	defer timer.Stop()
	select {
	case <-s.slots:
		if s.life.Err() != nil {
			s.slots <- struct{}{} // Close is waiting for it
			return fmt.Errorf("%w: closed", sandbox.ErrDown)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: no SQL database came free in %v", sandbox.ErrBusy, s.bounds.wait)
	case <-ctx.Done():
		return sandbox.Ended(ctx)
	case <-s.life.Done():
		return fmt.Errorf("%w: closed", sandbox.ErrDown)
	}
}

// A Run is an SQL database that is lent to one run.
type Run struct {
	s        *Store
	database database
	life     context.Context // ends when the database is given back
	end      context.CancelFunc

	mu     sync.Mutex
	actors map[string]*client
	over   bool
	writes int64
}

// A client is an actor's connection.
type client struct {
	life context.Context // ends when the connection is cut
	end  context.CancelFunc
	mu   sync.Mutex // one statement at a time
	conn session    // nil until the first, and after a failure
}

// Do runs one statement on the connection of an actor. Each actor has its own,
// so a transaction is the actor's; actors may call at the same time, and one may
// wait for another's transaction.
//
// The reply to an INSERT, UPDATE or DELETE is how many rows it changed (int64);
// to a query, or where the statement has RETURNING, the rows ([]any of []any);
// to anything else what the store calls it ("BEGIN"). A value of a row is nil,
// int64 or string; what is neither is a string as the store prints it. What the
// store refuses is an Error that starts with the store's code ("SQLITE_BUSY
// database is locked", "40001 could not serialize …").
//
// A Go error says that there was no reply: ErrBusy, ErrDown, ErrLate, ErrTooMuch,
// or a *CommandError where Check refuses the statement.
func (r *Run) Do(ctx context.Context, actor, statement string) (sandbox.Value, error) {
	parsed, err := parse(statement)
	if err != nil {
		return nil, err
	}
	a, err := r.actor(actor)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		return nil, errCut
	}
	within, cancel := context.WithTimeout(ctx, r.s.bounds.answer)
	defer cancel()
	defer context.AfterFunc(a.life, cancel)()
	if a.conn == nil {
		if a.conn, err = r.database.connect(within); err != nil {
			a.conn = nil
			return nil, a.failed(ctx, within, err)
		}
	}
	value, err := a.conn.do(within, parsed)
	if err != nil {
		a.conn.close() // and with it the actor's transaction
		a.conn = nil
		return nil, a.failed(ctx, within, err)
	}
	return value, r.count(parsed, value)
}

var (
	errOver = fmt.Errorf("%w: the SQL database was given back", sandbox.ErrDown)
	errCut  = fmt.Errorf("%w: the actor's connection was cut", sandbox.ErrDown)
)

// actor gives an actor's place.
func (r *Run) actor(name string) (*client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, errOver
	}
	a := r.actors[name]
	if a == nil {
		if most := r.s.bounds.actors; len(r.actors) == most {
			return nil, fmt.Errorf("%w: %d actors at an SQL database at most", sandbox.ErrTooMuch, most)
		}
		a = &client{}
		a.life, a.end = context.WithCancel(r.life)
		r.actors[name] = a
	}
	return a, nil
}

// count keeps a run from filling the store.
func (r *Run) count(s parsed, value sandbox.Value) error {
	n, ok := value.(int64)
	if !ok || !s.writes() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes += n; r.writes > int64(r.s.bounds.writes) {
		return fmt.Errorf("%w: %d rows changed, of %d at most", sandbox.ErrTooMuch, r.writes, r.s.bounds.writes)
	}
	return nil
}

// failed says why there was no reply.
func (a *client) failed(ctx, within context.Context, err error) error {
	switch {
	case ctx.Err() != nil || errors.Is(err, sandbox.ErrTooMuch):
	case a.life.Err() != nil:
		return errCut
	case within.Err() != nil:
		return fmt.Errorf("%w: %w", sandbox.ErrLate, err)
	}
	return failure(ctx, err)
}

// failure puts an error of a store in the sandbox's words.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return sandbox.Ended(ctx)
	}
	for _, known := range []error{sandbox.ErrBusy, sandbox.ErrDown, sandbox.ErrLate, sandbox.ErrTooMuch} {
		if errors.Is(err, known) {
			return err
		}
	}
	var refused *sandbox.CommandError
	if errors.As(err, &refused) {
		return err
	}
	return fmt.Errorf("%w: %w", sandbox.ErrDown, err)
}

// Cut cuts an actor's connection, as a crash would: the store rolls back what
// the actor had begun. A later statement of the actor's has a new connection.
func (r *Run) Cut(actor string) {
	r.mu.Lock()
	a := r.actors[actor]
	delete(r.actors, actor)
	r.mu.Unlock()
	if a != nil {
		a.close()
	}
}

func (a *client) close() {
	a.end()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		a.conn.close()
		a.conn = nil
	}
}

// close ends what the run left under way, and drops its database.
func (r *Run) close() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.end()
	for _, a := range r.actors {
		a.close()
	}
	r.database.drop()
}
