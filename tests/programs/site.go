package programs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// built is the program, built when a test of the package first needs it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lockstep-test-")
	if err != nil {
		return "", err
	}
	AtEnd(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "site")
	if out, err := exec.Command("go", "build", "-o", path, "lockstep/cmd/site").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// Site is the program, ready to be started; none of its settings come from the
// environment, and its server stands on the PATH, as that of other tests does.
func Site(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "LOCKSTEP_") {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+t.TempDir())
	return cmd
}

// A Process is the program while it serves.
type Process struct {
	URL string

	cmd    *exec.Cmd
	log    *lockedBuffer
	exited chan struct{}
}

var urlInLog = regexp.MustCompile(`url=(http://\S+)`)

// Serve starts the program on a port of its own and waits until it serves.
func Serve(t testing.TB, args ...string) *Process {
	t.Helper()
	p := &Process{
		cmd: Site(t, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...),
		log: &lockedBuffer{}, exited: make(chan struct{}),
	}
	read, write := io.Pipe()
	p.cmd.Stderr = io.MultiWriter(p.log, write)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	urls := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			if m := urlInLog.FindStringSubmatch(lines.Text()); m != nil {
				urls <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, read)
	}()
	go func() {
		_ = p.cmd.Wait()
		_ = write.Close()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Signal(t, syscall.SIGKILL)
		<-p.exited
		if t.Failed() {
			t.Logf("it said:\n%s", p.log)
		}
	})
	select {
	case p.URL = <-urls:
	case <-p.exited:
		t.Fatalf("it ended at once:\n%s", p.log)
	case <-time.After(time.Minute):
		t.Fatalf("it doesn't serve:\n%s", p.log)
	}
	return p
}

// Signal sends a signal to the process, unless it has ended.
func (p *Process) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// End waits for the process to exit, and gives its code.
func (p *Process) End(t testing.TB, most time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(most):
		t.Fatalf("it still runs after %v", most)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Peak is the most memory that the process has had at once, as the system counts
// it, in bytes. Where there is no /proc the test is skipped.
func (p *Process) Peak(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip("there is no /proc here")
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Skip("this system doesn't tell")
	}
	kB, _ := strconv.Atoi(string(m[1]))
	return kB << 10
}

// Server is the process of the server that the site has started.
func (p *Process) Server(t testing.TB) (pid int) {
	t.Helper()
	return Server(t, p.cmd.Process.Pid)
}

// Sockets is how many the process holds open; 0 where there is no /proc.
func (p *Process) Sockets() int { return Sockets(p.cmd.Process.Pid) }

// Server is the one server that a process has started, others aside.
func Server(t testing.TB, parent int, others ...int) (pid int) {
	t.Helper()
	found := slices.DeleteFunc(Servers(t, parent), func(pid int) bool { return slices.Contains(others, pid) })
	if len(found) != 1 {
		t.Fatalf("%d servers have come: %v", len(found), found)
	}
	return found[0]
}

// Servers are the servers that a process has started and that still run. Where
// there is no /proc a test that needs them is skipped.
func Servers(t testing.TB, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		t.Skip("there is no /proc here")
	}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid …
		open, shut := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text[shut+1:]))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text[:open])))
		name := string(text[open+1 : shut])
		if ppid, _ := strconv.Atoi(fields[1]); ppid == parent && fields[0] != "Z" && strings.HasSuffix(name, "-server") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Sockets is how many a process holds open; 0 where there is no /proc.
func Sockets(pid int) (n int) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// Gone tells whether a process has ended.
func Gone(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// lockedBuffer is a buffer that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
