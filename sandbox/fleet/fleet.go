// Package fleet is several real servers that are lent together, a primary with its
// replicas or servers that know nothing of each other, with faults as real as they
// are: a server that is killed is dead, and a relay that is cut passes nothing on.
package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

// errClosed says that the fleet has been closed.
var errClosed = fmt.Errorf("%w: closed", sandbox.ErrDown)

// A shape is what a set consists of: a primary with replicas, or independent
// servers.
type shape struct{ replicas, independent int }

// names are those of the servers.
func (w shape) names() []string {
	if w.replicas > 0 {
		return []string{"primary", "replica", "replica2"}[:w.replicas+1]
	}
	var names []string
	for i := range w.independent {
		names = append(names, fmt.Sprint("n", i+1))
	}
	return names
}

// A Fleet is all the sets of several servers that runs are lent.
type Fleet struct {
	beside      *server.Server // whose kind of server they are
	opt         server.Options
	sets        int // of each kind, at once
	life        context.Context
	end         context.CancelFunc
	closing     sync.Once
	yard        *yard
	made        atomic.Int64 // directories
	replicated  *pool
	independent *pool
}

// Open makes a fleet of servers of the same kind as one that runs, of which
// so many sets of each shape can be lent at once. It is nil, and lends none, where
// that server is no process of our own.
func Open(beside *server.Server, sets int) *Fleet {
	if beside.Dir() == "" {
		return nil
	}
	c := &Fleet{beside: beside, opt: beside.Settings(), sets: sets, yard: newYard()}
	c.life, c.end = context.WithCancel(context.Background())
	c.replicated, c.independent = newPool(c), newPool(c)
	return c
}

// Sets tells how many runs have servers at once, of each kind; none without a fleet.
func (c *Fleet) Sets() int {
	if c == nil {
		return 0
	}
	return c.sets
}

func (c *Fleet) pool(what shape) *pool {
	if what.replicas > 0 {
		return c.replicated
	}
	return c.independent
}

// Close ends the runs that are under way and stops every server. A run that does
// not return is left behind. Closing twice does nothing more.
func (c *Fleet) Close() {
	if c != nil {
		c.closing.Do(c.close)
	}
}

func (c *Fleet) close() {
	c.end()
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { c.replicated.close(patience) })
	both.Go(func() { c.independent.close(patience) })
	both.Wait()
	c.yard.close()
}

// raise starts the servers of a set.
func (c *Fleet) raise(ctx context.Context, what shape) (*set, error) {
	set := &set{what: what}
	key := rand.Text()
	for i, name := range what.names() {
		m := &member{of: c, name: name, key: key, clients: map[string]*client{}}
		m.dir = filepath.Join(c.beside.Dir(), fmt.Sprint("c", c.made.Add(1)))
		if what.replicas > 0 && i > 0 {
			m.primary = set.members[0]
			relay, err := newRelay(m.primary.socket())
			if err != nil {
				set.stop()
				return nil, fmt.Errorf("a way from %s to its primary: %w", name, err)
			}
			m.relay = relay
		}
		set.members = append(set.members, m)
	}
	err := set.each(func(m *member) error { return m.start(ctx) })
	if err == nil && what.replicas > 0 {
		err = set.follow(ctx)
	} else if err == nil {
		err = set.ready(ctx)
	}
	if err != nil {
		set.stop()
		return nil, fmt.Errorf("start %d servers: %w", len(set.members), err)
	}
	return set, nil
}

// A yard is the thread that servers are started on. They die with it, so it
// lives as long as the fleet.
type yard struct {
	work chan func()
	end  chan struct{}
	done chan struct{}
}

func newYard() *yard {
	y := &yard{work: make(chan func()), end: make(chan struct{}), done: make(chan struct{})}
	go y.live()
	return y
}

func (y *yard) live() {
	defer close(y.done)
	runtime.LockOSThread() // for good: the thread ends with this goroutine
	for {
		select {
		case f := <-y.work:
			f()
		case <-y.end:
			return
		}
	}
}

// run calls f on the thread.
func (y *yard) run(f func() error) error {
	result := make(chan error, 1)
	select {
	case y.work <- func() { result <- f() }:
		return <-result
	case <-y.end:
		return errClosed
	}
}

func (y *yard) close() {
	close(y.end)
	<-y.done
}

// A set is servers that belong together, for one run after another.
type set struct {
	what    shape
	members []*member
}

// each does something to every server, all at once.
func (t *set) each(f func(*member) error) error {
	errs := make([]error, len(t.members))
	var all sync.WaitGroup
	for i, m := range t.members {
		all.Go(func() { errs[i] = f(m) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// follow makes replicas of the servers behind the first.
func (t *set) follow(ctx context.Context) error {
	// The primary looks hz times a second whether it has written down what it
	// then sends to its replicas.
	if err := t.members[0].order(ctx, "CONFIG", "SET", "hz", "500"); err != nil {
		return err
	}
	for _, m := range t.members[1:] {
		if err := m.order(ctx, "REPLICAOF", "127.0.0.1", m.relay.port()); err != nil {
			return err
		}
	}
	if err := t.ready(ctx); err != nil {
		return err
	}
	return t.members[0].order(ctx, "CONFIG", "SET", "hz", "10")
}

// ready empties the servers and waits until replicas have followed. A replica
// may be connected and not be sent anything yet; that it carries out the flush
// shows that it is.
func (t *set) ready(ctx context.Context) error {
	for _, m := range t.members {
		if m.primary == nil {
			if err := m.order(ctx, "FLUSHALL", "SYNC"); err != nil {
				return err
			}
		}
	}
	for _, m := range t.members {
		if m.primary != nil {
			if err := m.sync(ctx); err != nil {
				return err
			}
		}
		if err := m.greet(ctx); err != nil {
			return err
		}
	}
	return nil
}

// cut ends what a run has under way.
func (t *set) cut() {
	for _, m := range t.members {
		m.cut()
	}
}

// settled tells whether the servers are done with all that a run sent them.
func (t *set) settled() bool {
	return !slices.ContainsFunc(t.members, func(m *member) bool { return !m.settled() })
}

// stop ends the servers for good.
func (t *set) stop() {
	_ = t.each(func(m *member) error { m.stop(); return nil })
}

// A pool is the sets of one kind. There are never more of them than Open was told,
// whatever their shapes, and no more than one of each shape is at rest.
type pool struct {
	of   *Fleet
	lent chan struct{}  // holds one for each set that is lent
	work sync.WaitGroup // what goes on in the background

	mu     sync.Mutex
	all    map[*set]bool
	rest   []*set
	start  *start // the one that goes on, or nil
	closed bool
}

// A start is of one set, which is at rest when it is done.
type start struct {
	what shape
	done chan struct{}
	err  error // once it is done
}

func newPool(c *Fleet) *pool {
	return &pool{of: c, lent: make(chan struct{}, c.sets), all: map[*set]bool{}}
}

// take gives a set that is ready.
func (f *pool) take(ctx context.Context, what shape) (*set, error) {
	wait := f.of.opt.Wait
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case f.lent <- struct{}{}:
	case <-timer.C:
		return nil, fmt.Errorf("%w: no servers came free in %v", sandbox.ErrBusy, wait)
	case <-ctx.Done():
		return nil, sandbox.Ended(ctx)
	case <-f.of.life.Done():
		return nil, errClosed
	}
	set, err := f.get(ctx, what)
	if err != nil {
		<-f.lent
	}
	return set, err
}

// get finds a set at rest, or has one started.
func (f *pool) get(ctx context.Context, what shape) (*set, error) {
	for spoilt := 0; ; {
		set, start := f.pick(what)
		switch {
		case set != nil:
			err := set.ready(ctx)
			if err == nil {
				return set, nil
			}
			f.discard(set)
			if ctx.Err() != nil {
				return nil, sandbox.Ended(ctx)
			}
			if spoilt++; spoilt == 3 {
				return nil, err
			}
			f.of.opt.Log.Warn("servers at rest are no good any more; starting others", "reason", err)
		case start == nil:
			return nil, errClosed
		default:
			select {
			case <-start.done:
			case <-ctx.Done():
				return nil, sandbox.Ended(ctx)
			}
			if start.err != nil && start.what == what {
				return nil, fmt.Errorf("%w: %w", sandbox.ErrDown, start.err)
			}
		}
	}
}

// pick takes a set at rest, or else gives the start to wait for; neither, once
// the pool is closed.
func (f *pool) pick(what shape) (*set, *start) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, nil
	}
	for i, set := range f.rest {
		if set.what == what {
			f.rest = slices.Delete(f.rest, i, i+1)
			return set, nil
		}
	}
	if f.start == nil {
		f.begin(what)
	}
	return nil, f.start
}

// begin starts a set in the background, with the lock held. It goes on when
// whoever asked for it has left; somebody will ask again.
func (f *pool) begin(what shape) {
	begun := &start{what: what, done: make(chan struct{})}
	f.start = begun
	var old []*set // of other shapes, which make room
	for len(f.all)-len(old) >= cap(f.lent) && len(f.rest) > 0 {
		old, f.rest = append(old, f.rest[0]), f.rest[1:]
	}
	f.work.Go(func() {
		for _, set := range old {
			f.discard(set)
		}
		set, err := f.of.raise(f.of.life, what)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err == nil {
			f.all[set] = true
			f.rest = append(f.rest, set)
		}
		f.start, begun.err = nil, err
		close(begun.done)
	})
}

// discard stops a set that nobody else can take.
func (f *pool) discard(set *set) {
	set.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, set)
}

// giveBack takes a set back. One that is fit for another run is at rest again,
// any other is replaced in the background.
func (f *pool) giveBack(set *set, fit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fit && !f.closed && !f.resting(set.what) {
		f.rest = append(f.rest, set)
		<-f.lent
		return
	}
	replace := func() {
		f.discard(set)
		<-f.lent
		f.replenish(set.what)
	}
	if f.closed { // close no longer waits for what is in the background
		go replace()
		return
	}
	f.work.Go(replace)
}

// replenish has a set ready for the next run like the last, where there is room
// and none is at rest.
func (f *pool) replenish(what shape) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed && f.start == nil && !f.resting(what) && len(f.all) < cap(f.lent) {
		f.begin(what)
	}
}

func (f *pool) resting(what shape) bool {
	return slices.ContainsFunc(f.rest, func(set *set) bool { return set.what == what })
}

// close stops every set, and waits until those that are lent are given back.
func (f *pool) close(patience context.Context) {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stopAll()
	f.work.Wait()
	f.stopAll() // one may have been started meanwhile
	for range cap(f.lent) {
		select {
		case f.lent <- struct{}{}:
		case <-patience.Done():
		}
	}
}

func (f *pool) stopAll() {
	f.mu.Lock()
	var all []*set
	for set := range f.all {
		all = append(all, set)
	}
	f.mu.Unlock()
	for _, set := range all {
		set.stop()
	}
}
