package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Reasons why what a run saw must not count; Use puts them right and runs once
// more.
var (
	ErrNoScript = fmt.Errorf("%w: the server has lost the scripts", ErrDown)
	ErrHeld     = fmt.Errorf("%w: another run's script holds the server up", ErrBusy)
	ErrFull     = fmt.Errorf("%w: the server's memory is full", ErrDown)
)

// mostConns is how many connections of its own a run may have.
const mostConns = 64

// A DB is a database that is lent to one run. It is empty at first, whatever
// its last run left.
type DB struct {
	life context.Context // of who lends it; its end cuts every connection
	link *Link
	most int // commands of one Do; 0 for any number

	mu    sync.Mutex
	clean bool    // it has been emptied for this run
	conns []*Conn // opened by this run
	over  bool
	cause error             // see Spoilt
	after []<-chan struct{} // each closes when the server is done with a connection
}

// NewDB lends the database of a link to a run. clean says that it is empty
// already. It is taken back with End.
func NewDB(life context.Context, link *Link, clean bool, most int) *DB {
	return &DB{life: life, link: link, clean: clean, most: most}
}

// Do sends commands in one round trip, on the connection that the steps of a run
// share, and gives one value for each. A transaction or a blocking command
// belongs on a connection of its own, but is not refused.
func (d *DB) Do(ctx context.Context, commands []Command) ([]Value, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return nil, fmt.Errorf("%w: the database was given back", ErrDown)
	}
	return d.do(ctx, commands)
}

// do is Do with the lock held.
func (d *DB) do(ctx context.Context, commands []Command) ([]Value, error) {
	if err := d.within(commands); err != nil {
		return nil, err
	}
	values, err := d.link.Do(ctx, commands, !d.clean)
	if err == nil {
		d.clean = true
	}
	return values, d.note(err)
}

// within checks a single run's commands against their bound.
func (d *DB) within(commands []Command) error {
	if d.most > 0 && len(commands) > d.most {
		return fmt.Errorf("%w: %d commands at once, of %d at most", ErrTooMuch, len(commands), d.most)
	}
	return nil
}

// note remembers that what the run sees must not count.
func (d *DB) note(err error) error {
	if errors.Is(err, ErrNoScript) || errors.Is(err, ErrHeld) || errors.Is(err, ErrFull) {
		d.cause = err
	}
	return err
}

// Spoilt tells why what the run saw must not count, or nil.
func (d *DB) Spoilt() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

// Conn opens a connection of its own to the same database, for an actor that
// holds a transaction, blocks, races or crashes. It is new, and closed when the
// run ends.
func (d *DB) Conn(ctx context.Context) (*Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return nil, fmt.Errorf("%w: the database was given back", ErrDown)
	}
	if len(d.conns) == mostConns {
		return nil, fmt.Errorf("%w: %d connections", ErrTooMuch, mostConns)
	}
	if !d.clean {
		if _, err := d.do(ctx, nil); err != nil {
			return nil, err
		}
	}
	link, err := d.link.to.Dial(ctx, d.life, d.link.number, false, true)
	if err != nil {
		return nil, d.note(err)
	}
	c := &Conn{db: d, link: link}
	d.conns = append(d.conns, c)
	return c, nil
}

// End closes the run's own connections, and the shared one unless it is as good
// as new: then fit is true. The database must not be lent again before every
// channel of after is closed, since the server may still be at work for the run.
func (d *DB) End() (after []<-chan struct{}, fit bool) {
	if !d.mu.TryLock() { // the run left a Do behind
		d.link.Cut()
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	d.over = true
	for _, c := range d.conns {
		d.retire(c.link)
	}
	fit = d.link.Fit()
	if !fit {
		d.retire(d.link)
	}
	return d.after, fit
}

func (d *DB) retire(l *Link) {
	if done := l.Retire(d.life); done != nil {
		d.after = append(d.after, done)
	}
}

// A Conn is a connection of one actor's own.
type Conn struct {
	db   *DB
	link *Link
}

// Do sends commands in one round trip and gives one value for each.
func (c *Conn) Do(ctx context.Context, commands []Command) ([]Value, error) {
	if err := c.db.within(commands); err != nil {
		return nil, err
	}
	values, err := c.link.Do(ctx, commands, false)
	if err != nil {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		c.db.note(err)
	}
	return values, err
}

// Close cuts the connection, as a crash would, and waits until the server has
// noticed: what the actor watched, or waited for, is given up by then.
func (c *Conn) Close() { c.link.Crash(c.db.life) }

// Received asks the server how many commands it has received down this
// connection since it was opened. What a script calls inside is not received:
// the server's count of it is taken off.
func (c *Conn) Received(ctx context.Context) (int64, error) {
	if c.link.tally == nil {
		return 0, ErrUncounted
	}
	return c.link.tally.received(ctx, c.link)
}
