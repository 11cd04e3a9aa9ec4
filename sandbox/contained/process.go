package contained

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/sandbox"
)

// startWait is how long a server may take until it is ready, on a busy machine.
const startWait = 20 * time.Second

// mostMemory is how much address space a server has: 61 MB are taken at rest.
const mostMemory = 128 << 20

// A process is one contained server, for one use.
type process struct {
	cmd    *exec.Cmd
	dir    string
	socket string
	limits Options
	said   *bytes.Buffer // by the confining process, should it fail
	gone   chan struct{} // closed once it has ended and has been waited for
	idle   time.Duration // processor time that its start took

	loader, keeper, reader sandbox.Login     // may load scripts; may empty and look; may run scripts
	may                    []string          // what scripts may call, in the ACL's words
	names                  map[string]string // of the scripts, by SHA1

	mu      sync.Mutex
	trouble *sandbox.Trouble
}

// configuration is what the server reads from its standard input. There is no admin:
// nobody on it may change it. A connection that has not logged in may do nothing but
// select the one database.
func (p *process) configuration() string {
	user := func(login sandbox.Login, may ...string) string {
		sum := sha256.Sum256([]byte(login.Password))
		return "user " + login.User + " reset on #" + hex.EncodeToString(sum[:]) + " resetchannels -@all " + strings.Join(may, " ")
	}
	return strings.Join([]string{
		"port 0",
		"unixsocket " + p.socket,
		"unixsocketperm 700",
		"daemonize no",
		`save ""`,
		"appendonly no",
		"databases 1",
		"io-threads 1",
		"maxclients 32",
		"maxmemory 8mb",
		"maxmemory-policy noeviction",
		// Above any deadline: a script that runs too long is killed, not asked.
		"busy-reply-threshold 60000",
		"proto-max-bulk-len 1mb",
		"client-query-buffer-limit 1mb",
		"client-output-buffer-limit normal 1mb 1mb 0",
		"crash-log-enabled no",
		"crash-memcheck-enabled no",
		"enable-debug-command no",
		"enable-module-command no",
		"enable-protected-configs no",
		"loglevel warning",
		`logfile ""`,
		"slowlog-max-len 0",
		"latency-tracking no",
		"activerehashing no",
		"set-proc-title no",
		"disable-thp no",
		"tcp-backlog 16",
		"hz 1", // it may wait for long
		"user default reset on nopass resetkeys resetchannels -@all +select",
		user(p.loader, "+script|load", "+function|load", "+command|list"),
		user(p.keeper, "~*", "+@read", "+@write", "-@dangerous", "+keys", "+flushdb", "+fcall", "+time", "+type", "+pttl", "+pexpire"),
		user(p.reader, append([]string{"~*"}, p.may...)...),
		"",
	}, "\n")
}

// newProcess is a server that is yet to be started, in a directory of its own.
func (p *Pool) newProcess(name string) (*process, error) {
	dir := filepath.Join(p.dir.Path, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("a directory for a contained server: %w", err)
	}
	login := func(name string) sandbox.Login { return sandbox.Login{User: name, Password: rand.Text()} }
	return &process{
		dir: dir, socket: filepath.Join(dir, "s"), limits: p.opt, said: &bytes.Buffer{}, gone: make(chan struct{}),
		loader: login("loader"), keeper: login("keeper"), reader: login("reader"),
		names: map[string]string{},
	}, nil
}

// start starts one contained server and waits until it is ready.
func (p *Pool) start(name string) (*process, error) {
	next, err := p.newProcess(name)
	if err != nil {
		return nil, err
	}
	next.may = p.image.may
	cell := p.image.cell(next.dir, p.opt.CPU)
	cell.Idle = !p.opt.prompt
	text, err := json.Marshal(cell)
	if err != nil {
		return nil, fmt.Errorf("describe the confinement: %w", err)
	}
	if err := next.spawn(append(slices.Clone(p.opt.Command), string(text)), p.image.spaces); err != nil {
		return nil, err
	}
	if err := next.ready(p.life); err != nil {
		next.stop()
		return nil, fmt.Errorf("a contained server: %w; it said: %q", err, next.said.String())
	}
	return next, nil
}

// spawn starts the process, which dies with the thread that this runs on.
func (p *process) spawn(argv []string, spaces bool) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = []string{"LC_ALL=C", "GOGC=off"} // nothing of the site's; the confining process is over soon
	cmd.Stdin = strings.NewReader(p.configuration())
	said := &bounded{into: p.said, left: 4 << 10}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = attributes(spaces)
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(p.dir)
		return fmt.Errorf("start a contained server: %w", err)
	}
	p.cmd = cmd
	go func() { // the one that waits for it
		_ = cmd.Wait()
		close(p.gone)
	}()
	return nil
}

// ready waits until the server takes connections, and gives it the sandbox's own
// functions.
func (p *process) ready(life context.Context) error {
	ctx, cancel := context.WithTimeout(life, startWait)
	defer cancel()
	wire, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer wire.Close()
	deadline, _ := ctx.Deadline()
	_ = wire.SetDeadline(deadline)
	defer context.AfterFunc(life, func() { _ = wire.SetDeadline(time.Unix(1, 0)) })()
	if _, err := ask(wire, "AUTH", p.loader.User, p.loader.Password); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	if _, err := ask(wire, "FUNCTION", "LOAD", sandbox.Library()); err != nil {
		return fmt.Errorf("the sandbox's own functions: %w", err)
	}
	p.idle = spent(p.cmd.Process.Pid)
	return nil
}

// dial connects as soon as the server listens.
func (p *process) dial(ctx context.Context) (net.Conn, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		wire, err := d.DialContext(ctx, "unix", p.socket)
		if err == nil {
			return wire, nil
		}
		select {
		case <-tick.C:
		case <-p.gone:
			return nil, errors.New("it ended at once")
		case <-ctx.Done():
			return nil, sandbox.Ended(ctx)
		}
	}
}

// running tells whether the process hasn't ended.
func (p *process) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// stop kills the process and removes what it had.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	<-p.gone
	_ = os.RemoveAll(p.dir)
}

// use lends f the server's database, until the deadline, and stops the server.
func (p *process) use(ctx context.Context, scripts map[string]string, f func(*sandbox.DB) error) (*sandbox.Trouble, error) {
	defer p.stop()
	life, end := context.WithCancel(context.Background())
	defer end()
	kill := func() { _ = p.cmd.Process.Kill() }
	overdue := time.AfterFunc(p.limits.Deadline, kill)
	defer context.AfterFunc(ctx, kill)()

	err := p.load(ctx, scripts)
	if err == nil {
		err = p.lend(ctx, life, scripts, f)
	}
	late := !overdue.Stop()
	p.mu.Lock()
	trouble := p.trouble
	p.mu.Unlock()
	if err == nil {
		return trouble, nil
	}
	if late {
		<-p.gone // it has been killed
	}
	if trouble == nil && ctx.Err() == nil && p.dying() {
		trouble = p.ended(p.cmd.ProcessState, late)
	}
	switch {
	case ctx.Err() != nil:
		return nil, sandbox.Ended(ctx)
	case trouble != nil && trouble.Kind == sandbox.OfScript:
		return trouble, ignoring(err, trouble)
	case trouble != nil:
		return trouble, nil
	case late:
		return nil, fmt.Errorf("%w: the machine was too busy to tell within %v", sandbox.ErrLate, p.limits.Deadline)
	}
	return nil, err
}

// ignoring drops an error that is the trouble itself.
func ignoring(err error, trouble *sandbox.Trouble) error {
	var same *sandbox.Trouble
	if errors.As(err, &same) && same == trouble {
		return nil
	}
	return err
}

// dying waits a moment for the end of a process whose connection ended.
func (p *process) dying() bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-p.gone:
		return true
	case <-timer.C:
		return false
	}
}

// load hands the scripts to the server. One that doesn't compile is trouble.
func (p *process) load(ctx context.Context, scripts map[string]string) error {
	wire, err := p.dial(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrDown, err)
	}
	defer wire.Close()
	if _, err := ask(wire, "AUTH", p.loader.User, p.loader.Password); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrDown, err)
	}
	for name, source := range scripts {
		got, err := ask(wire, "SCRIPT", "LOAD", source)
		var refused refusal
		if errors.As(err, &refused) {
			t := fromScript(string(refused))
			if t == nil {
				t = &sandbox.Trouble{Kind: sandbox.OfScript, Text: strings.TrimPrefix(string(refused), "ERR ")}
			}
			t.Name = name
			p.keepTrouble(t)
			return t
		}
		if err != nil {
			p.note(err)
			return fmt.Errorf("%w: %w", sandbox.ErrDown, err)
		}
		if sha, ok := got.(string); ok {
			p.names[sha] = name
		}
	}
	return nil
}

// lend connects as a run does and lends f the database.
func (p *process) lend(ctx, life context.Context, scripts map[string]string, f func(*sandbox.DB) error) error {
	known := sandbox.Foreign(scripts)
	access := &sandbox.Access{
		Network: "unix", Addr: p.socket, Runner: p.reader, Scripts: &known,
		Flush: []any{"FLUSHDB", "SYNC"}, Answer: p.limits.Deadline + time.Second, ReplyBytes: mostTogether + 1<<20,
		Kill: func() { _ = p.cmd.Process.Kill() }, Speak: p.speak,
	}
	link, err := access.Dial(ctx, life, 0, false, false)
	if err != nil {
		return err
	}
	db := sandbox.NewDB(life, link, true, 0)
	defer func() {
		after, fit := db.End()
		if fit {
			link.Close()
		}
		access.Kill()
		for _, done := range after {
			<-done
		}
	}()
	return f(db)
}

// A bounded buffer drops what it has no room for.
type bounded struct {
	into *bytes.Buffer
	left int
}

func (b *bounded) Write(text []byte) (int, error) {
	n := min(len(text), b.left)
	b.left -= n
	b.into.Write(text[:n])
	return len(text), nil
}
