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
	errNoScript = fmt.Errorf("%w: the server has lost the scripts", ErrDown)
	errHeld     = fmt.Errorf("%w: another run's script holds the server up", ErrBusy)
	errFull     = fmt.Errorf("%w: the server's memory is full", ErrDown)
)

// mostConns is how many connections of its own a run may have.
const mostConns = 64

// A DB is a database that is lent to one run. It is empty at first, whatever
// its last run left.
type DB struct {
	s    *Sandbox
	loan *loan
	link *link

	mu    sync.Mutex
	clean bool    // it has been emptied for this run
	conns []*Conn // opened by this run
	over  bool
	cause error // see spoilt
}

func newDB(s *Sandbox, loan *loan) *DB {
	d := &DB{s: s, loan: loan, link: loan.slot.link}
	d.clean = loan.from != nil && !loan.used // the claim found it empty
	loan.used = true
	return d
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
	values, err := d.link.do(ctx, commands, !d.clean)
	if err == nil {
		d.clean = true
	}
	return values, d.note(err)
}

// within checks a single run's commands against their bound.
func (d *DB) within(commands []Command) error {
	if most := d.s.opt.Commands; !d.loan.slot.study && len(commands) > most {
		return fmt.Errorf("%w: %d commands at once, of %d at most", ErrTooMuch, len(commands), most)
	}
	return nil
}

// note remembers that what the run sees must not count.
func (d *DB) note(err error) error {
	if errors.Is(err, errNoScript) || errors.Is(err, errHeld) || errors.Is(err, errFull) {
		d.cause = err
	}
	return err
}

// spoilt tells why what the run saw must not count, or nil.
func (d *DB) spoilt() error {
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
	link, err := d.link.inst.dial(ctx, d.s.life, d.loan.slot.number, false, true)
	if err != nil {
		return nil, d.note(err)
	}
	c := &Conn{db: d, link: link}
	d.conns = append(d.conns, c)
	return c, nil
}

// end closes the run's own connections, and throws the shared one away unless
// it is as good as new.
func (d *DB) end() {
	if !d.mu.TryLock() { // the run left a Do behind
		d.link.wire.cut()
		d.mu.Lock()
	}
	defer d.mu.Unlock()
	d.over = true
	for _, c := range d.conns {
		d.retire(c.link)
	}
	if d.link.spoilt {
		d.retire(d.link)
		d.loan.slot.link = nil
	}
}

// retire closes a connection. If the server may still be at work on what came
// down it, the database is not given back before it is done.
func (d *DB) retire(l *link) {
	if done := l.retire(d.s.life); done != nil {
		d.loan.after = append(d.loan.after, done)
	}
}

// A Conn is a connection of one actor's own.
type Conn struct {
	db   *DB
	link *link
}

// Do sends commands in one round trip and gives one value for each.
func (c *Conn) Do(ctx context.Context, commands []Command) ([]Value, error) {
	if err := c.db.within(commands); err != nil {
		return nil, err
	}
	values, err := c.link.do(ctx, commands, false)
	if err != nil {
		c.db.mu.Lock()
		defer c.db.mu.Unlock()
		c.db.note(err)
	}
	return values, err
}

// Close cuts the connection, as a crash would, and waits until the server has
// noticed: what the actor watched, or waited for, is given up by then.
func (c *Conn) Close() { c.link.crash(c.db.s.life) }

// Received asks the server how many commands it has received down this
// connection since it was opened. What a script calls inside is not received:
// the server's count of it is taken off.
func (c *Conn) Received(ctx context.Context) (int64, error) {
	if c.link.tally == nil {
		return 0, ErrUncounted
	}
	return c.link.tally.received(ctx, c.link)
}
