// Package contained runs scripts that are not the course's own, each on a server
// that is started for it, that reaches nothing, and that is killed afterwards.
//
// The server's process is confined before it starts (confine_linux.go), what it
// answers is read within hard bounds (reply.go), and the end of its time is a
// SIGKILL (process.go). Whoever borrows its database sees the same sandbox.DB as
// anywhere.
package contained

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

// Options say what to start and how much of it. Command is required.
type Options struct {
	Command  []string      // argv of a process that calls Run with one more word
	Server   string        // path of the server to start; from the PATH if empty
	Warm     int           // servers kept ready; 2
	Slots    int           // servers lent at once; 4
	Deadline time.Duration // for one use, by the clock; 2 s
	CPU      time.Duration // for one server, in computing; 3 s
	Log      *slog.Logger  // discarded if nil

	prompt bool // servers run as others do, for tests on a machine that has no idle time to give
}

func (o Options) withDefaults() Options {
	if o.Warm <= 0 {
		o.Warm = 2
	}
	if o.Slots <= 0 {
		o.Slots = 4
	}
	if o.Deadline <= 0 {
		o.Deadline = 2 * time.Second
	}
	if o.CPU <= 0 {
		o.CPU = 3 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Pool keeps servers ready, each for one use.
type Pool struct {
	opt     Options
	dir     *server.PrivateDir
	image   *image
	warm    chan *process
	slots   chan struct{}
	life    context.Context
	end     context.CancelFunc
	stopped chan struct{} // closed once no server is started any more
	tested  chan struct{} // closed once available is known

	mu        sync.Mutex
	available error // why there is none; nil if there is
	last      error // of the last start
}

// Open finds out whether this machine can contain a server, and if so begins to
// keep some ready. A machine that can't is no error: see Available.
func Open(ctx context.Context, opt Options) (*Pool, error) {
	p := &Pool{opt: opt.withDefaults(), stopped: make(chan struct{}), tested: make(chan struct{})}
	dir, err := server.OpenPrivateDir()
	if err != nil {
		return nil, err
	}
	p.dir = dir
	p.warm = make(chan *process, p.opt.Warm-1) // one more waits to get in
	p.slots = make(chan struct{}, p.opt.Slots)
	p.life, p.end = context.WithCancel(context.Background())
	go p.keep()
	select {
	case <-p.tested:
		return p, nil
	case <-ctx.Done():
		_ = p.Close()
		return nil, sandbox.Ended(ctx)
	}
}

// Available is nil where scripts can be contained, and otherwise says why not.
func (p *Pool) Available() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.available
}

// keep starts servers as they are used up. A server dies with the thread that
// started it, so that one of a site that is killed doesn't outlive it; this is
// that thread.
func (p *Pool) keep() {
	defer close(p.stopped)
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	err := p.test()
	p.mu.Lock()
	p.available = err
	p.mu.Unlock()
	close(p.tested)
	if err != nil {
		p.opt.Log.Warn("scripts of visitors are off: this machine can't contain them", "reason", err)
		<-p.life.Done()
		return
	}
	for count := 1; p.life.Err() == nil; count++ {
		next, err := p.start(fmt.Sprint(count))
		p.mu.Lock()
		p.last = err
		p.mu.Unlock()
		if err != nil {
			p.opt.Log.Warn("a contained server didn't start", "reason", err)
			p.rest(time.Second)
			continue
		}
		select {
		case p.warm <- next:
		case <-next.gone: // its processor time ran out while it waited
			next.stop()
		case <-p.life.Done():
			next.stop()
		}
	}
	<-p.life.Done()
	for {
		select {
		case left := <-p.warm:
			left.stop()
		default:
			return
		}
	}
}

// rest waits, unless the pool is closed.
func (p *Pool) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.life.Done():
	}
}

// Close kills every server. Uses under way end with ErrDown.
func (p *Pool) Close() error {
	p.end()
	<-p.stopped
	for range cap(p.slots) { // each use gives its slot back
		p.slots <- struct{}{}
	}
	p.dir.Remove()
	return nil
}

// Use lends f the one database of a server that knows scripts, by name, and nothing
// else; the server is killed when f returns, and at the deadline. It waits its turn
// for as long as ctx lets it.
//
// The trouble says that a script didn't run to its end. Of the kind Script, f went
// on with the error reply as a result, and err is f's; of any other kind f was cut
// short, and err is nil. Otherwise err is f's own or a failure of the sandbox: a
// deadline that passed although the script had hardly begun is ErrLate.
func (p *Pool) Use(ctx context.Context, scripts map[string]string, f func(*sandbox.DB) error) (trouble *sandbox.Trouble, err error) {
	if err := p.Available(); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrDown, err)
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", sandbox.ErrBusy, ctx.Err())
	case <-p.life.Done():
		return nil, fmt.Errorf("%w: closed", sandbox.ErrDown)
	}
	defer func() { <-p.slots }()
	lent, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	return lent.use(ctx, scripts, f)
}

// take gives a server that is ready and still runs.
func (p *Pool) take(ctx context.Context) (*process, error) {
	patience := time.NewTimer(startWait)
	defer patience.Stop()
	for {
		select {
		case next := <-p.warm:
			if next.running() {
				return next, nil
			}
			next.stop()
		case <-patience.C:
			p.mu.Lock()
			defer p.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", sandbox.ErrDown, errors.Join(errors.New("no contained server was ready"), p.last))
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", sandbox.ErrBusy, ctx.Err())
		case <-p.life.Done():
			return nil, fmt.Errorf("%w: closed", sandbox.ErrDown)
		}
	}
}
