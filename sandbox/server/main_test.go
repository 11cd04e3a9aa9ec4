package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockstep/sandbox"
)

// TestMain also is the processes that the tests start: the simulated server, and
// a site that gets killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "embedded-server":
			if err := RunEmbedded(context.Background(), os.Stdin); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "hold-a-sandbox":
			holdASandbox()
		}
	}
	goleak.VerifyTestMain(m)
}

// holdASandbox opens a sandbox, says which process is its server, and waits to be
// killed.
func holdASandbox() {
	s, err := Open(context.Background(), Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	inst, err := s.keeper.current()
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	info, err := inst.Admin.Info(context.Background(), "server").Result()
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("ready", InfoField(info, "process_id"), inst.Addr)
	select {}
}

// scripts are what the tests call.
var scripts = map[string]string{
	"release.lua":  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
	"loop.lua":     "while true do end",
	"stubborn.lua": "redis.call('SET', 'written', 'yes') while true do end",
	"call.lua":     "return redis.call(unpack(ARGV))",
	"fail.lua":     "return redis.error_reply('EMQSTALE token mismatch')",
	"many.lua":     "for i = 1, 5 do redis.call('SET', KEYS[1], i) end return 5",
	"long.lua":     "return string.rep('x', tonumber(ARGV[1]))",
	"both.lua":     "return {redis.pcall('SET', KEYS[1], 'x'), 'y', 'z'}",
}

// needServer skips a test where there is no Valkey, unless there has to be one.
func needServer(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" || os.Getenv("LOCKSTEP_REQUIRE") != "" {
		t.Fatal("there is no valkey-server on the PATH")
	}
	t.Skip("there is no valkey-server on the PATH")
	return ""
}

// open opens a sandbox on a real server for the test.
func open(t testing.TB, opt Options) *Server {
	t.Helper()
	if opt.URL == "" && opt.Server != "embedded" {
		needServer(t)
	}
	if opt.Scripts == nil {
		opt.Scripts = scripts
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	}
	s, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// forbidden tells whether a server's error says that a script may not do
// something. Redis 7.0 says so in other words than Valkey.
func forbidden(said string) bool {
	return strings.Contains(said, "ACL failure in script") || strings.Contains(said, "The user executing the script can't run") || strings.Contains(said, "not allowed from script")
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// line makes a command of what one types.
func line(t testing.TB, text string) sandbox.Command {
	t.Helper()
	args, err := sandbox.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Cmd(args...)
}

func lines(t testing.TB, texts ...string) []sandbox.Command {
	t.Helper()
	var commands []sandbox.Command
	for _, text := range texts {
		commands = append(commands, line(t, text))
	}
	return commands
}

// do sends lines in an empty database.
func do(t testing.TB, s *Server, texts ...string) []sandbox.Value {
	t.Helper()
	var values []sandbox.Value
	err := s.Use(t.Context(), func(db *sandbox.DB) (err error) {
		values, err = db.Do(t.Context(), lines(t, texts...))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
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

// works waits until the sandbox can be used again.
func works(t testing.TB, s *Server, most time.Duration) {
	t.Helper()
	var last error
	deadline := time.Now().Add(most)
	for time.Now().Before(deadline) {
		last = s.Use(t.Context(), func(db *sandbox.DB) error {
			values, err := db.Do(t.Context(), lines(t, "GET k", "SET k v"))
			if err == nil && values[0] != nil {
				t.Errorf("GET k = %v in an empty database", values[0])
			}
			return err
		})
		if last == nil {
			return
		}
		if !errors.Is(last, sandbox.ErrDown) && !errors.Is(last, sandbox.ErrBusy) && !errors.Is(last, sandbox.ErrLate) {
			t.Fatalf("an error of no kind: %v", last)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("not usable within %v: %v", most, last)
}

// serverPID asks the server for its process.
func serverPID(t testing.TB, s *Server) int {
	t.Helper()
	inst, err := s.keeper.current()
	if err != nil {
		t.Fatal(err)
	}
	info, err := inst.Admin.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(InfoField(info, "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
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
