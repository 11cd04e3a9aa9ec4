package run

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"lockstep/figures"
	"lockstep/figures/read"
	"lockstep/lua"
	"lockstep/sandbox/fleet"
	"lockstep/sandbox/server"
	"lockstep/sandbox/sql"
)

// testRunner runs on a server of the test's own.
func testRunner(t testing.TB) *Runner {
	t.Helper()
	if _, err := exec.LookPath("valkey-server"); err != nil {
		if os.Getenv("LOCKSTEP_REQUIRE") != "" {
			t.Fatal("no valkey-server on the PATH")
		}
		t.Skip("no valkey-server on the PATH")
	}
	scripts, err := lua.Load(lua.FS())
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for name, s := range scripts {
		sources[name] = s.Source
	}
	box, err := server.Open(t.Context(), server.Options{Scripts: sources})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	store, err := sql.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	fleet := fleet.Open(box, 2)
	t.Cleanup(fleet.Close)
	return &Runner{Sandbox: box, Fleet: fleet, SQL: store, Limit: 5 * time.Second}
}

// figureOf reads a figure of the test's own.
func figureOf(t testing.TB, text string) *figures.Figure {
	t.Helper()
	scripts, err := lua.Load(lua.FS())
	if err != nil {
		t.Fatal(err)
	}
	fig, faults := read.Figure([]byte(text), "dive.md", 1, scripts)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return fig
}
