package sandbox

import (
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Login is a user of a server. Passwords are new at every start.
type Login struct{ User, Password string }

// An Access is how runs reach one server, through all of one life of it, and
// within which bounds.
type Access struct {
	Network, Addr string
	Lender        Login         // may do nothing but select a database
	Runner        Login         // may send what a figure may
	Scripts       *Catalogue    // what the server has loaded
	Flush         []any         // the fastest way to empty a database
	Answer        time.Duration // for the answer to one round trip, blocking commands aside
	ReplyBytes    int           // most bytes of one answer
	Counts        bool          // the server counts commands by connection
	Node          bool          // one of several: that a replica takes no writes is an answer
	Kill          func()        // ends the server's process; nil if there is none

	// Speak sends commands down one connection, and reads the replies into them,
	// in go-redis's place: that one allocates whatever a server announces, and
	// believes that replies come in step. nil where the server can be trusted.
	Speak func(wire net.Conn) func(sent []redis.Cmder) error
}

// Client gives a client of the server that is no run's, for the one that keeps it.
func (a *Access) Client(as Login) *redis.Client {
	return redis.NewClient(options(a.Network, a.Addr, as))
}
