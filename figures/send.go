package figures

import (
	"strconv"
	"strings"
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

// LeaseIn finds the lease that a command line gives to a key; 0 where it gives
// none, or one that only a run can tell.
func LeaseIn(line string) (key string, lasts time.Duration) {
	words := strings.Fields(line)
	if len(words) < 3 {
		return "", 0
	}
	number := func(i int, unit time.Duration) time.Duration {
		if i >= len(words) {
			return 0
		}
		n, _ := strconv.ParseInt(words[i], 10, 64)
		return time.Duration(n) * unit
	}
	switch strings.ToUpper(words[0]) {
	case "SET":
		for i, w := range words {
			switch strings.ToUpper(w) {
			case "PX":
				return words[1], number(i+1, time.Millisecond)
			case "EX":
				return words[1], number(i+1, time.Second)
			}
		}
	case "PEXPIRE":
		return words[1], number(2, time.Millisecond)
	case "EXPIRE":
		return words[1], number(2, time.Second)
	case "EVAL":
		if len(words) > 5 {
			return words[3], number(len(words)-1, time.Millisecond)
		}
	}
	return "", 0
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
