package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

// TestMain also is the processes that the tests start: the simulated server, and
// a site that gets killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "embedded-server":
			_ = server.RunEmbedded(context.Background(), os.Stdin)
			os.Exit(0)
		case "hold-clusters":
			holdClusters()
		}
	}
	goleak.VerifyTestMain(m)
}

// scripts are what the tests call.
var scripts = map[string]string{
	"release.lua": "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
	"both.lua":    "return {redis.pcall('SET', KEYS[1], 'x'), 'y', 'z'}",
}

// lent is a fleet with the server beside which it runs.
type lent struct {
	*Fleet
	server *server.Server
}

func (l *lent) Close() error {
	l.Fleet.Close()
	return l.server.Close()
}

// needServer skips a test where there is no Valkey, unless there has to be one.
func needServer(t testing.TB) {
	t.Helper()
	for _, name := range []string{"valkey-server", "redis-server"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	if os.Getenv("CI") == "true" || os.Getenv("LOCKSTEP_REQUIRE") != "" {
		t.Fatal("there is no valkey-server on the PATH")
	}
	t.Skip("there is no valkey-server on the PATH")
}

// openSets opens a fleet with so many sets of each shape.
func openSets(t testing.TB, sets int, opt server.Options) *lent {
	t.Helper()
	if opt.Server != "embedded" {
		needServer(t)
	}
	opt.Scripts, opt.Log = scripts, slog.New(slog.NewTextHandler(testWriter{t}, nil))
	s, err := server.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	l := &lent{Open(s, sets), s}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.Fleet.Close)
	return l
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// lines makes commands of what one types.
func lines(t testing.TB, texts ...string) []sandbox.Command {
	t.Helper()
	var commands []sandbox.Command
	for _, text := range texts {
		args, err := sandbox.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, sandbox.Cmd(args...))
	}
	return commands
}

// eventually waits for something that takes its time.
func eventually(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(most)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", most, what)
		}
		time.Sleep(time.Millisecond)
	}
}

func signal(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// running tells whether a process is there, and no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	var id int
	var name string
	var state byte
	_, _ = fmt.Sscanf(string(stat), "%d %s %c", &id, &name, &state)
	return state != 'Z'
}
