// Package sandbox is what a run borrows, whoever lends it: a database or a
// connection to a server, the commands it may send there, and the replies.
//
// What a server answers is a Value, error replies included. A Go error means that
// there was no answer: ErrBusy, ErrDown or ErrLate. Nothing that a run borrows
// holds anything of another run.
//
// Those who lend are below: server has one server, fleet several, sql another
// kind of store. Only they and this package know go-redis.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// A Mode is how the sandbox comes by its server, as results and pages name it.
type Mode string

// The modes: the sandbox's own process, a server that somebody else runs, and
// a simulation.
const (
	Managed  Mode = "managed"
	External Mode = "external"
	Embedded Mode = "embedded"
)

// An Engine is the server that answers, named on every verdict.
type Engine struct {
	Name    string `json:"name"` // valkey, redis or miniredis
	Version string `json:"version"`
	Mode    Mode   `json:"mode"`
}

// Simulated tells whether the answers come from something that only behaves
// like Valkey.
func (e Engine) Simulated() bool { return e.Mode == Embedded }

// Ended gives the error of a context that is over: being late is the sandbox's
// failure, being called off is nobody's.
func Ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrLate, ctx.Err())
	}
	return fmt.Errorf("called off: %w", ctx.Err())
}
