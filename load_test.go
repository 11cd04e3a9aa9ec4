package lockstep_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockstep/figures"
)

// TestKilledServer kills the sandbox's server while 50 runs are under way. Each
// ends in a verdict or in the sandbox's own words; then everything works again,
// and nothing is left over.
func TestKilledServer(t *testing.T) {
	others := children(t, os.Getpid())
	s := openSite(t, setup{})
	server := onlyNew(t, others, children(t, os.Getpid()))
	// The run that is cut off waits for a lease to end.
	var slow visitedPath
	paths := pathsOf(t, s)
	for _, v := range paths {
		if v.path.ID == "crash-without-px" {
			slow = v
		}
	}
	visitor := client(t, 64)
	for round := range 3 {
		before := held(visitor)
		codes := map[int]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		killed := make(chan struct{})
		for i := range 50 {
			all.Go(func() {
				v := slow
				if i%2 == 1 {
					v = paths[i*7%len(paths)]
				}
				if i%5 == 4 {
					<-killed
				}
				a, err := ask(visitor, v.url, asJSON)
				if err == nil && a.code == http.StatusServiceUnavailable {
					err = restarting(a)
				} else if err == nil && !(a.code == http.StatusTooManyRequests && v.path.Explores()) {
					err = v.judge(a)
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				codes[a.code]++
				mu.Unlock()
			})
		}
		time.Sleep(30 * time.Millisecond) // most runs are in their wait of 60 ms
		if err := syscall.Kill(server, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		close(killed)
		dead := time.Now()
		all.Wait()
		eventually(t, 2*time.Second, "a run works again", func() bool {
			a, err := ask(visitor, slow.url, asJSON)
			return err == nil && slow.judge(a) == nil
		})
		t.Logf("round %d: %v; a run works %v after the kill", round+1, codes, time.Since(dead).Round(time.Millisecond))
		if round == 0 && codes[http.StatusServiceUnavailable] == 0 {
			t.Error("the kill hit no run: this test shows nothing")
		}
		for _, v := range paths { // no script, no user and no database is missing
			if v.path.Explores() {
				continue
			}
			a, err := ask(visitor, v.url, asJSON)
			if err == nil {
				err = v.judge(a)
			}
			if err != nil {
				t.Error(err)
			}
		}
		server = onlyNew(t, others, children(t, os.Getpid()))
		eventually(t, 5*time.Second, "goroutines and connections are back where they were", func() bool {
			now := held(visitor)
			return now.goroutines <= before.goroutines+4 && now.sockets <= before.sockets+70
		})
	}
	if a := fetch(t, s.http.URL+"/healthz", asJSON); a.code != http.StatusOK {
		t.Errorf("health: %d %s", a.code, a.body)
	}
}

// restarting looks for the words of a sandbox that is away.
func restarting(a answer) error {
	var p struct{ Error string }
	err := json.Unmarshal([]byte(a.body), &p)
	if err != nil || !strings.Contains(p.Error, "sandbox is restarting") || a.header.Get("Retry-After") == "" {
		return fmt.Errorf("503 %v %s, %v", a.header, a.body, err)
	}
	return nil
}

// children are the processes that a process has started and that still run, by
// name. Where there is no /proc a test that needs them is skipped.
func children(t testing.TB, parent int) map[int]string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("there is no /proc here")
	}
	found := map[int]string{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …
		open, shut := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text[shut+1:]))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:open])))
		if ppid, _ := strconv.Atoi(fields[1]); ppid == parent && fields[0] != "Z" {
			found[pid] = string(text[open+1 : shut])
		}
	}
	return found
}

// onlyNew is the one server that has come.
func onlyNew(t testing.TB, before, now map[int]string) int {
	t.Helper()
	var pids []int
	for pid, name := range now {
		if before[pid] == "" && strings.HasSuffix(name, "-server") {
			pids = append(pids, pid)
		}
	}
	if len(pids) != 1 {
		t.Fatalf("%d servers have come: %v", len(pids), now)
	}
	return pids[0]
}

// TestExploreLoad runs 50 explorations and 500 hovers at once. Every hover is
// answered; every exploration is exact, or refused and asked for again. What the
// explorations cost the hovers is logged.
func TestExploreLoad(t *testing.T) {
	s := openSite(t, setup{})
	var hovers, studies []visitedPath
	for _, v := range pathsOf(t, s) {
		switch {
		case v.pattern == nil:
		case v.path.Explores():
			studies = append(studies, v)
		case !waits(v.path):
			hovers = append(hovers, v)
		}
	}
	visitor := client(t, 32)
	hover := func() (took []time.Duration) {
		var mu sync.Mutex
		jobs := make(chan int)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range jobs {
					start := time.Now()
					a, err := ask(visitor, hovers[i%len(hovers)].url, asJSON)
					one := time.Since(start)
					if err == nil {
						err = hovers[i%len(hovers)].judge(a)
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
				a, err := ask(visitor, v.url, asJSON)
				switch {
				case err == nil && a.code == http.StatusTooManyRequests:
					if refused.Add(1); a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "busy") {
						err = fmt.Errorf("429 %v %s", a.header, a.body)
					} else if time.Now().Before(deadline) {
						time.Sleep(10 * time.Millisecond)
						continue
					}
				case err == nil:
					err = v.judge(a)
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

// gone tells whether a process has ended.
func gone(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
