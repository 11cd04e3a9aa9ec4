package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockstep/sandbox"
)

// TestServerKilled kills the server while runs are under way. Each ends in an
// answer or in ErrDown, and soon the sandbox works again.
func TestServerKilled(t *testing.T) {
	s := open(t, Options{Answer: 10 * time.Second})
	do(t, s, "GET a")
	var wg sync.WaitGroup
	under := make(chan struct{}, 100)
	for i := range 50 {
		wg.Go(func() {
			defer func() { under <- struct{}{} }()
			err := s.Use(t.Context(), func(db *sandbox.DB) error {
				conn, err := db.Conn(t.Context())
				if err != nil {
					return err
				}
				if _, err := db.Do(t.Context(), lines(t, "SET a 1")); err != nil {
					return err
				}
				under <- struct{}{}
				if i%2 == 0 {
					_, err = conn.Do(t.Context(), lines(t, "BLPOP none 0"))
					return err
				}
				for {
					if _, err := db.Do(t.Context(), lines(t, "INCR n", "EVAL release.lua 1 a 2")); err != nil {
						return err
					}
				}
			})
			if !errors.Is(err, sandbox.ErrDown) {
				t.Errorf("run %d: %v, want ErrDown", i, err)
			}
		})
	}
	for range 50 {
		<-under
	}
	signal(t, serverPID(t, s), syscall.SIGKILL)
	begun := time.Now()
	wg.Wait()
	if took := time.Since(begun); took > time.Second {
		t.Errorf("the runs ended %v after the server", took)
	}
	works(t, s, 2*time.Second)
	t.Logf("usable %v after the kill", time.Since(begun))
	if got := do(t, s, "SET lock me", "EVAL release.lua 1 lock me"); got[1] != int64(1) {
		t.Errorf("scripts after the restart: %v", got)
	}
	// Again and again: each time it comes back.
	for range 3 {
		signal(t, serverPID(t, s), syscall.SIGKILL)
		eventually(t, 5*time.Second, "a new server", func() bool {
			inst, _ := s.keeper.current()
			return inst != nil && inst.Admin.Ping(t.Context()).Err() == nil
		})
		works(t, s, 2*time.Second)
	}
}

// TestServerKilledIdle kills the server while nobody looks: the next run waits for
// the new one rather than fail on the old connection.
func TestServerKilledIdle(t *testing.T) {
	s := open(t, Options{Wait: 5 * time.Second})
	do(t, s, "GET a")
	for range 3 {
		pid := serverPID(t, s)
		signal(t, pid, syscall.SIGKILL)
		eventually(t, 5*time.Second, "the process ends", func() bool { return !running(pid) })
		do(t, s, "GET a", "SET a 1")
	}
}

// TestServerHangs stops the server without ending it.
func TestServerHangs(t *testing.T) {
	s := open(t, Options{Answer: 300 * time.Millisecond})
	do(t, s, "GET a")
	pid := serverPID(t, s)
	signal(t, pid, syscall.SIGSTOP)
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		_, err := db.Do(t.Context(), lines(t, "GET a"))
		return err
	})
	if !errors.Is(err, sandbox.ErrLate) {
		t.Errorf("while it hangs: %v, want ErrLate", err)
	}
	eventually(t, 10*time.Second, "the hung server is killed", func() bool { return !running(pid) })
	works(t, s, 2*time.Second)
}

// TestEndlessScript has a script that loops: it is stopped and only its own run
// fails.
func TestEndlessScript(t *testing.T) {
	s := open(t, Options{Answer: 5 * time.Second, Wait: time.Second})
	do(t, s, "GET a")
	for _, name := range []string{"loop.lua", "stubborn.lua"} {
		t.Run(name, func(t *testing.T) {
			pid := serverPID(t, s)
			var wg sync.WaitGroup
			begun := time.Now()
			wg.Go(func() {
				err := s.Use(t.Context(), func(db *sandbox.DB) error {
					_, err := db.Do(t.Context(), lines(t, "EVAL "+name+" 0"))
					return err
				})
				if !errors.Is(err, sandbox.ErrLate) && !errors.Is(err, sandbox.ErrDown) {
					t.Errorf("the run that loops: %v", err)
				}
				t.Logf("it ended after %v: %v", time.Since(begun), err)
			})
			for range 20 {
				wg.Go(func() {
					err := s.Use(t.Context(), func(db *sandbox.DB) error {
						got, err := db.Do(t.Context(), lines(t, "SET lock me", "EVAL release.lua 1 lock me"))
						if err == nil && (got[0] != "OK" || got[1] != int64(1)) {
							t.Errorf("a neighbour saw %v", got)
						}
						return err
					})
					if err != nil && !errors.Is(err, sandbox.ErrBusy) && !errors.Is(err, sandbox.ErrDown) {
						t.Errorf("a neighbour: %v", err)
					}
					if err != nil && name == "loop.lua" {
						t.Errorf("a neighbour of a script that can be stopped: %v", err)
					}
				})
			}
			wg.Wait()
			works(t, s, 3*time.Second)
			if name == "loop.lua" && serverPID(t, s) != pid {
				t.Error("the server was restarted; stopping the script would have done")
			}
		})
	}
}

// TestMemory has a script that fills memory.
func TestMemory(t *testing.T) {
	s := open(t, Options{Answer: 10 * time.Second, Scripts: map[string]string{
		"fill.lua":  "local t = {} for i = 1, 1e9 do t[i] = {i} end",
		"write.lua": "for i = 1, 1e9 do redis.call('SET', 'k' .. i, string.rep('x', 10000)) end",
	}})
	for _, name := range []string{"fill.lua", "write.lua"} {
		err := s.Use(t.Context(), func(db *sandbox.DB) error {
			got, err := db.Do(t.Context(), lines(t, "EVAL "+name+" 0"))
			if err == nil {
				if _, ok := got[0].(sandbox.Error); !ok {
					t.Errorf("%s = %v", name, got[0])
				}
			}
			return err
		})
		t.Log(name, err)
		if err != nil && !errors.Is(err, sandbox.ErrDown) && !errors.Is(err, sandbox.ErrLate) {
			t.Errorf("%s: %v", name, err)
		}
		works(t, s, 5*time.Second)
	}
}

// TestMemoryLeftBehind has runs that leave a lot in their databases, more together
// than the server may hold.
func TestMemoryLeftBehind(t *testing.T) {
	s := open(t, Options{slots: 16, Answer: 5 * time.Second, Scripts: map[string]string{
		"write.lua": "local v = string.rep('x', 10000) for i = 1, 1000 do redis.call('SET', 'k' .. i, v) end return 1",
	}})
	for i := range 12 {
		got := do(t, s, "SET a 1", "EVAL write.lua 0")
		if got[0] != "OK" || got[1] != int64(1) {
			t.Fatalf("run %d: %v", i, got)
		}
	}
}

// TestNoOrphan kills a site with -9: its server ends with it, and the next site
// sweeps what it left.
func TestNoOrphan(t *testing.T) {
	needServer(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	site := exec.Command(os.Args[0], "hold-a-sandbox")
	out, err := site.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := site.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var socket string
	text, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscanf(text, "ready %d %s", &pid, &socket); scanErr != nil {
		t.Fatalf("the site said %q, %v", text, err)
	}
	if !running(pid) {
		t.Fatalf("its server %d does not run", pid)
	}
	signal(t, site.Process.Pid, syscall.SIGKILL)
	_ = site.Wait()
	eventually(t, 2*time.Second, "its server ends", func() bool { return !running(pid) })
	if _, err := os.Stat(filepath.Dir(socket)); err != nil {
		t.Fatalf("nothing was left to sweep: %v", err)
	}
	s, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(socket)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a dead site was not swept: %v", err)
	}
	left := func() int {
		t.Helper()
		dirs, err := filepath.Glob(filepath.Join(tmp, "*lockstep-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(dirs)
	}
	if n := left(); n != 1 {
		t.Errorf("%d directories while a site runs, want 1", n)
	}
	// A second site leaves the first one's alone.
	other, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, "GET a")
	do(t, other, "GET a")
	for _, s := range []*Server{s, other} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := left(); n != 0 {
		t.Errorf("%d directories are left, want none", n)
	}
}

func TestPrivate(t *testing.T) {
	s := open(t, Options{})
	inst, err := s.keeper.current()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Dir(inst.Addr))
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); perm != 0o700 {
		t.Errorf("the directory's mode is %o", perm)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", serverPID(t, s)))
	if err == nil && strings.Contains(string(line), inst.Runner.Password) {
		t.Error("a password stands on the command line")
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", serverPID(t, s)))
	if err == nil && strings.Contains(string(environ), "PATH=") {
		t.Errorf("the server has the site's environment: %q", environ)
	}
}

func TestServerByRelativePath(t *testing.T) {
	path := needServer(t)
	t.Chdir(filepath.Dir(path))
	open(t, Options{Server: "./" + filepath.Base(path)})
}

func TestNoServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "PATH") {
		t.Errorf("no server: %v", err)
	}
	if _, err := Open(t.Context(), Options{Server: "/nonexistent/valkey-server"}); err == nil {
		t.Error("a path that is not there was accepted")
	}
	if _, err := Open(t.Context(), Options{Server: "embedded"}); err == nil || !strings.Contains(err.Error(), "needs a command to start it") {
		t.Errorf("embedded without a command: %v", err)
	}
	if _, err := Open(t.Context(), Options{Server: "/bin/false"}); err == nil || !strings.Contains(err.Error(), "/bin/false") {
		t.Errorf("a program that is no server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{Server: "/bin/cat"}); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
}
