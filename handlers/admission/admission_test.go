package admission_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/handlers/admission"
)

// The lanes of these tests.
const (
	brief = iota
	few   // one at a time
	long
)

func options(capacity, reserve int) admission.Options {
	return admission.Options{Capacity: capacity, Reserve: reserve, Waiting: 1000, Lanes: []admission.Lane{
		brief: {Name: "brief", Patience: 2 * time.Second, Brief: true},
		few:   {Name: "few", Patience: 10 * time.Second, Most: 1},
		long:  {Name: "long", Patience: 2 * time.Second},
	}}
}

// A desk is a queue and what has become of the runs that asked it, in the order
// in which they began. Everything of it happens in one bubble.
type desk struct {
	*admission.Queue
	t       *testing.T
	mu      sync.Mutex
	begun   []string
	refused map[string]error
	leave   map[string]func()
	cancel  map[string]context.CancelFunc
}

func newDesk(t *testing.T, opt admission.Options) *desk {
	return &desk{Queue: admission.New(opt), t: t, refused: map[string]error{}, leave: map[string]func(){}, cancel: map[string]context.CancelFunc{}}
}

// ask asks for a run called address.visitor.number, and returns when that waits
// or has begun.
func (d *desk) ask(name string, run admission.Run) {
	parts := strings.Split(name, ".")
	ctx, cancel := context.WithCancel(d.t.Context())
	d.cancel[name] = cancel
	go func() {
		leave, err := d.Enter(ctx, admission.Visitor{Address: parts[0], ID: parts[1]}, run)
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil {
			d.refused[name] = err
			return
		}
		d.begun = append(d.begun, name)
		d.leave[name] = leave
	}()
	synctest.Wait()
}

// refusals are the errors of the runs that did not begin, as they stand now.
func (d *desk) refusals() map[string]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.refused)
}

// end ends runs, one after the other.
func (d *desk) end(names ...string) {
	for _, name := range names {
		d.mu.Lock()
		leave := d.leave[name]
		delete(d.leave, name)
		d.mu.Unlock()
		if leave == nil {
			d.t.Fatalf("%s isn't under way; begun: %v, refused: %v", name, d.begun, d.refusals())
		}
		leave()
		synctest.Wait()
	}
}

// drain ends whatever is under way until nothing is.
func (d *desk) drain() {
	for len(d.leave) > 0 {
		for name := range d.leave {
			d.end(name)
			break
		}
	}
}

func (d *desk) want(names ...string) {
	d.t.Helper()
	if !slices.Equal(d.begun, names) {
		d.t.Errorf("begun in the order\n\t%v, want\n\t%v", d.begun, names)
	}
}

// TestTurns lets runs in one at a time.
func TestTurns(t *testing.T) {
	for name, tt := range map[string]struct{ asked, want string }{
		"in order of arrival":                         {"a.v.1 a.v.2 a.v.3", "a.v.1 a.v.2 a.v.3"},
		"in order of arrival, of all that have one":   {"a.u.1 a.v.1 b.w.1 a.x.1", "a.u.1 a.v.1 b.w.1 a.x.1"},
		"visitors take turns":                         {"a.u.0 a.u.1 a.u.2 a.u.3 a.v.1 a.w.1", "a.u.0 a.u.1 a.v.1 a.w.1 a.u.2 a.u.3"},
		"addresses take turns":                        {"a.u.0 a.u.1 a.v.1 a.w.1 b.x.1 b.x.2", "a.u.0 a.u.1 b.x.1 a.v.1 b.x.2 a.w.1"},
		"the same id elsewhere is another visitor":    {"a.u.0 a.u.1 a.u.2 b.u.1", "a.u.0 a.u.1 b.u.1 a.u.2"},
		"those without an id share a visitor's place": {"a..0 a..1 a..2 a.v.1", "a..0 a..1 a.v.1 a..2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, options(1, 1))
				for _, name := range strings.Fields(tt.asked) {
					d.ask(name, admission.Run{Lane: brief, Cost: 1})
				}
				d.drain()
				d.want(strings.Fields(tt.want)...)
			})
		})
	}
}

// TestWaited refuses what has waited as long as its lane allows, and nothing
// earlier or later.
func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, options(1, 1))
		d.ask("a.u.1", admission.Run{Lane: brief, Cost: 1})
		d.ask("a.v.1", admission.Run{Lane: brief, Cost: 1})
		time.Sleep(time.Second)
		d.ask("a.w.1", admission.Run{Lane: brief, Cost: 1})
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		if len(d.refusals()) > 0 {
			t.Errorf("refused early: %v", d.refusals())
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		refused, ok := errors.AsType[*admission.Refused](d.refusals()["a.v.1"])
		if !ok || refused.Reason != admission.Waited || refused.Lane != "brief" || len(d.refusals()) != 1 {
			t.Errorf("after two seconds: %v", d.refusals())
		}
		d.end("a.u.1")
		d.want("a.u.1", "a.w.1")
		d.drain()
	})
}

// TestGone takes those who went away out of the line.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, options(8, 2))
		d.ask("a.u.1", admission.Run{Lane: long, Cost: 6})
		d.ask("a.u.2", admission.Run{Lane: long, Cost: 3}) // waits for it
		d.ask("a.v.1", admission.Run{Lane: long, Cost: 6}) // and so does this
		d.ask("a.w.1", admission.Run{Lane: brief, Cost: 1})
		d.want("a.u.1", "a.w.1")
		d.cancel["a.u.2"]()
		synctest.Wait()
		if !errors.Is(d.refusals()["a.u.2"], context.Canceled) {
			t.Errorf("who went away got %v", d.refusals()["a.u.2"])
		}
		d.end("a.u.1")
		d.want("a.u.1", "a.w.1", "a.v.1")
		d.drain()
	})
}

// TestCrowded refuses the newest run of the visitor who has most of the line, and
// not the one that came last.
func TestCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := options(1, 1)
		opt.Waiting = 4
		d := newDesk(t, opt)
		run := admission.Run{Lane: brief, Cost: 1}
		for i := range 5 {
			d.ask(fmt.Sprintf("a.u.%d", i), run)
		}
		d.ask("a.v.1", run)
		d.ask("b.w.1", run)
		for _, name := range []string{"a.u.4", "a.u.3"} {
			if refused, ok := errors.AsType[*admission.Refused](d.refusals()[name]); !ok || refused.Reason != admission.Crowded {
				t.Errorf("%s: %v", name, d.refusals()[name])
			}
		}
		d.drain()
		if len(d.begun) != 5 || len(d.refusals()) != 2 {
			t.Errorf("begun %v, refused %v", d.begun, d.refusals())
		}
	})
}

// TestPassing asks who may pass whom.
func TestPassing(t *testing.T) {
	one := admission.Run{Lane: brief, Cost: 1}
	synctest.Test(t, func(t *testing.T) { // a lane that is full holds up no other
		d := newDesk(t, options(8, 2))
		d.ask("a.u.1", admission.Run{Lane: few, Cost: 2})
		d.ask("a.u.2", admission.Run{Lane: few, Cost: 2})
		d.ask("a.u.3", admission.Run{Lane: long, Cost: 2})
		d.ask("a.u.4", one)
		d.want("a.u.1", "a.u.3", "a.u.4")
		d.drain()
	})
	synctest.Test(t, func(t *testing.T) { // nobody passes who waits for brief runs
		d := newDesk(t, options(8, 2))
		for i := range 6 {
			d.ask(fmt.Sprintf("a.u.%d", i), one)
		}
		d.ask("a.v.1", admission.Run{Lane: long, Cost: 3, Beside: 4})
		d.ask("a.w.1", one)
		d.end("a.u.0")
		d.want("a.u.0", "a.u.1", "a.u.2", "a.u.3", "a.u.4", "a.u.5")
		d.end("a.u.1")
		d.want("a.u.0", "a.u.1", "a.u.2", "a.u.3", "a.u.4", "a.u.5", "a.v.1") // beside four
		d.end("a.u.2")
		if d.begun[len(d.begun)-1] != "a.w.1" {
			t.Errorf("begun %v", d.begun)
		}
		d.drain()
	})
	synctest.Test(t, func(t *testing.T) { // brief ones pass who waits for long runs
		d := newDesk(t, options(8, 2))
		d.ask("a.u.1", admission.Run{Lane: long, Cost: 2, Beside: 3})
		d.ask("a.u.2", admission.Run{Lane: long, Cost: 4})
		d.ask("a.v.3", admission.Run{Lane: long, Cost: 1})
		d.ask("a.w.1", one)
		d.want("a.u.1", "a.w.1")
		d.end("a.u.1")
		slices.Sort(d.begun[2:]) // they began together
		d.want("a.u.1", "a.w.1", "a.u.2", "a.v.3")
		d.drain()
	})
	synctest.Test(t, func(t *testing.T) { // one that costs more than there is begins alone
		d := newDesk(t, options(8, 2))
		d.ask("a.u.1", admission.Run{Lane: long, Cost: 100, Beside: 1})
		d.ask("a.u.2", one)
		d.ask("a.u.3", one)
		d.ask("a.u.4", one)
		d.want("a.u.1", "a.u.2", "a.u.3")
		d.drain()
		d.want("a.u.1", "a.u.2", "a.u.3", "a.u.4")
	})
}

// TestBounds runs thousands of runs of all kinds in an order that chance gives:
// never is there more under way than any of them bears, and brief ones always
// have their reserve.
func TestBounds(t *testing.T) {
	const capacity, reserve = 16, 3
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		q := admission.New(options(capacity, reserve))
		var mu sync.Mutex
		under := map[int]admission.Run{}
		served, refused, waited := 0, 0, time.Duration(0)
		check := func() {
			total := 0
			for _, run := range under {
				total += run.Cost
			}
			for _, run := range under {
				if bears := max(run.Beside, reserve); total > capacity || run.Beside > 0 && total-run.Cost > bears {
					t.Fatalf("%d are under way beside %+v: %v", total-run.Cost, run, under)
				}
			}
		}
		var all sync.WaitGroup
		for i := range 3000 {
			run := admission.Run{Lane: max(0, random.IntN(10)-7), Cost: 1}
			took := time.Duration(random.IntN(40)) * time.Millisecond
			if run.Lane != brief {
				run.Cost += random.IntN(6)
				run.Beside = random.IntN(capacity)
				took *= 3
			}
			who := admission.Visitor{Address: fmt.Sprint(random.IntN(3)), ID: fmt.Sprint(random.IntN(20))}
			leaves := context.Background()
			if random.IntN(10) == 0 {
				var cancel context.CancelFunc
				leaves, cancel = context.WithTimeout(leaves, time.Duration(random.IntN(500))*time.Millisecond)
				defer cancel()
			}
			all.Go(func() {
				asked := time.Now()
				leave, err := q.Enter(leaves, who, run)
				mu.Lock()
				if run.Lane == brief {
					waited = max(waited, time.Since(asked))
				}
				if err != nil {
					refused++
					mu.Unlock()
					return
				}
				under[i] = run
				served++
				check()
				mu.Unlock()
				time.Sleep(took)
				mu.Lock()
				delete(under, i)
				mu.Unlock()
				leave()
			})
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		all.Wait()
		t.Logf("%d served, %d refused; a brief run waited %v at most", served, refused, waited)
		if served < 1500 || served+refused != 3000 {
			t.Errorf("%d served and %d refused of 3000", served, refused)
		}
		if waited > 200*time.Millisecond {
			t.Errorf("a brief run waited %v", waited)
		}
		leave, err := q.Enter(t.Context(), admission.Visitor{}, admission.Run{Lane: long, Cost: capacity - reserve})
		if err != nil {
			t.Fatal("something was not given back:", err)
		}
		leave()
	})
}
