// Package sandbox lends empty databases of a real Valkey server to those who
// want to run a few commands and see what the server says.
//
// It is the one place that knows about server processes and about go-redis. A
// run takes a database with Use, sends its commands with DB.Do, and gives the
// database back; nothing of one run is ever seen by another. What a server
// answers is a Value, error replies included. A Go error means that there was
// no answer: ErrBusy, ErrDown or ErrLate.
//
// The server is one that the sandbox starts and keeps running itself
// (server.go), one that somebody else runs and has marked as a sandbox
// (external.go), or, where there is neither, a simulated one (embedded.go).
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Failures of the sandbox, as opposed to error replies, which are values. They
// come wrapped; the text around them is for the log.
var (
	// ErrBusy says that no database came free in time, or that another run
	// held the server up.
	ErrBusy = errors.New("the sandbox is busy")
	// ErrDown says that the server could not be reached, or went away.
	ErrDown = errors.New("the sandbox is restarting")
	// ErrLate says that the server did not answer in time.
	ErrLate = errors.New("the sandbox did not answer in time")
	// ErrTooMuch says that a run asked for more than a run may.
	ErrTooMuch = errors.New("more than a run may ask of the sandbox")
	// ErrUncounted says that the server does not count commands by connection.
	ErrUncounted = errors.New("the server does not count commands by connection")
)

// A Value is what a server answered: nil, int64, string, []any (of Values) or
// Error.
type Value = any

// An Error is an error reply, a value to show like any other.
type Error string

// Code gives the reply's first word: WRONGTYPE, ERR, EMQSTALE.
func (e Error) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// A Mode is how the sandbox comes by its server.
type Mode int

// The modes: the sandbox's own process, a server that somebody else runs, and
// a simulation.
const (
	Managed Mode = iota
	External
	Embedded
)

// String gives the mode's name in results and on pages.
func (m Mode) String() string {
	switch m {
	case External:
		return "external"
	case Embedded:
		return "embedded"
	case Managed:
	}
	return "managed"
}

// MarshalText writes the mode's name.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the mode's name.
func (m *Mode) UnmarshalText(text []byte) error {
	for _, known := range []Mode{Managed, External, Embedded} {
		if string(text) == known.String() {
			*m = known
			return nil
		}
	}
	return fmt.Errorf("unknown mode %q", text)
}

// An Engine is the server that answers, named on every verdict.
type Engine struct {
	Name    string `json:"name"` // valkey, redis or miniredis
	Version string `json:"version"`
	Mode    Mode   `json:"mode"`
}

// Simulated tells whether the answers come from something that only behaves
// like Valkey.
func (e Engine) Simulated() bool { return e.Mode == Embedded }

// Options say which server to use and how much of it to give away. The zero
// value starts valkey-server, or else redis-server, from the PATH.
type Options struct {
	Server          string            // path of a server to start, or "embedded" for the simulated one
	URL             string            // use this server instead: redis:// or unix://
	EmbeddedCommand []string          // argv of a process that calls RunEmbedded; without it there is no simulated server
	Scripts         map[string]string // source by name ("release.lua")
	Slots           int               // databases lent to single runs at once; 64
	Explorations    int               // explorations at once; 2
	Wait            time.Duration     // how long to wait for a database or for the server to come back; 100 ms
	Answer          time.Duration     // how long one Do waits for its answer, blocking commands aside; 1 s
	ReplyBytes      int               // most bytes one Do of a single run may be answered; 1 MiB
	Commands        int               // most commands of one Do of a single run; 1,000
	Log             *slog.Logger      // where restarts and their reasons go; discarded if nil
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Slots <= 0 {
		o.Slots = 64
	}
	if o.Explorations <= 0 {
		o.Explorations = 2
	}
	if o.Wait <= 0 {
		o.Wait = 100 * time.Millisecond
	}
	if o.Answer <= 0 {
		o.Answer = time.Second
	}
	if o.ReplyBytes <= 0 {
		o.ReplyBytes = 1 << 20
	}
	if o.Commands <= 0 {
		o.Commands = 1000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// lanes is how many databases one exploration may have at once.
const lanes = 4

// A Sandbox lends the databases of one server.
type Sandbox struct {
	opt     Options
	scripts catalogue
	keeper  *keeper
	runs    chan *slot   // databases at rest, for single runs
	studies chan []*slot // and for explorations, which must not starve them

	life    context.Context // ends with Close
	end     context.CancelFunc
	pending sync.WaitGroup // databases whose last commands may still be running
	cleanUp func()         // once the server has ended
}

// A slot is one database of the server, lent to one run at a time.
type slot struct {
	number int
	link   *link // a warm connection, nil until the first run needs it
	study  bool  // lent to explorations
}

// Open starts or reaches the server and loads the scripts. A Lua syntax error
// or a missing server is an error here, not a surprise at the first run.
func Open(ctx context.Context, opt Options) (*Sandbox, error) {
	// go-redis would write a line to standard error for every connection that a
	// restart cuts; the keeper logs the restart itself.
	redis.SetLogger(&logging.VoidLogger{})
	s := &Sandbox{opt: opt.withDefaults(), scripts: newCatalogue(opt.Scripts), cleanUp: func() {}}
	s.life, s.end = context.WithCancel(context.Background())
	start, err := s.starter()
	if err != nil {
		s.end()
		return nil, err
	}
	s.keeper = newKeeper(start, s.opt.Log)
	if err := s.keeper.open(ctx, s.life); err != nil {
		s.end()
		s.keeper.wait()
		s.cleanUp()
		return nil, err
	}
	s.share(s.keeper.facts().databases)
	return s, nil
}

// share divides the database numbers between single runs and explorations. Few
// databases (a stock server has 16) leave one exploration at a time.
func (s *Sandbox) share(numbers []int) {
	studies := min(s.opt.Explorations, max(1, len(numbers)/(2*lanes)))
	if len(numbers) <= lanes {
		studies = 0
	}
	s.studies = make(chan []*slot, max(studies, 1))
	for range studies {
		study := make([]*slot, lanes)
		for i := range study {
			study[i] = &slot{number: numbers[0], study: true}
			numbers = numbers[1:]
		}
		s.studies <- study
	}
	numbers = numbers[:min(len(numbers), s.opt.Slots)]
	s.runs = make(chan *slot, len(numbers))
	for _, n := range numbers {
		s.runs <- &slot{number: n}
	}
}

// Close ends the runs that are under way, cuts every connection and stops the
// server, if it is the sandbox's own.
func (s *Sandbox) Close() error {
	s.end()
	s.keeper.wait()
	s.pending.Wait()
	s.drop()
	s.cleanUp()
	return nil
}

// drop closes the warm connections of the databases at rest.
func (s *Sandbox) drop() {
	for {
		select {
		case slot := <-s.runs:
			slot.drop()
		case study := <-s.studies:
			for _, slot := range study {
				slot.drop()
			}
		default:
			return
		}
	}
}

func (s *slot) drop() {
	if s.link != nil {
		s.link.close()
		s.link = nil
	}
}

// Engine names the server that answers.
func (s *Sandbox) Engine() Engine { return s.keeper.facts().engine }

// Health is nil while the server answers, and otherwise ErrDown with the reason
// for the log.
func (s *Sandbox) Health() error {
	if _, err := s.keeper.current(); err != nil {
		return fmt.Errorf("%w: %w", ErrDown, err)
	}
	return nil
}

// Has tells whether the server knows a command ("DELIFEQ") or an option of one
// ("SET IFEQ").
func (s *Sandbox) Has(command string) bool { return s.keeper.facts().has(command) }

// Faithful tells whether this server answers a command as Valkey does. Only the
// simulated one may not.
func (s *Sandbox) Faithful(args []string) bool {
	if !s.Engine().Simulated() {
		return true
	}
	return faithful(args, s.opt.Scripts)
}

// Use lends f an empty database, and takes it back when f returns or panics. It
// waits for one no longer than Options.Wait. Where the server turns out to have
// lost its scripts, or to be held up by another run's endless one, that is put
// right and f runs once more, in an empty database again.
func (s *Sandbox) Use(ctx context.Context, f func(*DB) error) error {
	patience := time.Now().Add(s.opt.Wait)
	slot, err := take(ctx, s, s.runs)
	if err != nil {
		return err
	}
	slots := []*slotLoan{{slot: slot}}
	defer s.giveBack(slots, func() { s.runs <- slot })
	return s.lend(ctx, slots, patience, func(dbs []*DB) error { return f(dbs[0]) })
}

// Lend lends f n databases at once, for an exploration that sends thousands of
// commands. Explorations have databases of their own and never starve single
// runs. Otherwise it is like Use.
func (s *Sandbox) Lend(ctx context.Context, n int, f func([]*DB) error) error {
	if n < 1 || n > lanes {
		return fmt.Errorf("%w: %d databases at once, of %d at most", ErrTooMuch, n, lanes)
	}
	patience := time.Now().Add(s.opt.Wait)
	study, err := take(ctx, s, s.studies)
	if err != nil {
		return err
	}
	slots := make([]*slotLoan, n)
	for i := range slots {
		slots[i] = &slotLoan{slot: study[i]}
	}
	defer s.giveBack(slots, func() { s.studies <- study })
	return s.lend(ctx, slots, patience, f)
}

// take waits for something at rest, a little while. The channel is the limiter.
func take[T any](ctx context.Context, s *Sandbox, from <-chan T) (T, error) {
	var none T
	select {
	case taken := <-from:
		if s.life.Err() != nil {
			return none, fmt.Errorf("%w: closed", ErrDown)
		}
		return taken, nil
	default:
	}
	timer := time.NewTimer(s.opt.Wait)
	defer timer.Stop()
	select {
	case taken := <-from:
		return taken, nil
	case <-timer.C:
		return none, fmt.Errorf("%w: no database came free in %v", ErrBusy, s.opt.Wait)
	case <-ctx.Done():
		return none, ended(ctx)
	case <-s.life.Done():
		return none, fmt.Errorf("%w: closed", ErrDown)
	}
}

// A slotLoan is a slot while it is lent, with what must end before the next
// run may have it.
type slotLoan struct {
	slot  *slot
	from  *instance // that claimed it, on a server of somebody else's
	after []<-chan struct{}
}

// lend runs f in the databases of slots, at most twice.
func (s *Sandbox) lend(ctx context.Context, loans []*slotLoan, patience time.Time, f func([]*DB) error) error {
	for again := false; ; again = true {
		cause, err := s.lendOnce(ctx, loans, patience, f)
		if cause == nil {
			return err
		}
		if again {
			return cause
		}
		if healed := s.heal(ctx, loans, cause); healed != nil {
			return healed
		}
		patience = time.Now().Add(s.opt.Wait)
	}
}

// lendOnce runs f in the databases of slots. cause says that what f saw must not
// count, since the server lacked its scripts or was held up by another run.
func (s *Sandbox) lendOnce(ctx context.Context, loans []*slotLoan, patience time.Time, f func([]*DB) error) (cause, err error) {
	dbs := make([]*DB, len(loans))
	for i, loan := range loans {
		if err := s.connect(ctx, loan, patience); err != nil {
			return nil, err
		}
		dbs[i] = newDB(s, loan)
		defer dbs[i].end()
	}
	err = f(dbs)
	for _, db := range dbs {
		if cause := db.spoilt(); cause != nil {
			return cause, err
		}
	}
	return nil, err
}

// connect sees to it that a slot has a live connection to the server that runs
// now. If there is none, it waits for the server to come back, until patience
// runs out.
func (s *Sandbox) connect(ctx context.Context, loan *slotLoan, patience time.Time) error {
	slot := loan.slot
	for {
		inst, err := s.keeper.await(ctx, patience)
		if err != nil {
			return err
		}
		if slot.link != nil && (slot.link.inst != inst || !slot.link.wire.alive()) {
			slot.drop()
		}
		if slot.link == nil {
			slot.link, err = inst.dial(ctx, slot.number, slot.study)
		}
		if err == nil && inst.claim != nil && loan.from != inst {
			err = inst.claim(ctx, slot.number)
			if err == nil {
				loan.from = inst
			}
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !s.keeper.replaced(ctx, inst, patience) {
			return err
		}
	}
}

// heal puts right what made a run see a server that was not fit to be seen.
func (s *Sandbox) heal(ctx context.Context, loans []*slotLoan, cause error) error {
	if errors.Is(cause, errNoScript) {
		inst, err := s.keeper.current()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDown, err)
		}
		if err := inst.load(ctx, s.scripts); err != nil {
			return fmt.Errorf("%w: load the scripts again: %w", ErrDown, err)
		}
		s.opt.Log.Warn("the server had lost its scripts; loaded them again")
	} else if !s.keeper.calm(ctx, s.opt.Answer) {
		return cause
	}
	for _, loan := range loans {
		for _, done := range loan.after {
			select {
			case <-done:
			case <-ctx.Done():
				return ended(ctx)
			}
		}
		loan.after = nil
	}
	return nil
}

// giveBack returns databases to those at rest, at once if the server is done
// with all that was sent to it, and otherwise as soon as it is: a command of
// the old run must never reach the next one's database.
func (s *Sandbox) giveBack(loans []*slotLoan, back func()) {
	settled := true
	for _, loan := range loans {
		settled = settled && len(loan.after) == 0 && loan.from == nil
	}
	if settled {
		back()
		return
	}
	s.pending.Go(func() {
		for _, loan := range loans {
			for _, done := range loan.after {
				<-done
			}
			if loan.from != nil && !loan.from.release(s.life, loan.slot.number) {
				return // it holds somebody else's keys now: never again
			}
		}
		back()
	})
}

// ended gives the error of a context that is over: being late is the sandbox's
// failure, being called off is nobody's.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrLate, ctx.Err())
	}
	return fmt.Errorf("called off: %w", ctx.Err())
}

// numbers gives from, from+1, … up to but not to.
func numbers(from, to int) []int {
	all := make([]int, 0, to-from)
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return slices.Clip(all)
}
