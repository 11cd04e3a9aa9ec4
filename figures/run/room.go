package run

import "lockstep/figures"

// A Room is how much a runner can have under way at once; more than that waits a
// moment for a place, and is then ErrBusy.
type Room struct {
	Runs         int // of single paths, each in a database
	Explorations int
	Sets         int // of several servers, of each kind
	SQL          int // of paths that speak to the SQL store
}

// Room tells how much can be under way.
func (r *Runner) Room() Room {
	var room Room
	room.Runs, room.Explorations = r.Sandbox.Places()
	room.Sets = r.Fleet.Sets()
	if r.SQL != nil {
		room.SQL = r.SQL.Places()
	}
	return room
}

// UsesSQL tells whether a path speaks to the SQL store.
func (r *Runner) UsesSQL(path *figures.Path) bool { return r.plan(path).sql }
