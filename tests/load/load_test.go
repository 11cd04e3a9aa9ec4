package load_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/figures"
	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// TestKilledServer kills the sandbox's server while 50 runs are under way. Each
// ends in a verdict or in the sandbox's own words; then everything works again,
// and nothing is left over.
func TestKilledServer(t *testing.T) {
	paths := course.Paths(t)
	others := programs.Servers(t, os.Getpid())
	s := course.Open(t, course.Setup{})
	server := programs.Server(t, os.Getpid(), others...)
	// The run that is cut off waits for a lease to end.
	var slow course.Path
	for _, v := range paths {
		if v.ID == "crash-without-px" {
			slow = v
		}
	}
	visitor := course.Client(t, 64)
	for round := range 3 {
		before := held(visitor)
		codes := map[int]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		killed, answered := make(chan struct{}), make(chan struct{})
		first := sync.OnceFunc(func() { close(answered) })
		for i := range 50 {
			all.Go(func() {
				v := slow
				if i%2 == 1 {
					v = paths[i*7%len(paths)]
				}
				if i%5 == 4 {
					<-killed
				}
				a, err := course.Ask(visitor, v.On(s.URL), course.JSON)
				if err == nil && a.Code == http.StatusServiceUnavailable {
					err = restarting(a)
				} else if err == nil && !(a.Code == http.StatusTooManyRequests && v.Explores()) {
					err = v.Judge(a)
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				codes[a.Code]++
				mu.Unlock()
				first()
			})
		}
		<-answered // all others are under way or to come
		if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		close(killed)
		dead := time.Now()
		all.Wait()
		course.Eventually(t, 10*time.Second, "a run works again", func() bool {
			a, err := course.Ask(visitor, slow.On(s.URL), course.JSON)
			return err == nil && slow.Judge(a) == nil
		})
		t.Logf("round %d: %v; a run works %v after the kill", round+1, codes, time.Since(dead).Round(time.Millisecond))
		if round == 0 && codes[http.StatusServiceUnavailable] == 0 {
			t.Error("the kill hit no run: this test shows nothing")
		}
		for _, v := range paths { // no script, no user and no database is missing
			if v.Explores() {
				continue
			}
			a, err := course.Ask(visitor, v.On(s.URL), course.JSON)
			if err == nil {
				err = v.Judge(a)
			}
			if err != nil {
				t.Error(err)
			}
		}
		server = programs.Server(t, os.Getpid(), others...)
		course.Eventually(t, 5*time.Second, "goroutines and connections are back where they were", func() bool {
			now := held(visitor)
			return now.goroutines <= before.goroutines+4 && now.sockets <= before.sockets+70
		})
	}
	if a := course.Fetch(t, s.URL+"/healthz", course.JSON); a.Code != http.StatusOK {
		t.Errorf("health: %d %s", a.Code, a.Body)
	}
}

// restarting looks for the words of a sandbox that is away.
func restarting(a course.Answer) error {
	var p struct{ Error string }
	err := json.Unmarshal([]byte(a.Body), &p)
	if err != nil || !strings.Contains(p.Error, "sandbox is restarting") || a.Header.Get("Retry-After") == "" {
		return fmt.Errorf("503 %v %s, %v", a.Header, a.Body, err)
	}
	return nil
}

// TestExploreLoad runs 50 explorations and 500 hovers at once. Every hover is
// answered; every exploration is exact, or refused and asked for again. What the
// explorations cost the hovers is logged.
func TestExploreLoad(t *testing.T) {
	s := course.Open(t, course.Setup{})
	var hovers, studies []course.Path
	for _, v := range course.Paths(t) {
		switch {
		case !v.Runs():
		case v.Explores():
			studies = append(studies, v)
		case !waits(v.Path):
			hovers = append(hovers, v)
		}
	}
	visitor := course.Client(t, 32)
	hover := func() (took []time.Duration) {
		var mu sync.Mutex
		jobs := make(chan int)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range jobs {
					start := time.Now()
					a, err := course.Ask(visitor, hovers[i%len(hovers)].On(s.URL), course.JSON)
					one := time.Since(start)
					if err == nil {
						err = hovers[i%len(hovers)].Judge(a)
					}
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					took = append(took, one)
					mu.Unlock()
				}
			})
		}
		for i := range 500 {
			jobs <- i
		}
		close(jobs)
		all.Wait()
		slices.Sort(took)
		return took
	}
	calm := hover()

	var refused atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			v := studies[i%len(studies)]
			deadline := time.Now().Add(time.Minute)
			for {
				a, err := course.Ask(visitor, v.On(s.URL), course.JSON)
				switch {
				case err == nil && a.Code == http.StatusTooManyRequests:
					if refused.Add(1); a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, "busy") {
						err = fmt.Errorf("429 %v %s", a.Header, a.Body)
					} else if time.Now().Before(deadline) {
						time.Sleep(10 * time.Millisecond)
						continue
					}
				case err == nil:
					err = v.Judge(a)
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	beside := hover()
	all.Wait()
	p := func(took []time.Duration, part float64) time.Duration {
		return took[int(part*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	t.Logf("500 hovers alone: median %v, p99 %v; beside 50 explorations, which were refused %d times before: median %v, p99 %v",
		p(calm, 0.5), p(calm, 0.99), refused.Load(), p(beside, 0.5), p(beside, 0.99))
}

// waits tells whether a path spends its time waiting, for a lease to end or for
// so many milliseconds.
func waits(path *figures.Path) bool {
	return slices.ContainsFunc(slices.Concat(path.Setup, path.Steps), func(s figures.Step) bool {
		switch s.Does.(type) {
		case figures.Wait, figures.Lapse:
			return true
		}
		return false
	})
}
