package contained

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

// A cell is what a process needs to know to confine itself and become a server.
type cell struct {
	Exe     string   // what is executed
	Loader  string   // what executes that; empty for a static program
	Argv    []string // its command line
	Env     []string
	Read    []string // files that may be read, libraries above all
	Idle    bool     // it runs when nothing else wants to
	Dir     string   // the one directory in which it may bind a socket
	CPU     uint64   // seconds of processor time
	Memory  uint64   // bytes of address space
	Foreign []string // of a probe, which is no server: a file and a socket that are not to be reached
}

// An image is a server's program as the machine runs it, whatever starts it: a
// wrapper script and the loader called by name are seen through.
type image struct {
	exe, loader string
	argv, env   []string
	files       []string
	may         []string // the commands that scripts may call, of those that it knows
	spaces      bool     // it may have namespaces of its own
}

func (i *image) cell(dir string, cpu time.Duration) cell {
	return cell{
		Exe: i.exe, Loader: i.loader, Argv: i.argv, Env: i.env, Read: i.files, Dir: dir, Idle: true,
		CPU: max(1, uint64(cpu.Round(time.Second)/time.Second)), Memory: mostMemory,
	}
}

// resolve starts the server once without confinement, with no script on it, and
// reads from /proc what runs.
func (p *Pool) resolve() (*image, error) {
	path, err := server.Find(p.opt.Server)
	if err != nil {
		return nil, err
	}
	once, err := p.newProcess("plain")
	if err != nil {
		return nil, err
	}
	if err := once.spawn([]string{path, "-"}, false); err != nil {
		return nil, err
	}
	defer once.stop()
	// A wrapper that forks the server, and may have ended, leaves it in its group.
	defer func() { _ = syscall.Kill(-once.cmd.Process.Pid, syscall.SIGKILL) }()
	ctx, cancel := context.WithTimeout(p.life, startWait)
	defer cancel()
	wire, err := once.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it said: %q", path, err, once.said.String())
	}
	defer wire.Close()
	pid := once.cmd.Process.Pid
	if listens, err := peer(wire); err != nil || listens != pid {
		return nil, fmt.Errorf("%s starts the server as a process of its own, which can't be contained: it must exec it", path)
	}
	may, err := once.commands(wire)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	seen, err := inspect(pid)
	if err != nil {
		return nil, err
	}
	seen.may = may
	return seen, nil
}

// commands asks the server which commands it knows, and gives those of them that a
// reader's script may call. Emptying the database and listing its keys is for the
// sandbox alone.
func (p *process) commands(wire net.Conn) ([]string, error) {
	if _, err := ask(wire, "AUTH", p.loader.User, p.loader.Password); err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	reply, err := ask(wire, "COMMAND", "LIST")
	if err != nil {
		return nil, fmt.Errorf("which commands it knows: %w", err)
	}
	known, _ := reply.([]any)
	var may []string
	for _, command := range sandbox.ACLCommands() {
		if command != "keys" && command != "flushdb" && slices.Contains(known, any(command)) {
			may = append(may, "+"+command)
		}
	}
	return may, nil
}

// inspect reads what a process runs.
func inspect(pid int) (*image, error) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	exe, err := os.Readlink(proc + "exe")
	if err != nil {
		return nil, fmt.Errorf("which program the server is: %w", err)
	}
	i := &image{exe: exe}
	for name, into := range map[string]*[]string{"cmdline": &i.argv, "environ": &i.env} {
		text, err := os.ReadFile(proc + name)
		if err != nil {
			return nil, fmt.Errorf("how the server was started: %w", err)
		}
		*into = slices.DeleteFunc(strings.Split(string(text), "\x00"), func(s string) bool { return s == "" })
	}
	i.env = slices.DeleteFunc(i.env, func(s string) bool { return strings.HasPrefix(s, "GOGC=") })
	if len(i.argv) == 0 {
		return nil, errors.New("the server hides how it was started")
	}
	maps, err := os.ReadFile(proc + "maps")
	if err != nil {
		return nil, fmt.Errorf("which libraries the server has: %w", err)
	}
	i.files = []string{exe, "/etc/ld.so.cache", "/dev/urandom"}
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			if file := strings.TrimSpace(line[at:]); !slices.Contains(i.files, file) {
				i.files = append(i.files, file)
			}
		}
	}
	i.loader, err = loaderOf(exe)
	return i, err
}

// loaderOf gives the program that a program names as its loader.
func loaderOf(exe string) (string, error) {
	file, err := elf.Open(exe)
	if err != nil {
		return "", fmt.Errorf("the server's program: %w", err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			name := make([]byte, part.Filesz)
			if _, err := part.ReadAt(name, 0); err != nil {
				return "", fmt.Errorf("the server's program: %w", err)
			}
			return strings.TrimRight(string(name), "\x00"), nil
		}
	}
	return "", nil
}

// test finds out what to start, and whether confinement holds: a probe takes the
// server's place and tries what must be denied.
func (p *Pool) test() error {
	var err error
	if p.image, err = p.resolve(); err != nil {
		return err
	}
	for _, p.image.spaces = range []bool{true, false} {
		if err = p.probe(); !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOSYS) {
			break // namespaces are not allowed everywhere, and an extra
		}
	}
	if err != nil {
		return err
	}
	first, err := p.start("test")
	if err != nil {
		return err
	}
	first.stop()
	return nil
}

// probe confines a process as a server is, and has it try to get out.
func (p *Pool) probe() error {
	probe, err := p.newProcess("probe")
	if err != nil {
		return err
	}
	c := p.image.cell(probe.dir, p.opt.CPU)
	c.Foreign = []string{"/proc/self/environ", "/etc/passwd", p.dir.Path}
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("describe the confinement: %w", err)
	}
	if err := probe.spawn(append(slices.Clone(p.opt.Command), string(text)), p.image.spaces); err != nil {
		return err
	}
	defer probe.stop()
	timer := time.NewTimer(startWait)
	defer timer.Stop()
	select {
	case <-probe.gone:
	case <-timer.C:
		return errors.New("the test of the confinement took too long")
	case <-p.life.Done():
		return p.life.Err()
	}
	var failed *exec.ExitError
	if !probe.cmd.ProcessState.Success() {
		failed = &exec.ExitError{ProcessState: probe.cmd.ProcessState}
		return fmt.Errorf("the confinement does not hold: %s (%w)", strings.TrimSpace(probe.said.String()), failed)
	}
	return nil
}
