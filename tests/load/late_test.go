package load_test

import (
	"encoding/json"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"lockstep/figures"
	"lockstep/tests/course"
)

// eitherWay are paths whose dives say that two runs of them may differ: what they
// show is a matter of a millisecond, on the deadline itself.
var eitherWay = map[string]bool{"long-job.half-missed": true}

// TestBusyMachine runs every path of the course, those by the clock and on several
// servers too, 60 at a time. Each says what it says alone, or that it was late; no
// status is empty, and no run is given up.
func TestBusyMachine(t *testing.T) {
	runs, audit := 200, os.Getenv("LOCKSTEP_AUDIT") != ""
	if audit {
		runs = 500
	}
	s := course.Open(t, course.Setup{})
	var paths []course.Path
	for _, p := range s.Course.Pages {
		for _, fig := range p.Figures {
			for _, path := range fig.Paths {
				paths = append(paths, course.Path{Path: path, Page: p, Figure: fig})
			}
		}
	}
	alone := make([]string, len(paths))
	visitor := course.Client(t, 64)
	together(len(paths), 4, func(i int) { alone[i] = said(t, visitor, paths[i].On(s.URL)) })
	var mu sync.Mutex
	late := 0
	together(runs, 60, func(i int) {
		p := i % len(paths)
		name := paths[p].Figure.ID + "." + paths[p].ID
		status := said(t, visitor, paths[p].On(s.URL))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case status == figures.Late.String():
			late++
		case status != alone[p] && !eitherWay[name] && alone[p] != figures.Late.String():
			t.Errorf("%s says %q, and alone %q", name, status, alone[p])
		}
	})
	t.Logf("%d of %d runs were late", late, runs)
	if audit && late > runs/50 { // how many is the machine's doing
		t.Errorf("%d of %d runs were late", late, runs)
	}
}

// together calls f for 0 to n-1, some at a time.
func together(n, some int, f func(int)) {
	jobs := make(chan int)
	var all sync.WaitGroup
	for range some {
		all.Go(func() {
			for i := range jobs {
				f(i)
			}
		})
	}
	for i := range n {
		jobs <- i
	}
	close(jobs)
	all.Wait()
}

// said is the status that a run answers with. One that is refused for now is asked
// for again.
func said(t *testing.T, visitor *http.Client, url string) string {
	deadline := time.Now().Add(time.Minute)
	for {
		a, err := course.Ask(visitor, url, course.JSON)
		switch {
		case err != nil:
			t.Error(err)
			return ""
		case a.Code == http.StatusTooManyRequests && time.Now().Before(deadline):
			time.Sleep(50 * time.Millisecond)
			continue
		case a.Code == http.StatusNotImplemented: // this server lacks a command
			return "501"
		}
		var result struct{ Status string }
		if err := json.Unmarshal([]byte(a.Body), &result); err != nil || a.Code != http.StatusOK || result.Status == "" {
			t.Errorf("%s: %d %s", url, a.Code, a.Body)
		}
		if result.Status == figures.Late.String() && a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: late without a word on when to come back", url)
		}
		return result.Status
	}
}
