// Package lockstep_test tests the site as a visitor meets it: over HTTP, on a
// real Valkey, and in a real browser.
package lockstep_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockstep/content"
	"lockstep/figures"
	"lockstep/figures/run"
	"lockstep/handlers"
	"lockstep/lua"
	"lockstep/sandbox/fleet"
	"lockstep/sandbox/server"
	"lockstep/sandbox/sql"
)

// TestMain ends what the tests share, and then looks for goroutines that
// something left behind.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range ends {
		end()
	}
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction("os/signal.loop")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// ends are what TestMain calls for those things that tests share: a site, a
// browser, the program.
var ends []func()

// sharedSite is started when a test first needs it.
var sharedSite = sync.OnceValues(func() (*served, error) {
	failures := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})
	s, err := open(context.Background(), setup{log: slog.New(failures)})
	if err == nil {
		ends = append(ends, s.close)
	}
	return s, err
})

// required tells whether a test may not be skipped for want of a program.
func required() bool { return os.Getenv("LOCKSTEP_REQUIRE") != "" || os.Getenv("CI") != "" }

// need skips a test where a program is missing, unless everything has to be run.
func need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path
	case required():
		t.Fatalf("there is no %s on the PATH", program)
	}
	t.Skipf("there is no %s on the PATH", program)
	return ""
}

// served is the course as the program serves it, in this process.
type served struct {
	box    *server.Server
	fleet  *fleet.Fleet
	sql    *sql.Store
	course *content.Course
	runner *run.Runner
	site   *handlers.Site
	http   *httptest.Server
}

// setup is what a test may want otherwise than the program has it.
type setup struct {
	content  fs.FS // the course; the real one if nil
	settings handlers.Settings
	sandbox  server.Options
	limit    time.Duration // of one run
	log      *slog.Logger
}

// open starts a sandbox and serves the course on a port of its own.
func open(ctx context.Context, set setup) (*served, error) {
	if set.log == nil {
		set.log = slog.New(slog.DiscardHandler)
	}
	if set.content == nil {
		set.content = content.FS()
	}
	if set.limit == 0 {
		set.limit = 3 * time.Second
	}
	scripts, err := lua.Load(lua.FS())
	if err != nil {
		return nil, err
	}
	course, faults := content.Load(set.content, scripts)
	if len(faults) > 0 && !set.settings.Reload {
		return nil, faults
	}
	set.sandbox.Scripts = map[string]string{}
	for name, s := range scripts {
		set.sandbox.Scripts[name] = s.Source
	}
	set.sandbox.Log = set.log
	box, err := server.Open(ctx, set.sandbox)
	if err != nil {
		return nil, err
	}
	sql, err := sql.Open(ctx, "")
	if err != nil {
		box.Close()
		return nil, err
	}
	fleet := fleet.Open(box, 2)
	s := &served{box: box, fleet: fleet, sql: sql, course: course, runner: &run.Runner{Sandbox: box, Fleet: fleet, SQL: sql, Limit: set.limit}}
	s.site, err = handlers.New(set.content, scripts, course, s.runner, set.log, set.settings)
	if err != nil {
		sql.Close()
		fleet.Close()
		box.Close()
		return nil, err
	}
	s.http = httptest.NewServer(s.site.Handler())
	return s, nil
}

func (s *served) close() {
	s.site.Stop()
	s.http.CloseClientConnections()
	s.http.Close()
	s.sql.Close()
	s.fleet.Close()
	s.box.Close()
}

// visit gives the site that the tests share.
func visit(t testing.TB) *served {
	t.Helper()
	need(t, "valkey-server")
	s, err := sharedSite()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openSite gives a test a site of its own.
func openSite(t testing.TB, set setup) *served {
	t.Helper()
	need(t, "valkey-server")
	s, err := open(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// An answer is what came back for one request.
type answer struct {
	code   int
	header http.Header
	body   string
}

// ask asks for JSON or for HTML.
func ask(client *http.Client, url, accept string) (answer, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

const (
	asJSON = "application/json"
	asHTML = "text/html"
)

// fetch is ask for those who expect an answer.
func fetch(t testing.TB, url, accept string) answer {
	t.Helper()
	a, err := ask(http.DefaultClient, url, accept)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// client gives a test connections of its own, which end with it.
func client(t testing.TB, connections int) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// eventually waits for something that takes its time.
func eventually(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(most)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", most, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// runURL is the address of a path's run, below an address of the site.
func runURL(base string, p *content.Page, fig *figures.Figure, path *figures.Path) string {
	return strings.TrimSuffix(base, "/") + p.URL + "/figures/" + fig.ID + "/" + path.ID
}
