// Package lockstep_test tests the whole program as a newcomer meets it. What
// tests one concern of it stands in tests/, what tests one package beside it.
package lockstep_test

import (
	"net/http"
	"regexp"
	"syscall"
	"testing"
	"time"

	"lockstep/tests/course"
	"lockstep/tests/programs"
)

func TestMain(m *testing.M) { programs.Main(m) }

// TestSite builds the program and starts it without a setting, reads a page,
// rests on a path of a figure, has every order of another run, and stops it.
func TestSite(t *testing.T) {
	programs.Need(t, "valkey-server")
	p := programs.Serve(t)
	says := func(address, accept string, want ...string) {
		t.Helper()
		a := course.Fetch(t, p.URL+course.Hub+address, accept)
		for _, want := range want {
			if a.Code != http.StatusOK || !regexp.MustCompile(want).MatchString(a.Body) {
				t.Errorf("%s as %s: %d %s, want %s", address, accept, a.Code, a.Body, want)
			}
		}
	}
	says("", course.HTML, `<h1>Distributed locking</h1>`, `id="race"`, `id="every-order"`)
	says("/figures/race/b", course.HTML, `data-status="refused"`, `Worker B reads nil`, `live · Valkey`)
	says("/figures/race/b", course.JSON, `"status":"refused"`, `"mode":"managed"`)
	says("/figures/every-order/with-nx", course.JSON, `"status":"safe"`, `"schedules":[1-9]`)

	p.Signal(t, syscall.SIGTERM)
	if code := p.End(t, time.Minute); code != 0 {
		t.Errorf("after SIGTERM it exits with %d, want 0", code)
	}
}
