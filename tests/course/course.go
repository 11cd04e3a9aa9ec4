// Package course serves the course within a test, as the program serves it, and
// asks it as a visitor does.
package course

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"lockstep/content"
	"lockstep/figures/run"
	"lockstep/handlers"
	"lockstep/lua"
	"lockstep/sandbox/fleet"
	"lockstep/sandbox/server"
	"lockstep/sandbox/sql"
	"lockstep/tests/programs"
)

// Hub is the address of the module that all dives belong to.
const Hub = "/redis-patterns/coordination/distributed-locking"

// A Site is the course on a port of its own, with a server of its own behind it.
type Site struct {
	URL     string // of the home page, without a slash at its end
	Handler http.Handler
	Course  *content.Course
	Runner  *run.Runner

	site *handlers.Site
	http *httptest.Server
}

// Setup is what a test may want otherwise than the program has it.
type Setup struct {
	Content  fs.FS // the course; the real one if nil
	Settings handlers.Settings
	Limit    time.Duration // of one run; the program's if 0
	Log      *slog.Logger  // nothing if nil
}

// Open gives a test a site of its own.
func Open(t testing.TB, set Setup) *Site {
	t.Helper()
	programs.Need(t, "valkey-server")
	s, err := open(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func open(ctx context.Context, set Setup) (*Site, error) {
	if set.Log == nil {
		set.Log = slog.New(slog.DiscardHandler)
	}
	if set.Content == nil {
		set.Content = content.FS()
	}
	if set.Limit == 0 {
		set.Limit = 3 * time.Second
	}
	scripts, err := lua.Load(lua.FS())
	if err != nil {
		return nil, err
	}
	course, faults := content.Load(set.Content, scripts)
	if len(faults) > 0 && !set.Settings.Reload {
		return nil, faults
	}
	sources := map[string]string{}
	for name, s := range scripts {
		sources[name] = s.Source
	}
	box, err := server.Open(ctx, server.Options{Scripts: sources, Log: set.Log})
	if err != nil {
		return nil, err
	}
	sql, err := sql.Open(ctx, "")
	if err != nil {
		box.Close()
		return nil, err
	}
	fleet := fleet.Open(box, 2)
	s := &Site{Course: course, Runner: &run.Runner{Sandbox: box, Fleet: fleet, SQL: sql, Limit: set.Limit}}
	s.site, err = handlers.New(set.Content, scripts, course, s.Runner, set.Log, set.Settings)
	if err != nil {
		sql.Close()
		fleet.Close()
		box.Close()
		return nil, err
	}
	s.Handler = s.site.Handler()
	s.http = httptest.NewServer(s.Handler)
	s.URL = s.http.URL
	return s, nil
}

func (s *Site) close() {
	s.site.Stop()
	s.http.CloseClientConnections()
	s.http.Close()
	s.Runner.SQL.Close()
	s.Runner.Fleet.Close()
	s.Runner.Sandbox.Close()
}

// shared is started when a test first visits it, and tells of failures.
var shared = sync.OnceValues(func() (*Site, error) {
	failures := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})
	s, err := open(context.Background(), Setup{Log: slog.New(failures)})
	if err == nil {
		programs.AtEnd(s.close)
	}
	return s, err
})

// Visit gives the site that the tests of a package share.
func Visit(t testing.TB) *Site {
	t.Helper()
	programs.Need(t, "valkey-server")
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
