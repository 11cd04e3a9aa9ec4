package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	batch        = 1000             // commands of one pipeline; longer ones gain nothing
	studyBytes   = 64 << 20         // most bytes one Do of an exploration may be answered
	longestHold  = 30 * time.Second // for a command that may block
	longestDrain = 3 * time.Second  // for the server to be done with a connection
)

// A Link is one connection to the server, in one database, as the user that runs
// are. It is never shared between runs unless it is as good as new.
type Link struct {
	to     *Access
	number int // the database
	client *redis.Client
	conn   *redis.Conn
	wire   *wire
	study  bool
	forget func() bool // of the sandbox's end, which would cut it

	mu      sync.Mutex // held while commands are under way
	spoilt  bool       // not to be used by another run
	unread  bool       // the server may still be at work on what was sent
	closed  bool
	drained chan struct{} // closed once the server is done with it; nil before

	speak func([]redis.Cmder) error // in go-redis's place; nil for none

	tally *tally // for a connection whose commands are counted
}

// options are those of every client of the sandbox: no retries (a script that
// was cut off would run again), RESP2, and nothing on the wire that nobody asked
// for. Deadlines are the wire's.
func options(network, addr string, as Login) *redis.Options {
	return &redis.Options{
		Network: network, Addr: addr,
		Username: as.User, Password: as.Password,
		Protocol:                 2,
		MaxRetries:               -1,
		ContextTimeoutEnabled:    true,
		DialTimeout:              time.Second,
		DialerRetries:            1,
		ReadTimeout:              5 * time.Second,
		WriteTimeout:             5 * time.Second,
		PoolSize:                 1,
		PipelinePoolSize:         -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Dial connects to the server, enters the database and becomes the runner. With
// counting, a tally is kept of what comes down the connection.
func (a *Access) Dial(ctx, life context.Context, number int, study, counting bool) (*Link, error) {
	raw, err := a.connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, Ended(ctx)
		}
		return nil, fmt.Errorf("%w: %w", ErrDown, err)
	}
	l := &Link{to: a, number: number, study: study, wire: &wire{Conn: raw}}
	l.forget = context.AfterFunc(life, l.wire.cut)
	if a.Speak != nil {
		l.speak = a.Speak(l.wire)
	}
	opt := options(a.Network, a.Addr, a.Lender)
	opt.ReadTimeout, opt.WriteTimeout = -2, -2 // the wire has deadlines of its own
	opt.ReadBufferSize, opt.WriteBufferSize = 8<<10, 8<<10
	if study {
		opt.ReadBufferSize, opt.WriteBufferSize = 64<<10, 64<<10
	}
	opt.Dialer = func(context.Context, string, string) (net.Conn, error) {
		if raw == nil {
			return nil, io.ErrClosedPipe // a link is one connection
		}
		raw = nil
		return l.wire, nil
	}
	l.client = redis.NewClient(opt)
	l.conn = l.client.Conn()
	if err := l.greet(ctx, counting && a.Counts); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// connect opens a socket. A server that was just started, or is under load, may
// have no room in its queue for a moment.
func (a *Access) connect(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	deadline := time.Now().Add(time.Second)
	for {
		conn, err := d.DialContext(ctx, a.Network, a.Addr)
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(deadline) {
			return conn, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// greet selects the database as the one user that may, and then becomes the user
// that may not. (Should that fail, Valkey may leave the reply out, and the greeting
// is late.)
func (l *Link) greet(ctx context.Context, counting bool) error {
	sent := []redis.Cmder{
		redis.NewCmd(ctx, "SELECT", l.number),
		redis.NewCmd(ctx, "AUTH", l.to.Runner.User, l.to.Runner.Password),
	}
	if counting {
		sent = append(sent, redis.NewCmd(ctx, clientInfo.words...))
	}
	if err := l.roundTrip(ctx, sent, int64(l.to.ReplyBytes), l.to.Answer); err != nil {
		return err
	}
	for _, cmd := range sent {
		if err := cmd.Err(); err != nil {
			return l.unfit(err)
		}
	}
	if counting {
		n, err := CountOf(sent[2].(*redis.Cmd).Val())
		l.tally = &tally{other: n + 1} // and this question
		return err
	}
	return nil
}

// Do sends commands in one round trip, or one for every thousand.
func (l *Link) Do(ctx context.Context, commands []Command, flushing bool) ([]Value, error) {
	if err := ctx.Err(); err != nil {
		return nil, Ended(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("%w: the connection is closed", ErrDown)
	}
	patience := l.to.Answer
	for i := range commands {
		if commands[i].stateful {
			l.spoilt = true
		}
		if commands[i].blocking {
			patience = longestHold
		}
	}
	if l.tally != nil {
		return l.tally.exec(ctx, l, commands, patience)
	}
	if len(commands) <= batch {
		return l.exec(ctx, commands, flushing, patience)
	}
	values := make([]Value, 0, len(commands))
	for len(commands) > 0 {
		n := min(batch, len(commands))
		some, err := l.exec(ctx, commands[:n], flushing, patience)
		if err != nil {
			return nil, err
		}
		values = append(values, some...)
		commands, flushing = commands[n:], false
	}
	return values, nil
}

// exec sends one pipeline: a flush if the database is not clean yet, and the
// commands.
func (l *Link) exec(ctx context.Context, commands []Command, flushing bool, patience time.Duration) ([]Value, error) {
	background := context.Background()
	sent := make([]redis.Cmder, 0, len(commands)+1)
	if flushing {
		sent = append(sent, redis.NewCmd(background, l.to.Flush...))
	}
	for i := range commands {
		words, ok := commands[i].send(l.to.Scripts, l.to.Flush)
		if !ok {
			return nil, fmt.Errorf("no such script: %v", commands[i].words)
		}
		sent = append(sent, redis.NewCmd(background, words...))
	}
	most := int64(l.to.ReplyBytes)
	if l.study {
		most = studyBytes
	}
	if err := l.roundTrip(ctx, sent, most, patience); err != nil {
		return nil, err
	}
	if flushing {
		if err := sent[0].Err(); err != nil {
			l.spoilt = true
			return nil, l.unfit(err)
		}
		sent = sent[1:]
	}
	return l.values(sent)
}

// roundTrip writes the pipeline and reads its replies. After an error the
// connection is spoilt, and the server may still be at work.
func (l *Link) roundTrip(ctx context.Context, sent []redis.Cmder, most int64, patience time.Duration) error {
	l.wire.begin(time.Now().Add(patience), most)
	l.unread = true
	stop := context.AfterFunc(ctx, l.wire.cut)
	err := l.exchange(ctx, sent)
	cutOff := !stop()
	if cutOff {
		l.spoilt = true
	}
	var reply redis.Error
	if err == nil || errors.As(err, &reply) {
		l.unread = false
		if err == nil || slices.ContainsFunc(sent, func(c redis.Cmder) bool { return c.Err() != nil }) {
			return nil
		}
		l.spoilt = true
		return l.unfit(err) // go-redis could not log in, and sent nothing
	}
	l.spoilt = true
	switch {
	case errors.Is(err, errTooLong):
		return fmt.Errorf("%w: the reply is longer than %d bytes", ErrTooMuch, most)
	case cutOff && ctx.Err() != nil:
		return Ended(ctx)
	case l.wire.wasCut():
		return fmt.Errorf("%w: the connection was cut", ErrDown)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: nothing within %v", ErrLate, patience)
	}
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// exchange writes the pipeline and reads its replies into it.
func (l *Link) exchange(ctx context.Context, sent []redis.Cmder) error {
	if l.speak != nil {
		return l.speak(sent)
	}
	pipe := l.conn.Pipeline()
	_ = pipe.BatchProcess(ctx, sent...)
	// go-redis knows deadlines, but not that a context is called off; the wire
	// knows both.
	_, err := pipe.Exec(context.Background())
	return err
}

// values gives the replies to commands, or says why they are none of a run's.
func (l *Link) values(replies []redis.Cmder) ([]Value, error) {
	values := make([]Value, len(replies))
	for i, reply := range replies {
		v, err := reply.(*redis.Cmd).Result()
		switch {
		case err == nil:
			v, err = l.plain(v)
		case errors.Is(err, redis.Nil):
			v, err = nil, nil
		default:
			v, err = l.refusal(err)
		}
		if err != nil {
			l.spoilt = true
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// plain gives a reply as a Value: the error replies within an array need it.
func (l *Link) plain(v any) (Value, error) {
	items, ok := v.([]any)
	if !ok {
		return v, nil
	}
	for i, item := range items {
		var err error
		switch item := item.(type) {
		case []any:
			_, err = l.plain(item)
		case error:
			items[i], err = l.refusal(item)
		}
		if err != nil {
			return nil, err
		}
	}
	return items, nil
}

// refusal gives an error reply as a Value, unless it speaks of the server's own
// condition and not of the command.
func (l *Link) refusal(reply error) (Value, error) {
	text := reply.Error()
	code, _, _ := strings.Cut(text, " ")
	if code == "READONLY" && l.to.Node {
		return Error(text), nil
	}
	switch code {
	case "NOSCRIPT":
		return nil, ErrNoScript
	case "BUSY":
		return nil, ErrHeld
	case "OOM":
		return nil, ErrFull
	case "LOADING", "READONLY", "MASTERDOWN", "MISCONF", "NOAUTH", "WRONGPASS", "CLUSTERDOWN", "MOVED", "ASK", "TRYAGAIN", "NOREPLICAS":
		// Such a reply within an array would also have put go-redis out of step
		// with the server.
		return nil, fmt.Errorf("%w: %s", ErrDown, text)
	}
	if strings.Contains(text, "Script killed by user") {
		return nil, fmt.Errorf("%w: a script ran too long and was stopped", ErrLate)
	}
	return Error(text), nil
}

// unfit is why the commands ahead of a run's own failed.
func (l *Link) unfit(reply error) error {
	_, err := l.refusal(reply)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDown, reply)
}

// Close closes a connection that is idle, or whose server is gone.
func (l *Link) Close() {
	l.closed = true
	l.shut()
}

// Alive tells whether the connection, which is idle, still stands.
func (l *Link) Alive() bool { return l.wire.alive() }

// Fit tells whether the connection is as good as new.
func (l *Link) Fit() bool { return !l.spoilt }

// Cut ends what is under way, from whichever goroutine.
func (l *Link) Cut() { l.wire.cut() }

func (l *Link) shut() {
	l.forget()
	_ = l.conn.Close()
	_ = l.client.Close()
	_ = l.wire.Conn.Close()
}

// Retire closes the connection, cutting short what is under way. If the server
// may still be at work on what was sent, it gives a channel that closes when
// the server is done.
func (l *Link) Retire(life context.Context) <-chan struct{} {
	l.wire.cut()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drained == nil && !l.unread {
		l.Close()
		return nil
	}
	return l.drain(life)
}

// hangUp is Retire for a connection that also holds something when it is idle:
// the channel it gives closes when the server has noticed.
func (l *Link) hangUp(life context.Context) <-chan struct{} {
	l.wire.cut()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && l.drained == nil {
		return nil
	}
	return l.drain(life)
}

// closing is how long a crash waits for the server to have noticed it.
const closing = 250 * time.Millisecond

// Crash cuts the connection, and waits a little until the server has noticed.
func (l *Link) Crash(life context.Context) {
	if done := l.hangUp(life); done != nil {
		timer := time.NewTimer(closing)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
}

// drain says goodbye and reads on until the server has hung up. By then it has
// carried out, or dropped, all that it was sent: closing the socket at once
// would leave that open. The connection of a server that died ends by itself;
// one that does neither is killed, if it is ours.
func (l *Link) drain(life context.Context) <-chan struct{} {
	if l.drained != nil {
		return l.drained
	}
	l.closed = true
	l.drained = make(chan struct{})
	go func() {
		defer close(l.drained)
		defer l.shut()
		defer context.AfterFunc(life, func() { _ = l.wire.Conn.Close() })()
		if l.to.Kill != nil {
			defer time.AfterFunc(longestDrain, l.to.Kill).Stop()
		}
		l.wire.drain()
	}()
	return l.drained
}
