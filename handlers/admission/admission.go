// Package admission decides whose run goes next.
//
// A run is admitted by what it costs the machine. Who can't be admitted at once
// waits in a line, in order of arrival; in a line, addresses take turns, and so
// do the visitors of an address. A run whose meaning is its timing says how much
// it bears beside it, and nothing that would be more is admitted while it runs.
package admission

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Visitor is who asks: somebody at an address. ID is empty for one that shows
// none, who shares the address's turn with others like that.
type Visitor struct{ Address, ID string }

// A Lane is runs that need the same thing of which there are few.
type Lane struct {
	Name     string
	Most     int           // under way at once; 0: as many as the capacity allows
	Patience time.Duration // how long one waits before it is refused
	Brief    bool          // they end in milliseconds
}

// A Run is what is asked for. Costs are in runs of the cheapest kind.
type Run struct {
	Lane   int // in Options.Lanes
	Cost   int // what it takes while it is under way
	Beside int // the most that may be under way beside it; 0: all that the capacity allows
}

// Options say what there is to give away.
type Options struct {
	Capacity int // the cost of all that may be under way at once
	Reserve  int // of that, what only brief runs may take: they never wait for long ones
	Waiting  int // how many may wait at once
	Lanes    []Lane
}

// A Reason is why a run was refused.
type Reason string

// The reasons: it waited as long as its lane allows, too many others wait, or its
// address has reached its ceiling.
const (
	Waited  Reason = "waited"
	Crowded Reason = "crowded"
	Ceiling Reason = "ceiling"
)

// Refused is the error of a run that was not admitted.
type Refused struct {
	Reason Reason
	Lane   string // empty for Ceiling
}

func (e *Refused) Error() string {
	if e.Lane == "" {
		return fmt.Sprintf("refused: %s", e.Reason)
	}
	return fmt.Sprintf("refused: %s, %s", e.Lane, e.Reason)
}

// A Queue admits runs.
type Queue struct {
	opt   Options
	mu    sync.Mutex
	lines []*line // by lane
	count []int   // by lane, how many are under way
	brief int     // cost under way, of brief runs
	long  int     // and of all others
	bound map[*ticket]struct{}
	last  int // number of the newest ticket
}

// A ticket is a run that waits or is under way.
type ticket struct {
	number  int // in order of arrival
	lane    int
	cost    int
	ceiling int // the most that may be under way while it is, itself included
	turn    *turn
	called  chan error // gets nil when it is admitted, else why it isn't
}

// New makes a queue.
func New(opt Options) *Queue {
	q := &Queue{opt: opt, count: make([]int, len(opt.Lanes)), bound: map[*ticket]struct{}{}}
	for range opt.Lanes {
		q.lines = append(q.lines, newLine())
	}
	return q
}

// Enter waits until a run may begin. The run is over when leave is called, once.
// The error is a *Refused, or the context's where that ends first: who has gone
// away no longer waits.
func (q *Queue) Enter(ctx context.Context, who Visitor, run Run) (leave func(), err error) {
	lane := q.opt.Lanes[run.Lane]
	t := q.join(who, run)
	patience := time.NewTimer(lane.Patience)
	defer patience.Stop()
	select {
	case err = <-t.called:
	case <-patience.C:
		err = q.withdraw(t, &Refused{Waited, lane.Name})
	case <-ctx.Done():
		err = q.withdraw(t, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	return func() { q.leave(t) }, nil
}

// join puts a run at the end of its visitor's turn.
func (q *Queue) join(who Visitor, run Run) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	t := &ticket{number: q.last, lane: run.Lane, cost: run.Cost, ceiling: q.opt.Capacity, called: make(chan error, 1)}
	if !q.opt.Lanes[run.Lane].Brief {
		t.cost = min(t.cost, q.opt.Capacity-q.opt.Reserve) // or it could never begin
	}
	if run.Beside > 0 {
		t.ceiling = min(t.ceiling, t.cost+max(run.Beside, q.opt.Reserve))
	}
	q.lines[t.lane].add(who, t)
	q.admit()
	if q.waiting() > q.opt.Waiting {
		q.thin()
	}
	return t
}

// withdraw takes out of its line a run that waits no longer, for a reason. It is
// nil where the run was admitted just before.
func (q *Queue) withdraw(t *ticket, why error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case err := <-t.called:
		if _, refused := why.(*Refused); refused || err != nil {
			return err
		}
		q.end(t) // it was admitted, and nobody is there any more
	default:
		q.lines[t.lane].remove(t)
	}
	q.admit() // it may have kept others waiting
	return why
}

func (q *Queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(t)
	q.admit()
}

// admit begins all runs that may.
func (q *Queue) admit() {
	for t := q.next(); t != nil; t = q.next() {
		q.lines[t.lane].take()
		q.count[t.lane]++
		if q.opt.Lanes[t.lane].Brief {
			q.brief += t.cost
		} else {
			q.long += t.cost
		}
		if t.ceiling < q.opt.Capacity {
			q.bound[t] = struct{}{}
		}
		t.called <- nil
	}
}

// end takes a run out of those that are under way.
func (q *Queue) end(t *ticket) {
	q.count[t.lane]--
	if q.opt.Lanes[t.lane].Brief {
		q.brief -= t.cost
	} else {
		q.long -= t.cost
	}
	delete(q.bound, t)
}

// next is the run that begins now, or nil. The first of each line are looked at
// in order of arrival. Nobody passes one that waits for brief runs, which soon
// are over; one that waits for long runs is passed by brief ones only, and one
// whose lane is full by all other lanes.
func (q *Queue) next() *ticket {
	var heads []*ticket
	for i, line := range q.lines {
		if most := q.opt.Lanes[i].Most; most == 0 || q.count[i] < most {
			if t := line.head(); t != nil {
				heads = append(heads, t)
			}
		}
	}
	slices.SortFunc(heads, func(a, b *ticket) int { return a.number - b.number })
	held := false // long runs are
	for _, t := range heads {
		ceiling := q.ceiling(t)
		if q.opt.Lanes[t.lane].Brief {
			if q.brief+q.long+t.cost <= ceiling {
				return t
			}
			continue
		}
		if held {
			continue
		}
		long := q.long + t.cost
		if long+max(q.brief, q.opt.Reserve) <= ceiling {
			return t
		}
		if long+q.opt.Reserve <= ceiling {
			return nil
		}
		held = true
	}
	return nil
}

// ceiling is the most that may be under way once a run has begun.
func (q *Queue) ceiling(t *ticket) int {
	least := t.ceiling
	for other := range q.bound {
		least = min(least, other.ceiling)
	}
	return least
}

func (q *Queue) waiting() (n int) {
	for _, line := range q.lines {
		n += line.waiting
	}
	return n
}

// thin refuses the newest run of the visitor that has the most waiting: it is
// that visitor's turn that takes the room of others.
func (q *Queue) thin() {
	var longest *turn
	for _, line := range q.lines {
		if t := line.longest(); longest == nil || t != nil && len(t.tickets) > len(longest.tickets) {
			longest = t
		}
	}
	t := longest.tickets[len(longest.tickets)-1]
	q.lines[t.lane].remove(t)
	t.called <- &Refused{Crowded, q.opt.Lanes[t.lane].Name}
}
