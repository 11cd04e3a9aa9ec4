// Package programs finds and starts the programs that tests run beside
// themselves: this project's own, PostgreSQL, nginx, and tools from npm. Each
// ends with its test.
package programs

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// ends are what Main calls.
var ends struct {
	sync.Mutex
	all []func()
}

// AtEnd has Main end something that the tests of a package share.
func AtEnd(end func()) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, end)
}

// Main runs the tests of a package, ends what they share, and then looks for
// goroutines that something left behind.
func Main(m *testing.M) {
	code := m.Run()
	for _, end := range ends.all {
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

// Required tells whether a test may not be skipped for want of a program.
func Required() bool { return os.Getenv("LOCKSTEP_REQUIRE") != "" || os.Getenv("CI") != "" }

// Need finds a program by one of its names. Where it is missing the test is
// skipped, unless everything has to be run.
func Need(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "there is no "+names[0]+" on the PATH")
	return ""
}

func missing(t testing.TB, why string) {
	t.Helper()
	if Required() {
		t.Fatal(why)
	}
	t.Skip(why)
}

// installs is held while a package of npm is installed.
var installs sync.Mutex

// NPM gives the folder of a package of npm, which is installed once, where this
// machine keeps such things. Without npm or its registry the test is skipped
// even where everything has to be run.
func NPM(t testing.TB, name, version string) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm on the PATH")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	installs.Lock()
	defer installs.Unlock()
	dir := filepath.Join(cache, "lockstep-checks", name+"-"+version)
	found := filepath.Join(dir, "node_modules", name)
	if _, err := os.Stat(filepath.Join(found, "package.json")); err == nil {
		return found
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", name+"@"+version)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm install %s: %v\n%s", name, err, out)
	}
	return found
}
