package figures

import (
	"time"

	"lockstep/figures/expr"
)

// Send is an actor's command, once or again and again: NAME: COMMAND.
type Send struct {
	Actor   string
	Target  string // the server of the topology, "all", or "sql"; empty for the one there is
	Command expr.Command
	Every   time.Duration // it is repeated; 0: it is not
	Until   time.Duration // until then; 0: to the end of the path
	Stop    bool          // the first reply that is nil, 0 or an error ends that
	Retry   *Retry
}

// A Retry repeats a command until its reply is neither nil, 0 nor an error.
type Retry struct {
	Every  time.Duration
	Jitter time.Duration // up to so much more, at random
	For    time.Duration // then it gives up
}

func (s Send) actor() string { return s.Actor }
func (Send) event() string   { return "" }

// Race is commands that are sent at the same moment, each down a connection of
// its own: race: [steps]. Its reply is the array of theirs, in written order.
type Race struct{ Steps []Step }

func (Race) actor() string { return "" }
func (Race) event() string { return "" }
