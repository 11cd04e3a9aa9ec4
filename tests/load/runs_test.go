package load_test

import (
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// TestConcurrent asks for 500 runs at once, all figures mixed, and wants the
// verdict that each gives alone; nothing is left over. A single run is never
// refused. An exploration may be, when all databases for explorations are lent;
// its reader asks again, as Retry-After says, only sooner.
func TestConcurrent(t *testing.T) {
	const runs, readers = 500, 64
	s := course.Open(t, course.Setup{Limit: 10 * time.Second})
	paths := course.Paths(t)
	visitor := course.Client(t, readers)
	var refused atomic.Int64
	round := func(runs int) {
		jobs := make(chan course.Path)
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				for v := range jobs {
					deadline := time.Now().Add(time.Minute)
					a, err := course.Ask(visitor, v.On(s.URL), course.JSON)
					for err == nil && a.Code == http.StatusTooManyRequests && v.Explores() && time.Now().Before(deadline) {
						if a.Header.Get("Retry-After") == "" {
							t.Errorf("%s: refused without a word on when to come back", v.On(s.URL))
						}
						refused.Add(1)
						time.Sleep(5 * time.Millisecond)
						a, err = course.Ask(visitor, v.On(s.URL), course.JSON)
					}
					if err == nil {
						err = v.Judge(a)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		order := rand.New(rand.NewPCG(2, 26))
		for i := range runs {
			if i < len(paths) {
				jobs <- paths[i] // each at least once
			} else {
				jobs <- paths[order.IntN(len(paths))]
			}
		}
		close(jobs)
		all.Wait()
	}
	round(2 * readers) // every database gets its connection
	settled := held(visitor)
	start := time.Now()
	round(runs)
	t.Logf("%d runs in %v; explorations refused for a moment: %d times", runs, time.Since(start).Round(time.Millisecond), refused.Load())
	course.Eventually(t, 10*time.Second, "goroutines and connections are back where they were", func() bool {
		now := held(visitor)
		return now.goroutines <= settled.goroutines+2 && now.sockets <= settled.sockets+2
	})
}

// holdings are things that a leak would make grow.
type holdings struct{ goroutines, sockets int }

// held counts them, once the visitors' own connections are closed.
func held(visitor *http.Client) holdings {
	var last holdings
	for range 500 { // connections take a moment to end on both sides
		visitor.CloseIdleConnections()
		time.Sleep(2 * time.Millisecond)
		now := holdings{runtime.NumGoroutine(), programs.Sockets(os.Getpid())}
		if now == last {
			break
		}
		last = now
	}
	return last
}

// TestGivenUp closes tabs in the middle of a run: connections and goroutines are
// back at once, and what was cut off reaches nobody else.
func TestGivenUp(t *testing.T) {
	s := course.Open(t, course.Setup{})
	paths := slices.DeleteFunc(course.Paths(t), func(v course.Path) bool { return !v.Runs() })
	visitor := course.Client(t, 100)
	settled := held(visitor)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			hasty := *visitor
			hasty.Timeout = time.Duration(1+i%20) * time.Millisecond
			_, _ = course.Ask(&hasty, paths[i%len(paths)].On(s.URL), course.JSON)
		})
	}
	all.Wait()
	for _, v := range paths {
		var a course.Answer
		course.Eventually(t, 10*time.Second, v.On(s.URL)+" can be run", func() bool {
			var err error
			a, err = course.Ask(visitor, v.On(s.URL), course.JSON)
			return err == nil && a.Code != http.StatusTooManyRequests
		})
		if err := v.Judge(a); err != nil {
			t.Error(err)
		}
	}
	course.Eventually(t, 5*time.Second, "goroutines and connections are back where they were", func() bool {
		now := held(visitor)
		return now.goroutines <= settled.goroutines+2 && now.sockets <= settled.sockets+70 // a warm connection for each database
	})
}
