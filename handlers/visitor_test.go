package handlers_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/content"
	"lockstep/handlers"
	"lockstep/tests/course"
)

// TestVisitorID follows an id: it comes with a run that asks for one, whatever
// becomes of that, and with nothing else.
func TestVisitorID(t *testing.T) {
	site, _, _ := beside(t, course.Visit(t), handlers.Settings{Ceiling: 1000})
	c := course.Client(t, 1)
	given := func(url, shown, accept string) string {
		t.Helper()
		v := &visitor{client: c, id: shown}
		answer, _, err := v.ask(site+url, "Accept", accept)
		must(t, err)
		if kept := answer.Header.Get("Cache-Control"); answer.Header.Get("Lockstep-Visitor") != "" && kept != "no-store" && kept != "no-cache" {
			t.Errorf("%s may be kept, with somebody's id", url)
		}
		return answer.Header.Get("Lockstep-Visitor")
	}
	id := given(hover, "new", "text/html")
	for name, tt := range map[string]struct {
		url, shown, accept string
		want               bool
	}{
		"a run that asks":             {hover, "new", "text/html", true},
		"a stream that asks":          {timed, "new", "text/event-stream, text/html", true},
		"a schedule that can't be":    {explore + "?schedule=Z", "new", "text/html", true},
		"one that has one":            {hover, id, "text/html", false},
		"one whose id is no good":     {hover, id[1:], "text/html", true},
		"one that doesn't ask":        {hover, "", "text/html", false},
		"a page":                      {course.Hub, "new", "text/html", false},
		"what isn't there":            {hover + "x", "new", "text/html", false},
		"the list of a page's figure": {course.Hub + "/figures", "new", "application/json", false},
	} {
		if got := given(tt.url, tt.shown, tt.accept); (got != "") != tt.want {
			t.Errorf("%s: an id is given out: %q", name, got)
		}
	}
}

// beside serves the course once more, on the sandbox of a site that is there, and
// keeps its log. end stops that site.
func beside(t *testing.T, s *course.Site, settings handlers.Settings) (url string, log *bytes.Buffer, end func()) {
	t.Helper()
	log = &bytes.Buffer{} // slog's handler has a lock of its own
	site, err := handlers.New(content.FS(), nil, s.Course, s.Runner, slog.New(slog.NewTextHandler(log, nil)), settings)
	must(t, err)
	web := httptest.NewServer(site.Handler())
	end = sync.OnceFunc(func() {
		web.Close()
		site.Stop()
	})
	t.Cleanup(end)
	return web.URL, log, end
}

// TestRefusals counts refusals, and says so in one line.
func TestRefusals(t *testing.T) {
	url, log, end := beside(t, course.Visit(t), handlers.Settings{Ceiling: 0.001})
	v := &visitor{client: course.Client(t, 1), id: "new"}
	for i := range 50 {
		answer, body, err := v.ask(url + hover)
		must(t, err)
		if refused := answer.StatusCode == http.StatusTooManyRequests; refused != (i > 0) || refused && (answer.Header.Get("Retry-After") == "" || !strings.Contains(body, "from your address faster")) {
			t.Errorf("run %d: %s %v %s", i, answer.Status, answer.Header, body)
		}
	}
	end()
	if log := log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "count=49 by.ceiling=49") {
		t.Errorf("the log says\n%s", log)
	}
}

// TestProxyMissing looks for the line that says that --proxy may be missing.
func TestProxyMissing(t *testing.T) {
	_, loopback, err := net.ParseCIDR("127.0.0.0/8")
	must(t, err)
	forwardedFor := func(i int) []string { return []string{"X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i)} }
	for name, tt := range map[string]struct {
		proxies []*net.IPNet
		header  func(i int) []string
		want    int // lines
	}{
		"one visitor":                      {nil, func(int) []string { return nil }, 0},
		"one visitor behind a proxy":       {nil, func(int) []string { return forwardedFor(1) }, 0},
		"many behind one that isn't named": {nil, forwardedFor, 1},
		"many behind one that is named":    {[]*net.IPNet{loopback}, forwardedFor, 0},
		"many tabs by way of this machine": {nil, func(int) []string { return []string{"Lockstep-Visitor", "new"} }, 1},
		"many without an id, by way of it": {nil, func(int) []string { return []string{"User-Agent", "curl"} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			url, log, end := beside(t, course.Visit(t), handlers.Settings{Proxies: tt.proxies})
			c := course.Client(t, 1)
			for i := range 60 {
				_, _, err := (&visitor{client: c}).ask(url+hover, tt.header(i)...)
				must(t, err)
			}
			end()
			if n := strings.Count(log.String(), "--proxy"); n != tt.want {
				t.Errorf("%d lines, want %d:\n%s", n, tt.want, log)
			}
		})
	}
}

// TestLeaving fills the places of runs in real time, and has others wait. Who
// leaves gives a place back long before the run would have ended, and who leaves
// the line takes nobody's.
func TestLeaving(t *testing.T) {
	site, _, _ := beside(t, course.Visit(t), handlers.Settings{Capacity: 4}) // two in real time at once
	c := course.Client(t, 8)
	follow := func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, site+timed, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream, text/html")
		return c.Do(req)
	}
	held, leave := context.WithCancel(t.Context())
	defer leave()
	for range 2 {
		run, err := follow(held)
		must(t, err)
		defer run.Body.Close()
		if line, err := bufio.NewReader(run.Body).ReadString('\n'); line != "event: begin\n" {
			t.Fatal(line, err)
		}
	}
	// These stand in line and give up.
	tired, giveUp := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer giveUp()
	var line sync.WaitGroup
	for range 5 {
		line.Go(func() {
			if run, err := follow(tired); err == nil {
				run.Body.Close()
				t.Errorf("a third run in real time began: %s", run.Status)
			}
		})
	}
	line.Wait()
	begun := make(chan error, 1)
	asked := time.Now()
	go func() {
		run, err := follow(t.Context())
		if err == nil {
			if run.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s", run.Status)
			}
			run.Body.Close()
		}
		begun <- err
	}()
	leave()
	must(t, <-begun)
	if took := time.Since(asked); took > 500*time.Millisecond {
		t.Errorf("the runs of visitors who left kept their places for %v", took)
	}
}
