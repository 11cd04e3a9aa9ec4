package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstep/sandbox"
)

// dirPrefix begins the names of the private directories, so that those of dead
// processes can be found and swept.
const dirPrefix = "lockstep-"

// starter says how the server is come by.
func (s *Server) starter() (func(context.Context) (*Process, error), error) {
	if s.opt.URL != "" {
		return s.external()
	}
	if s.opt.Server == "embedded" {
		return s.child(sandbox.Embedded, s.opt.EmbeddedCommand)
	}
	path, err := Find(s.opt.Server)
	switch {
	case err == nil:
		return s.child(sandbox.Managed, []string{path})
	case s.opt.Server != "" || len(s.opt.EmbeddedCommand) == 0:
		return nil, err
	}
	return s.child(sandbox.Embedded, s.opt.EmbeddedCommand)
}

// Find gives the path of the server to start: the one named, or else valkey-server
// or a redis-server that is recent enough, from the PATH.
func Find(name string) (string, error) {
	if name != "" {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path) // it is started in another directory
		}
		if err != nil {
			return "", fmt.Errorf("the server to start: %w", err)
		}
		return path, nil
	}
	if path, err := exec.LookPath("valkey-server"); err == nil {
		return path, nil
	}
	if path, err := exec.LookPath("redis-server"); err == nil && recentRedis(path) {
		return path, nil
	}
	return "", errors.New("there is no valkey-server, nor redis-server 7 or newer, on the PATH")
}

// recentRedis tells whether a redis-server is 7.0 or newer.
func recentRedis(path string) bool {
	said, err := exec.Command(path, "--version").Output()
	if err != nil {
		return false
	}
	for _, word := range strings.Fields(string(said)) { // "Redis server v=7.0.15 sha=…"
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return !older(version, "7.0")
		}
	}
	return false
}

// child starts a server as a process of ours, on a unix socket in a private
// directory.
func (s *Server) child(mode sandbox.Mode, argv []string) (func(context.Context) (*Process, error), error) {
	if len(argv) == 0 {
		return nil, errors.New("the simulated server needs a command to start it")
	}
	dir, err := OpenPrivateDir()
	if err != nil {
		return nil, err
	}
	s.cleanUp = dir.Remove
	if mode == sandbox.Managed {
		s.dir, s.argv = dir.Path, argv
	}
	count := 0
	return func(ctx context.Context) (*Process, error) {
		count++
		return s.startChild(ctx, mode, argv, dir.Path, filepath.Join(dir.Path, fmt.Sprint("s", count)))
	}, nil
}

// startChild starts one process and waits until it is ready. It runs on a thread
// that lives as long as the server is kept: see keeper.run.
func (s *Server) startChild(ctx context.Context, mode sandbox.Mode, argv []string, dir, socket string) (*Process, error) {
	inst := s.newChild(socket)
	count := 1 + s.opt.slots + s.opt.explorations*lanes
	config := serverConfig(socket, dir, inst.root, count)
	if mode == sandbox.Embedded {
		config = embeddedConfig(socket, inst.Runner, inst.root, inst.Lender)
		inst.Flush = []any{"FLUSHDB"}
	}
	if err := inst.spawn(mode, argv, dir, config); err != nil {
		return nil, err
	}
	if err := inst.settle(ctx, mode); err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	for n := 1; n < count; n++ {
		inst.facts.databases = append(inst.facts.databases, n)
	}
	return inst, nil
}

// newChild is a server that is yet to be started, on a socket.
func (s *Server) newChild(socket string) *Process {
	return &Process{
		root: sandbox.Login{User: "admin", Password: rand.Text()},
		Access: sandbox.Access{
			Network: "unix", Addr: socket,
			Lender: sandbox.Login{User: "lender", Password: rand.Text()}, Runner: sandbox.Login{User: "runner", Password: rand.Text()},
			Scripts: &s.scripts, Answer: s.opt.Answer, ReplyBytes: s.opt.replyBytes,
			Flush: []any{"FLUSHDB", "SYNC"}, // a fourth of what the default costs, which frees in another thread
		},
	}
}

// Dir is the private directory of the server's process; empty where it has none
// that could have others beside it.
func (s *Server) Dir() string { return s.dir }

// Settings are the options with what was left out filled in.
func (s *Server) Settings() Options { return s.opt }

// Beside starts one more process of the server's own kind, one of several: in a
// directory of its own, with more configuration, on the thread that on runs
// things on. The process dies with that thread.
func (s *Server) Beside(ctx context.Context, dir, config string, on func(func() error) error) (*Process, error) {
	inst := s.newChild(filepath.Join(dir, "s"))
	inst.Node = true
	config = serverConfig(inst.Addr, dir, inst.root, 1) + config
	err := on(func() error { return inst.spawn(sandbox.Managed, s.argv, dir, config) })
	if err == nil {
		err = inst.settle(ctx, sandbox.Managed)
	}
	return inst, err
}

// spawn starts the process and hands it its configuration. The process dies with
// the thread that this runs on.
func (inst *Process) spawn(mode sandbox.Mode, argv []string, dir, config string) error {
	args := argv[1:]
	if mode == sandbox.Managed {
		args = append(slices.Clone(args), "-")
	}
	cmd := exec.Command(argv[0], args...)
	cmd.Dir = dir
	cmd.Env = []string{"LC_ALL=C"} // the site's environment is none of its business
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	output := &tail{most: 4 << 10}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", argv[0], err)
	}
	if mode == sandbox.Managed { // a Go process needs address space that it never uses
		bound(cmd.Process.Pid)
	}
	_, err = io.WriteString(stdin, config)
	if mode == sandbox.Managed {
		_ = stdin.Close() // the simulated server lives as long as it is open
	}
	gone := make(chan struct{})
	go func() { // the one that waits for it
		_ = cmd.Wait()
		close(gone)
	}()
	inst.Gone, inst.said = gone, output
	inst.Admin, inst.pulse = inst.Client(inst.root), inst.Client(inst.root)
	inst.Kill = func() { _ = cmd.Process.Kill() }
	inst.Stop = func() {
		inst.Kill()
		<-gone
		_ = stdin.Close()
		_ = inst.Admin.Close()
		_ = inst.pulse.Close()
		_ = os.Remove(inst.Addr)
	}
	if err != nil {
		inst.Stop()
		return fmt.Errorf("start %s: %w", argv[0], inst.lastWords(err))
	}
	return nil
}

// settle waits until a process that was started is ready for runs. One that
// isn't in time is stopped.
func (inst *Process) settle(ctx context.Context, mode sandbox.Mode) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	err := inst.ready(ctx)
	if err == nil {
		if mode == sandbox.Embedded {
			err = inst.prepareEmbedded(ctx)
		} else {
			err = inst.prepare(ctx, mode)
		}
	}
	if err != nil {
		inst.Stop()
		return inst.lastWords(err)
	}
	return nil
}

// lastWords adds what the process said to the reason why it is no good.
func (inst *Process) lastWords(err error) error {
	if said := inst.said.String(); said != "" {
		return fmt.Errorf("%w; it said: %s", err, said)
	}
	return err
}

// serverConfig is what the child reads from its standard input: passwords don't
// belong on a command line, which everybody can read. Nothing is kept on disk,
// memory is bounded, and there is no way in but the socket and the three users.
func serverConfig(socket, dir string, admin sandbox.Login, databases int) string {
	sum := sha256.Sum256([]byte(admin.Password))
	return strings.Join([]string{
		"port 0",
		"unixsocket " + socket,
		"unixsocketperm 700",
		"dir " + dir,
		"daemonize no",
		`save ""`,
		"appendonly no",
		fmt.Sprint("databases ", databases),
		"io-threads 1",
		"maxclients 4000",
		"maxmemory 64mb",
		"maxmemory-policy noeviction",
		"busy-reply-threshold 100",
		"proto-max-bulk-len 1mb",
		"client-query-buffer-limit 4mb",
		"client-output-buffer-limit normal 64mb 16mb 5",
		"crash-log-enabled no",
		"crash-memcheck-enabled no",
		"enable-debug-command no",
		"enable-module-command no",
		"loglevel warning",
		`logfile ""`,
		"latency-tracking no",
		"user admin reset on #" + hex.EncodeToString(sum[:]) + " ~* &* +@all",
		"user default off",
		"",
	}, "\n")
}

// ready waits until the server takes connections.
func (inst *Process) ready(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, inst.Network, inst.Addr)
		if err == nil {
			_ = conn.Close()
			return nil
		}
		select {
		case <-tick.C:
		case <-inst.Gone:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it took no connection in %v: %w", startWait, err)
		}
	}
}

// A tail keeps the last of what a process says.
type tail struct {
	mu   sync.Mutex
	most int
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - t.most; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// A PrivateDir holds the sockets of one process's servers. A lock on a file in
// it, which ends with the process however it dies, tells it from a stale one.
type PrivateDir struct {
	Path string
	lock *os.File
}

// OpenPrivateDir makes a directory and sweeps those that dead processes left.
func OpenPrivateDir() (*PrivateDir, error) {
	sweep()
	// It gets its final name only once it is locked: another process that sweeps
	// must not see it without.
	path, err := os.MkdirTemp("", "."+dirPrefix)
	if err != nil {
		return nil, fmt.Errorf("a directory for the server: %w", err)
	}
	fail := func(err error) (*PrivateDir, error) {
		_ = os.RemoveAll(path)
		return nil, fmt.Errorf("a directory for the server: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fail(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return fail(err)
	}
	final := filepath.Join(filepath.Dir(path), strings.TrimPrefix(filepath.Base(path), "."))
	if err := os.Rename(path, final); err != nil {
		_ = lock.Close()
		return fail(err)
	}
	// Unix sockets have short names; fail here rather than in the server.
	if len(final)+len("/s99999") > 100 {
		_ = lock.Close()
		path = final
		return fail(fmt.Errorf("the name %s is too long for a socket; set TMPDIR to a shorter one", final))
	}
	return &PrivateDir{Path: final, lock: lock}, nil
}

// Remove removes the directory with all that is in it.
func (d *PrivateDir) Remove() {
	_ = os.RemoveAll(d.Path)
	_ = d.lock.Close()
}

// sweep removes the directories whose process is dead. Those of other users
// can't be locked, and stay.
func sweep() {
	stale, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, path := range stale {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}
