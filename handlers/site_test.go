// Package handlers_test loads a site as classes, scripts and proxies do: over HTTP,
// on a real Valkey.
package handlers_test

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"lockstep/tests/course"
	"lockstep/tests/programs"
)

func TestMain(m *testing.M) { programs.Main(m) }

// Runs that these tests ask for.
const (
	hover   = course.Hub + "/figures/race/b"
	waiting = course.Hub + "/figures/race/crash-without-px"             // 60 ms, most of them waiting
	explore = course.Hub + "/figures/every-order/with-nx"               // every order, 10 ms
	timed   = course.Hub + "/lease-renewal/figures/watchdog/deadlocked" // a second, in real time
)

// A visitor is somebody who runs figures in one tab.
type visitor struct {
	client *http.Client
	mu     sync.Mutex
	id     string // "" for one without a script, "new" for one that has no id yet
}

// ask asks for a run and reads the answer. An id that comes with it is kept, as
// the page's script keeps it. Headers are names and values in turn.
func (v *visitor) ask(url string, headers ...string) (*http.Response, string, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", course.JSON)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	v.mu.Lock()
	if v.id != "" {
		req.Header.Set("Lockstep-Visitor", v.id)
	}
	v.mu.Unlock()
	answer, err := v.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if id := answer.Header.Get("Lockstep-Visitor"); id != "" {
		v.mu.Lock()
		v.id = id
		v.mu.Unlock()
	}
	return answer, string(body), err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
