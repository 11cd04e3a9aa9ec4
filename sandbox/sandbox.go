// Package sandbox lends empty databases of a real Valkey server to those who
// want to run a few commands and see what the server says.
//
// It is the one place that knows about server processes and about go-redis. A
// run takes a database with Use, sends its commands with DB.Do, and gives the
// database back; nothing of one run is ever seen by another. What a server
// answers is a Value, error replies included. A Go error means that there was
// no answer: ErrBusy, ErrDown or ErrLate. A run that is about servers which fail
// takes several of its own with Replicated or Independent (cluster.go).
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
	Clusters        int               // sets of several servers at once, of each kind; 2
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
	if o.Clusters <= 0 {
		o.Clusters = 2
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
	opt      Options
	scripts  catalogue
	keeper   *keeper
	runs     chan *slot    // databases at rest, for single runs
	studies  chan []*slot  // and for explorations, which must not starve them
	lost     chan struct{} // one for each of them that is never lent again
	clusters *clusters     // nil where there is one server only

	life    context.Context // ends with Close
	end     context.CancelFunc
	cleanUp func() // once the server has ended
	closing sync.Once
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
	if err := s.keeper.open(ctx); err != nil {
		s.end()
		s.clusters.close(ctx)
		s.keeper.close()
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
	s.studies = make(chan []*slot, studies)
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
	s.lost = make(chan struct{}, cap(s.runs)+cap(s.studies))
}

// Close ends the runs that are under way, cuts every connection and stops the
// server, if it is the sandbox's own. Closing twice does nothing more.
func (s *Sandbox) Close() error {
	s.closing.Do(s.close)
	return nil
}

func (s *Sandbox) close() {
	s.end()
	// Every database comes back by itself, now that its connections are cut; a
	// run that does not return is left behind.
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for range cap(s.runs) + cap(s.studies) {
		select {
		case slot := <-s.runs:
			slot.drop()
		case study := <-s.studies:
			for _, slot := range study {
				slot.drop()
			}
		case <-s.lost:
		case <-patience.Done():
		}
	}
	s.clusters.close(patience)
	s.keeper.close()
	s.cleanUp()
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
	return faithful(s.keeper.facts(), args, s.opt.Scripts)
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
