package load_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// TestMemory weighs the program after its start and after 500 mixed runs, 20 at a
// time. The bounds stand in the README.
func TestMemory(t *testing.T) {
	const runs, readers = 500, 20
	const mostAtStart, most = 100 << 20, 128 << 20
	paths := course.Paths(t)
	p := programs.Serve(t)
	start := p.Peak(t)
	visitor := course.Client(t, readers)
	jobs := make(chan course.Path)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for v := range jobs {
				a, err := course.Ask(visitor, v.On(p.URL), course.JSON)
				for deadline := time.Now().Add(time.Minute); err == nil && a.Code == http.StatusTooManyRequests && time.Now().Before(deadline); {
					time.Sleep(5 * time.Millisecond) // less than Retry-After says
					a, err = course.Ask(visitor, v.On(p.URL), course.JSON)
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
	for i := range runs {
		jobs <- paths[i%len(paths)]
	}
	close(jobs)
	all.Wait()
	end := p.Peak(t)
	t.Logf("at most %d MB at the start, %d MB with %d runs", start>>20, end>>20, runs)
	if start > mostAtStart {
		t.Errorf("the start takes %d MB, more than %d", start>>20, mostAtStart>>20)
	}
	if end > most {
		t.Errorf("%d runs take %d MB, more than %d", runs, end>>20, most>>20)
	}
}
