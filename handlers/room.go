package handlers

import (
	"runtime"
	"time"

	"lockstep/figures"
	"lockstep/figures/run"
	"lockstep/handlers/admission"
)

// The lanes in which runs wait.
const (
	laneSingle = iota
	laneSQL
	laneExploration
	laneTimed
	laneLoad
	laneReplicated
	laneIndependent
)

const (
	// placesPerCore is how many single runs may be under way for each core. Six
	// keep one busy, but some of them wait for a lease to end.
	placesPerCore = 32
	// patience is how long a run waits for others before it is refused.
	patience = 2 * time.Second
	// patienceOfAll is how long one that explores does. A class that explores at
	// once is a hundred runs of 5 to 150 ms, which go two by two.
	patienceOfAll = 10 * time.Second
	// mostWaiting is how many runs may wait at once.
	mostWaiting = 2000
)

// newQueue shares out what a runner can have under way on this machine. What
// holds a place of the sandbox costs at least one, so that a run which is admitted
// finds one: this is where runs queue. A capacity of 0 is what the machine bears.
func newQueue(room run.Room, capacity int) (*admission.Queue, int) {
	if capacity == 0 {
		capacity = placesPerCore * runtime.GOMAXPROCS(0)
	}
	capacity = max(2, min(capacity, room.Runs))
	lanes := []admission.Lane{
		laneSingle:      {Name: "single", Brief: true},
		laneSQL:         {Name: "SQL", Most: max(1, room.SQL)},
		laneExploration: {Name: "exploration", Most: max(1, room.Explorations), Patience: patienceOfAll},
		laneTimed:       {Name: "real-time", Most: max(1, capacity/2)},
		laneLoad:        {Name: "load", Most: 1},
		laneReplicated:  {Name: "replicated", Most: max(1, room.Sets)},
		laneIndependent: {Name: "independent", Most: max(1, room.Sets)},
	}
	for i := range lanes {
		if lanes[i].Patience == 0 {
			lanes[i].Patience = patience
		}
	}
	return admission.New(admission.Options{
		Capacity: capacity, Reserve: max(1, capacity/8), Waiting: mostWaiting, Lanes: lanes,
	}), capacity
}

// What a run costs, in single runs. A single run takes half a millisecond of one
// core.
const (
	costSingle      = 1
	costSQL         = 1 // takes 30 ms, most of them for the tables
	costExploration = 8 // keeps the server and a core busy for as long as it takes
	costTimed       = 1 // takes 3 % of a core, and a database for a second or more
	costServer      = 2 // a process of its own, which is started again when it was killed
)

// needs is what a run takes of the machine, and what it bears beside it.
// replays tells that it is one schedule of a path that has many.
func (s *Site) needs(fig *figures.Figure, path *figures.Path, replays bool) admission.Run {
	need := admission.Run{Lane: laneSingle, Cost: costSingle}
	switch {
	case path.Explores() && !replays:
		return admission.Run{Lane: laneExploration, Cost: costExploration}
	case fig.Topology.Replicas > 0:
		need = admission.Run{Lane: laneReplicated, Cost: costServer * len(fig.Topology.Nodes())}
	case fig.Topology.Independent > 0:
		need = admission.Run{Lane: laneIndependent, Cost: costServer * len(fig.Topology.Nodes())}
	case len(path.Loads) > 0:
		// Each client is as busy as a run that never ends, and what the clients
		// do to one another is what the path shows.
		need = admission.Run{Lane: laneLoad, Beside: s.capacity / 8}
		for _, load := range path.Loads {
			need.Cost = max(need.Cost, load.Clients)
		}
		return need
	case s.runner.UsesSQL(path):
		need = admission.Run{Lane: laneSQL, Cost: costSQL}
	case path.Timed():
		need = admission.Run{Lane: laneTimed, Cost: costTimed}
	}
	if path.Timed() {
		// As much as lets a beat or a sample come within milliseconds of its time.
		need.Beside = s.capacity * 3 / 4
	}
	return need
}
