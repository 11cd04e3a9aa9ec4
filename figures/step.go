package figures

import (
	"iter"
	"time"

	"lockstep/figures/expr"
)

// A Step is one thing that happens in a path.
type Step struct {
	Does    Kind
	As      string        // what the reply is called
	Promise *expr.Promise // what the author promises that the reply is
	Note    string        // shown in the trace
	Timed   bool          // it waits for At
	At      time.Duration // counted from the start of the steps
	Line    int
}

// A Kind is what a step does: Send, Race, Work, Wait, Lapse, Crash, Stop, Resume
// or Strike. Each has a line in the reader and one where it is run.
type Kind interface {
	actor() string // who does it, or whom it befalls; "" for nobody
	event() string // what a trace calls it; "" for commands
}

// Actor is who takes the step, or whom it befalls; "" for nobody.
func (s Step) Actor() string { return s.Does.actor() }

// Event is what a trace calls the step: "crash A", "wait 20ms". It is empty for
// commands, which stand there themselves.
func (s Step) Event() string { return s.Does.event() }

// All are the steps of a list one by one, those of a race before the race.
func All(steps []Step) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for _, s := range steps {
			if race, ok := s.Does.(Race); ok {
				for _, racer := range race.Steps {
					if !yield(racer) {
						return
					}
				}
			}
			if !yield(s) {
				return
			}
		}
	}
}

// An Instruction is a step of a program, or of the clients of a load: a Send or a
// Work, and what follows from it.
type Instruction struct {
	Step
	Stop  bool // "else: stop"
	Enter bool // the mark "enter" follows this transition
	Leave bool // the mark "leave" follows it
}
