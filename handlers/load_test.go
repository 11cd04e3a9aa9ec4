package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/handlers"
	"lockstep/tests/course"
)

// A tally is what the visitors of a load were answered.
type tally struct {
	mu    sync.Mutex
	codes map[int]int
	took  []time.Duration
}

func (a *tally) add(code int, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.codes == nil {
		a.codes = map[int]int{}
	}
	a.codes[code]++
	a.took = append(a.took, took)
}

// p gives a part of all answers' times: 0.5 the median.
func (a *tally) p(part float64) time.Duration {
	slices.Sort(a.took)
	return a.took[int(part*float64(len(a.took)-1))].Round(100 * time.Microsecond)
}

// paced asks at a steady pace, whether or not the answers keep up, and counts them.
func (v *visitor) paced(t *testing.T, url string, every, after, until time.Duration, into *tally) {
	var all sync.WaitGroup
	defer all.Wait()
	begun := time.Now()
	for at := after; at < until; at += every {
		time.Sleep(time.Until(begun.Add(at)))
		all.Go(func() {
			asked := time.Now()
			answer, _, err := v.ask(url)
			if err != nil {
				t.Error(err)
				return
			}
			into.add(answer.StatusCode, time.Since(asked))
		})
	}
}

// TestScriptAmongThirty lets one of thirty visitors at one address ask a hundred
// times a second, for more than there is: the others hardly notice.
func TestScriptAmongThirty(t *testing.T) {
	for name, tt := range map[string]struct {
		url    string
		script string // its id: none, or one of its own
	}{
		"a script": {waiting, ""},
		"a tab":    {waiting, "new"},
		"explores": {explore, ""},
	} {
		t.Run(name, func(t *testing.T) {
			// Four at once are seventy runs a second that take 60 ms.
			site, _, _ := beside(t, course.Visit(t), handlers.Settings{Capacity: 4, Ceiling: 1000})
			c := course.Client(t, 400)
			var others, script tally
			var all sync.WaitGroup
			const long = 2500 * time.Millisecond
			all.Go(func() {
				(&visitor{client: c, id: tt.script}).paced(t, site+tt.url, 10*time.Millisecond, 0, long, &script)
			})
			for i := range 29 {
				all.Go(func() {
					(&visitor{client: c, id: "new"}).paced(t, site+tt.url, time.Second, time.Duration(i)*time.Second/29, long, &others)
				})
			}
			all.Wait()
			t.Logf("29 visitors: %v, median %v, p99 %v; the script: %v, median %v", others.codes, others.p(0.5), others.p(0.99), script.codes, script.p(0.5))
			if asked := len(others.took); others.codes[http.StatusOK]*100 < 95*asked {
				t.Errorf("of %d runs of the 29 others, %d were answered", asked, others.codes[http.StatusOK])
			}
			if tt.url == waiting && script.codes[http.StatusTooManyRequests] == 0 {
				t.Error("the script never got too much: this test shows nothing")
			}
		})
	}
}

// TestSchool has a school's visitors at one address, each of whom points at
// something every two seconds: nobody is refused.
func TestSchool(t *testing.T) {
	visitors, long := 300, 4*time.Second
	if os.Getenv("LOCKSTEP_BENCH") != "" {
		visitors, long = 1000, 10*time.Second
	}
	site, _, _ := beside(t, course.Visit(t), handlers.Settings{Ceiling: 1000})
	c := course.Client(t, visitors)
	var school tally
	var all sync.WaitGroup
	withID := atomic.Int32{}
	for i := range visitors {
		all.Go(func() {
			v := &visitor{client: c, id: "new"}
			v.paced(t, site+hover, 2*time.Second, time.Duration(i)*2*time.Second/time.Duration(visitors), long, &school)
			if v.id != "new" {
				withID.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d visitors, %d with an id by then: %v, median %v, p99 %v", visitors, withID.Load(), school.codes, school.p(0.5), school.p(0.99))
	if len(school.codes) != 1 || school.codes[http.StatusOK] != len(school.took) {
		t.Errorf("answers: %v", school.codes)
	}
}

// arrivals tells in which order runs came to the site and were answered.
type arrivals struct {
	mu       sync.Mutex
	came     []string // by ?n=
	answered []string
	next     chan struct{} // gets one for each that came
}

func (a *arrivals) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := r.URL.Query().Get("n")
		a.mu.Lock()
		a.came = append(a.came, n)
		a.mu.Unlock()
		a.next <- struct{}{}
		next.ServeHTTP(w, r)
		a.mu.Lock()
		a.answered = append(a.answered, n)
		a.mu.Unlock()
	})
}

// TestHundredExplorers lets a hundred visitors explore at once, all paths that
// can be: each is answered at its first try. Where all explore the same, they
// are answered in the order in which they came.
func TestHundredExplorers(t *testing.T) {
	const explorers = 100
	all := []string{}
	order := &arrivals{next: make(chan struct{}, 2*explorers)}
	s := course.Visit(t)
	site := httptest.NewServer(order.around(s.Handler))
	defer site.Close()
	for _, p := range s.Course.Pages {
		for _, fig := range p.Figures {
			for _, path := range fig.Paths {
				if path.Explores() && len(path.Needs) == 0 {
					all = append(all, p.URL+"/figures/"+fig.ID+"/"+path.ID)
				}
			}
		}
	}
	for name, urls := range map[string][]string{"all paths": all, "one path": {explore}} {
		t.Run(name, func(t *testing.T) {
			order.came, order.answered = nil, nil
			c := course.Client(t, explorers)
			var answers tally
			var waiting sync.WaitGroup
			begun := time.Now()
			for i := range explorers {
				waiting.Go(func() {
					v := &visitor{client: c, id: "new"}
					answer, body, err := v.ask(site.URL + urls[i%len(urls)] + "?n=" + strconv.Itoa(i))
					if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(body, `"schedules"`) {
						t.Errorf("%s: %v %.200s", urls[i%len(urls)], err, body)
						order.next <- struct{}{} // or it would be waited for, if it never came
						return
					}
					answers.add(answer.StatusCode, time.Since(begun))
				})
				<-order.next // it has come, before the next is sent
			}
			waiting.Wait()
			moved := 0
			for at, n := range order.came {
				moved += max(at-slices.Index(order.answered, n), slices.Index(order.answered, n)-at)
			}
			mean := float64(moved) / explorers
			t.Logf("%d paths: %v, median %v, all after %v; on average %.1f places from their order", len(urls), answers.codes, answers.p(0.5), answers.p(1), mean)
			// Two are under way at once, and one may take longer than some that came
			// after it. In any other order it would be dozens.
			if len(urls) == 1 && mean > 3 {
				t.Errorf("they came as\n%q, and were answered as\n%q", order.came, order.answered)
			}
		})
	}
}
