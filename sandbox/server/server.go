// Package server is one Valkey server and the lending of its databases.
//
// The server is one that is started and kept running here (process.go, keeper.go),
// one that somebody else runs and has marked as a sandbox (external.go), or, where
// there is neither, a simulated one (embedded.go). A run takes a database with
// Use, an exploration several with Lend, and each gives them back (lend.go);
// nothing of one run is ever seen by another.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"lockstep/sandbox"
)

// Options say which server to use and how much of it to give away. The zero
// value starts valkey-server, or else redis-server, from the PATH.
type Options struct {
	Server          string            // path of a server to start, or "embedded" for the simulated one
	URL             string            // use this server instead: redis:// or unix://
	EmbeddedCommand []string          // argv of a process that calls RunEmbedded; without it there is no simulated server
	Scripts         map[string]string // source by name ("release.lua")
	Wait            time.Duration     // how long to wait for a database or for the server to come back; 100 ms
	Answer          time.Duration     // how long one Do waits for its answer, blocking commands aside; 1 s
	Commands        int               // most commands of one Do of a single run; 1,000
	Log             *slog.Logger      // where restarts and their reasons go; discarded if nil

	slots        int // databases lent to single runs at once; 64
	explorations int // explorations at once; 2
	replyBytes   int // most bytes one Do of a single run may be answered; 1 MiB
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.slots <= 0 {
		o.slots = 64
	}
	if o.explorations <= 0 {
		o.explorations = 2
	}
	if o.Wait <= 0 {
		o.Wait = 100 * time.Millisecond
	}
	if o.Answer <= 0 {
		o.Answer = time.Second
	}
	if o.replyBytes <= 0 {
		o.replyBytes = 1 << 20
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

// A Server lends the databases of one server.
type Server struct {
	opt     Options
	scripts sandbox.Catalogue
	keeper  *keeper
	runs    chan *slot    // databases at rest, for single runs
	studies chan []*slot  // and for explorations, which must not starve them
	lost    chan struct{} // one for each of them that is never lent again
	dir     string        // of its process, and the command line that starts it, where it is our own
	argv    []string

	life    context.Context // ends with Close
	end     context.CancelFunc
	cleanUp func() // once the server has ended
	closing sync.Once
}

// A slot is one database of the server, lent to one run at a time.
type slot struct {
	number int
	link   *sandbox.Link // a warm connection, nil until the first run needs it
	from   *Process      // whose link it is
	study  bool          // lent to explorations
}

// Open starts or reaches the server and loads the scripts. A Lua syntax error
// or a missing server is an error here, not a surprise at the first run.
func Open(ctx context.Context, opt Options) (*Server, error) {
	// go-redis would write a line to standard error for every connection that a
	// restart cuts; the keeper logs the restart itself.
	redis.SetLogger(&logging.VoidLogger{})
	s := &Server{opt: opt.withDefaults(), scripts: sandbox.NewCatalogue(opt.Scripts), cleanUp: func() {}}
	s.life, s.end = context.WithCancel(context.Background())
	start, err := s.starter()
	if err != nil {
		s.end()
		return nil, err
	}
	s.keeper = newKeeper(start, s.opt.Log)
	if err := s.keeper.open(ctx); err != nil {
		s.end()
		s.keeper.close()
		s.cleanUp()
		return nil, err
	}
	s.share(s.keeper.facts().databases)
	return s, nil
}

// share divides the database numbers between single runs and explorations. Few
// databases (a stock server has 16) leave one exploration at a time.
func (s *Server) share(numbers []int) {
	studies := min(s.opt.explorations, max(1, len(numbers)/(2*lanes)))
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
	numbers = numbers[:min(len(numbers), s.opt.slots)]
	s.runs = make(chan *slot, len(numbers))
	for _, n := range numbers {
		s.runs <- &slot{number: n}
	}
	s.lost = make(chan struct{}, cap(s.runs)+cap(s.studies))
}

// Close ends the runs that are under way, cuts every connection and stops the
// server, if it is our own. Closing twice does nothing more.
func (s *Server) Close() error {
	s.closing.Do(s.close)
	return nil
}

func (s *Server) close() {
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
	s.keeper.close()
	s.cleanUp()
}

func (s *slot) drop() {
	if s.link != nil {
		s.link.Close()
		s.link = nil
	}
}

// Places tells how many single runs and how many explorations have databases at
// once.
func (s *Server) Places() (runs, explorations int) { return cap(s.runs), cap(s.studies) }

// Engine names the server that answers.
func (s *Server) Engine() sandbox.Engine { return s.keeper.facts().engine }

// Health is nil while the server answers, and otherwise ErrDown with the reason
// for the log.
func (s *Server) Health() error {
	if _, err := s.keeper.current(); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrDown, err)
	}
	return nil
}

// Has tells whether the server knows a command ("DELIFEQ") or an option of one
// ("SET IFEQ").
func (s *Server) Has(command string) bool { return s.keeper.facts().has(command) }

// Counts tells whether the server counts commands by connection, as Valkey does
// from 8.0 on.
func (s *Server) Counts() bool { return s.keeper.facts().counts }

// Faithful tells whether this server answers a command as Valkey does. Only the
// simulated one may not.
func (s *Server) Faithful(args []string) bool {
	if !s.Engine().Simulated() {
		return true
	}
	return faithful(s.keeper.facts(), args, s.opt.Scripts)
}
