package load_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/handlers"
	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// timedRun is a path in real time that takes three quarters of a second, and
// longRun one of a course of its own that takes nine.
const (
	timedRun = course.Hub + "/lease-renewal/figures/long-job/none"
	longRun  = "/course/chapter/module/slow/figures/slow/run"
)

// A stream is a run as a reader follows it.
type stream struct {
	*http.Response
	lines *bufio.Reader
	begun time.Time
}

// follow asks for a run as a stream, as one of many visitors behind a proxy.
func follow(ctx context.Context, client *http.Client, url, visitor string) (*stream, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream, text/html")
	req.Header.Set("Accept-Encoding", "gzip")
	req.Header.Set("X-Forwarded-For", visitor)
	s := &stream{begun: time.Now()}
	if s.Response, err = client.Do(req); err != nil {
		return nil, err
	}
	body := io.Reader(s.Body)
	if s.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(s.Body); err != nil {
			return nil, err
		}
	}
	s.lines = bufio.NewReader(body)
	return s, nil
}

// next is the next event: its kind, and its data.
func (s *stream) next() (kind, data string, err error) {
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "":
			return kind, data, nil
		case strings.HasPrefix(line, "event: "):
			kind = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data += line[len("data: "):] + "\n"
		}
	}
}

// visitor is the address of the i-th of many.
func visitor(i int) string { return fmt.Sprintf("203.0.113.%d", i) }

// fromProxy are the settings of a site behind a proxy on this machine.
func fromProxy(t *testing.T) handlers.Settings {
	t.Helper()
	_, loopback, err := net.ParseCIDR("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	return handlers.Settings{Proxies: []*net.IPNet{loopback}}
}

// TestTimedStream follows a run, directly and through an nginx that buffers what
// it may and compresses everything: what happens is told as it happens.
func TestTimedStream(t *testing.T) {
	s := course.Open(t, course.Setup{Settings: fromProxy(t)})
	for name, base := range map[string]string{"direct": s.URL, "nginx": proxied(t, s.URL)} {
		t.Run(name, func(t *testing.T) {
			for deadline := time.Now().Add(time.Minute); !told(t, base, name == "direct"); {
				if time.Now().After(deadline) {
					t.Fatal("for a minute this machine was too busy for the run")
				}
			}
		})
	}
	if direct, err := follow(t.Context(), course.Client(t, 1), s.URL+timedRun, visitor(2)); err != nil || direct.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("nginx isn't asked not to buffer: %v", err)
	} else {
		direct.Body.Close()
	}
}

// told follows a run to its end, unless this machine was too busy for it.
func told(t *testing.T, base string, direct bool) bool {
	t.Helper()
	run, err := follow(t.Context(), course.Client(t, 1), base+timedRun, visitor(1))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Body.Close()
	if run.StatusCode != http.StatusOK || run.Header.Get("Content-Type") != "text/event-stream" || direct && run.Header.Get("Content-Encoding") != "" {
		t.Fatalf("%s %v", run.Status, run.Header)
	}
	count := map[string]int{}
	var first, pictured time.Duration
	var kind, data string
	for kind != "verdict" {
		if kind, data, err = run.next(); err != nil {
			t.Fatalf("after %v: %v", count, err)
		}
		if kind == "trouble" {
			t.Fatal(data)
		}
		if len(count) == 0 {
			if first = time.Since(run.begun); kind != "begin" {
				t.Errorf("it begins with %s", kind)
			}
		}
		if count[kind]++; kind == "tracks" && count[kind] == 1 {
			pictured = time.Since(run.begun)
		}
	}
	took := time.Since(run.begun)
	if strings.Contains(data, `data-status="late"`) {
		return false
	}
	if !strings.Contains(data, `data-status="broken"`) {
		t.Errorf("the verdict is %.200s", data)
	}
	if first > took/2 || pictured > took/2 {
		t.Errorf("the first event came after %v, the first picture after %v, the verdict after %v", first, pictured, took)
	}
	if count["entry"] < 5 || count["sample"] < 5 || count["tracks"] < 5 {
		t.Errorf("events: %v", count)
	}
	if rest, err := io.ReadAll(run.lines); len(rest) > 0 || err != nil {
		t.Errorf("after the verdict comes %q, %v", rest, err)
	}
	t.Logf("first event after %v, first picture after %v, verdict after %v", first, pictured, took)
	return true
}

// proxied puts an nginx before an address: it buffers, as far as answers don't
// forbid it, and compresses.
func proxied(t *testing.T, upstream string) string {
	t.Helper()
	return programs.Nginx(t, fmt.Sprintf(`gzip on; gzip_types *; gzip_min_length 0; proxy_buffering on; proxy_buffers 8 64k;
server { listen ADDRESS; location / { proxy_pass %s; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Forwarded-For $remote_addr; } }`, upstream))
}

// TestStreamMemory follows a hundred runs to their ends: nothing is kept of them.
func TestStreamMemory(t *testing.T) {
	s := course.Open(t, course.Setup{Settings: fromProxy(t)})
	c := course.Client(t, 20)
	twenty := func() {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				run, err := follow(t.Context(), c, s.URL+timedRun, visitor(i))
				if err != nil {
					t.Error(err)
					return
				}
				defer run.Body.Close()
				if text, err := io.ReadAll(run.Body); err != nil || !strings.Contains(string(text), "event: verdict") {
					t.Errorf("%v: %.300s", err, text)
				}
			})
		}
		all.Wait()
	}
	kept := func() (bytes uint64, goroutines int) {
		runtime.GC()
		runtime.GC() // what pools hold goes at the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	twenty() // connections and pools are there from now on
	before, running := kept()
	for range 5 {
		twenty()
	}
	course.Eventually(t, 5*time.Second, "goroutines are back where they were", func() bool {
		_, now := kept()
		return now <= running
	})
	after, _ := kept()
	t.Logf("%d kB before, %d kB after", before>>10, after>>10)
	if after > before+1<<20 {
		t.Errorf("a hundred runs leave %d kB behind", (after-before)>>10)
	}
}
