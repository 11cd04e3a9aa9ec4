package lockstep_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
)

// program builds cmd/site when a test first needs it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lockstep-test-")
	if err != nil {
		return "", err
	}
	ends = append(ends, func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "site")
	if out, err := exec.Command("go", "build", "-o", path, "./cmd/site").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// command is the program, ready to be started.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "LOCKSTEP_") {
			cmd.Env = append(cmd.Env, setting)
		}
	}
	return cmd
}

// A process is the program while it serves.
type process struct {
	cmd    *exec.Cmd
	url    string
	log    *lockedBuffer
	exited chan struct{}
}

var urlInLog = regexp.MustCompile(`url=(http://\S+)`)

// serve starts the program on a port of its own and waits until it serves.
func serve(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{
		cmd: command(t, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...),
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
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Logf("it said:\n%s", p.log)
		}
	})
	select {
	case p.url = <-urls:
	case <-p.exited:
		t.Fatalf("it ended at once:\n%s", p.log)
	case <-time.After(30 * time.Second):
		t.Fatalf("it doesn't serve:\n%s", p.log)
	}
	return p
}

// end waits for the process to exit.
func (p *process) end(t *testing.T, most time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(most):
		t.Fatalf("it still runs after %v", most)
	}
	return p.cmd.ProcessState.ExitCode()
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

const hub = "/redis-patterns/coordination/distributed-locking"

// TestProgram starts the program, asks it for a page and a run, and ends it as
// an operator does.
func TestProgram(t *testing.T) {
	need(t, "valkey-server")
	p := serve(t)
	server := onlyNew(t, nil, children(t, p.cmd.Process.Pid))
	if a := fetch(t, p.url+hub, asHTML); a.code != http.StatusOK || !strings.Contains(a.body, "<h1>") {
		t.Errorf("the hub answers %d", a.code)
	}
	if a := fetch(t, p.url+hub+"/figures/race/b", asJSON); !strings.Contains(a.body, `"status":"refused"`) || !strings.Contains(a.body, `"mode":"managed"`) {
		t.Errorf("a run answers %d %s", a.code, a.body)
	}
	// A run and an idle connection are under way.
	done := make(chan answer, 1)
	go func() {
		a, err := ask(http.DefaultClient, p.url+hub+"/figures/race/crash-without-px", asJSON)
		if err != nil {
			a.body = err.Error()
		}
		done <- a
	}()
	time.Sleep(20 * time.Millisecond)
	start := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, 2*time.Second); code != 0 {
		t.Errorf("SIGTERM: it exits with %d, want 0", code)
	}
	t.Logf("it ended %v after SIGTERM", time.Since(start).Round(time.Millisecond))
	if a := <-done; a.code != http.StatusOK && a.code != http.StatusServiceUnavailable {
		t.Errorf("the run under way answers %d %s", a.code, a.body)
	}
	eventually(t, 2*time.Second, "its server has ended", func() bool { return gone(server) })
}

// TestProgramKilled kills the program with -9: its server ends too, and the next
// start sweeps up what was left.
func TestProgramKilled(t *testing.T) {
	need(t, "valkey-server")
	p := serve(t)
	server := onlyNew(t, nil, children(t, p.cmd.Process.Pid))
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", server))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end(t, 2*time.Second)
	eventually(t, 2*time.Second, "its server has ended", func() bool { return gone(server) })
	again := serve(t)
	if a := fetch(t, again.url+hub+"/figures/race/a", asJSON); a.code != http.StatusOK {
		t.Errorf("a run answers %d %s", a.code, a.body)
	}
	eventually(t, 2*time.Second, dir+" is swept", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

// TestProgramSecondSignal ends the program at once, whatever is under way.
func TestProgramSecondSignal(t *testing.T) {
	need(t, "valkey-server")
	p := serve(t)
	for range 2 {
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil && err != os.ErrProcessDone {
			t.Fatal(err)
		}
	}
	p.end(t, time.Second)
}

// TestProgramSimulated serves from the embedded server, which is named on every
// page and verdict.
func TestProgramSimulated(t *testing.T) {
	p := serve(t, "--server", "embedded")
	for _, address := range []string{"/", hub, hub + "/set-nx-px", "/nope"} {
		a := fetch(t, p.url+address, asHTML)
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.Find(".badge").Text(); !strings.Contains(got, "simulated, not Valkey") {
			t.Errorf("%s: the badge says %q", address, got)
		}
		if strings.Contains(a.body, "live ·") {
			t.Errorf("%s says that something is live", address)
		}
	}
	a := fetch(t, p.url+hub+"/figures/race/b", asJSON)
	if !strings.Contains(a.body, `"mode":"embedded"`) || !strings.Contains(a.body, `"status":"refused"`) {
		t.Errorf("a run answers %d %s", a.code, a.body)
	}
	if a := fetch(t, p.url+hub+"/figures/race/b", asHTML); !strings.Contains(a.body, "simulated, not Valkey") || strings.Contains(a.body, "live ·") {
		t.Errorf("a verdict says %s", a.body)
	}
	if a := fetch(t, p.url+hub+"?run=race.b", asHTML); !strings.Contains(a.body, "simulated, not Valkey ·") {
		t.Errorf("a page with a verdict does not say that it is simulated")
	}
	// What it answers is what Valkey answers; where it knows that it can't, it
	// says so, and the page keeps the recorded verdict.
	simulated, recorded := 0, 0
	for _, v := range pathsOf(t, visit(t)) {
		if v.path.Explores() || v.pattern == nil {
			continue
		}
		a := fetch(t, runURL(p.url, v.page, v.fig, v.path), asJSON)
		if a.code == http.StatusNotImplemented {
			recorded++
			continue
		}
		simulated++
		if err := v.judge(a); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d paths simulated, %d recorded", simulated, recorded)
	if simulated < 10*recorded {
		t.Errorf("the simulated server answers %d paths, and %d it can't", simulated, recorded)
	}
}

// TestProgramWithoutServer finds no server at all and simulates one, also for
// paths that run every schedule.
func TestProgramWithoutServer(t *testing.T) {
	disk := folder{t, t.TempDir()}
	disk.save("course/chapter/module/lost.md", lostLock)
	cmd := command(t, "check", "--content", disk.root)
	cmd.Env = append(cmd.Env, "PATH="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "(embedded)") {
		t.Errorf("check: %v\n%s", err, out)
	}
}

// badCourse has faults on lines that the test knows.
func badCourse(t *testing.T) folder {
	disk := folder{t, t.TempDir()}
	disk.save("course/chapter/module/good.md", dive("A.1", "Good", "abc"))
	disk.save("course/chapter/module/bad.md", strings.NewReplacer(
		"    label: take it", "    lable: take it", // line 15
		"SET lock", "FLUSHALL lock", // line 17
	).Replace(dive("A.2", "Bad", "abc")))
	disk.save("course/chapter/module/worse.md", "---\nid: A.3\n---\n")
	return disk
}

// TestProgramRefuses starts on a course with faults: it doesn't, and names all
// of them.
func TestProgramRefuses(t *testing.T) {
	disk := badCourse(t)
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"check"}} {
		out, err := command(t, append(args, "--content", disk.root)...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
			t.Errorf("%s: %v, want exit code 1\n%s", args[0], err, out)
		}
		for _, want := range []string{
			`(?m)^course/chapter/module/bad\.md:15: unknown key "lable".*label`,
			`(?m)^course/chapter/module/bad\.md:17: .*FLUSHALL`,
			`(?m)^course/chapter/module/worse\.md:[0-9]+: .*title`,
		} {
			if !regexp.MustCompile(want).Match(out) {
				t.Errorf("%s does not say %s:\n%s", args[0], want, out)
			}
		}
	}
}

// TestProgramCheck finds recorded verdicts and sessions that the server
// contradicts.
func TestProgramCheck(t *testing.T) {
	need(t, "valkey-server")
	disk := folder{t, t.TempDir()}
	disk.save("course/chapter/module/one.md", dive("A.1", "One", "abc"))
	out, err := command(t, "check", "--content", disk.root).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 figures") && !strings.Contains(string(out), "1 figure") {
		t.Fatalf("check: %v\n%s", err, out)
	}
	wrong := strings.Replace(dive("A.1", "One", "abc"), "static: A holds abc.", "static: A holds nothing.", 1)
	wrong += "\n```session\n> SET k v\n(nil)\n```\n"
	disk.save("course/chapter/module/one.md", wrong)
	out, err = command(t, "check", "--content", disk.root).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Errorf("check: %v, want exit code 1", err)
	}
	for _, want := range []string{
		`(?m)^course/chapter/module/one\.md:14: path "take": static differs.*A holds abc\.`,
		`(?m)^course/chapter/module/one\.md:[0-9]+: the reply to SET k v .*OK`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("check does not say %s:\n%s", want, out)
		}
	}
}

// TestProgramSettings gives it settings that it can't take.
func TestProgramSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":        {[]string{"--nonsense"}, "nonsense"},
		"no such folder":         {[]string{"--content", "/does/not/exist"}, "/does/not/exist"},
		"a bad proxy":            {[]string{"serve", "--proxy", "10.0.0.0/99", "--addr", "127.0.0.1:0"}, "10.0.0.0/99"},
		"a bad address":          {[]string{"serve", "--addr", "nowhere:port"}, "listen"},
		"no such server":         {[]string{"serve", "--addr", "127.0.0.1:0", "--server", "/does/not/exist"}, "/does/not/exist"},
		"a URL of nothing":       {[]string{"serve", "--addr", "127.0.0.1:0", "--valkey", "http://x"}, "http"},
		"a server that is away":  {[]string{"serve", "--addr", "127.0.0.1:0", "--valkey", "redis://127.0.0.1:1"}, "127.0.0.1:1"},
		"a program, but no such": {[]string{"serve", "--addr", "127.0.0.1:0", "--server", "/bin/true"}, "/bin/true"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := command(t, tt.args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) || strings.Contains(string(out), "panic") || strings.Contains(string(out), "goroutine ") {
				t.Errorf("%v: %v\n%s", tt.args, err, out)
			}
		})
	}
}

// TestForgedAddress sends a new X-Forwarded-For with each request: nobody's
// limit is raised by that, unless a proxy that the operator has named sends it.
func TestForgedAddress(t *testing.T) {
	need(t, "valkey-server")
	limited := func(url string, forwarded func(i int) string) (n int) {
		for i := range 20 {
			req, err := http.NewRequest(http.MethodGet, url+hub+"/figures/race/b", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", asJSON)
			req.Header.Set("X-Forwarded-For", forwarded(i))
			req.Header.Set("X-Real-IP", forwarded(i))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusTooManyRequests:
				n++
				if resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"error":"You run figures faster`) {
					t.Errorf("429 %v %s", resp.Header, body)
				}
			case resp.StatusCode != http.StatusOK:
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		}
		return n
	}
	rotating := func(i int) string { return fmt.Sprintf("203.0.113.%d", i) }
	const slow = "0.001" // a burst of one, and then none for a long time
	direct := serve(t, "--rate", slow)
	if n := limited(direct.url, rotating); n != 19 {
		t.Errorf("with rotating headers %d of 20 runs were limited, want 19", n)
	}
	if a := fetch(t, direct.url+hub, asHTML); a.code != http.StatusOK {
		t.Errorf("a page answers %d while runs are limited", a.code)
	}
	if a := fetch(t, direct.url+hub+"?run=race.b", asHTML); a.code != http.StatusOK || !strings.Contains(a.body, "recorded · You run figures faster") {
		t.Errorf("a page with a run answers %d while runs are limited, without the recorded verdict", a.code)
	}
	behind := serve(t, "--rate", slow, "--proxy", "127.0.0.0/8")
	if n := limited(behind.url, rotating); n != 0 {
		t.Errorf("behind a proxy %d of 20 visitors were limited, want none", n)
	}
	if n := limited(behind.url, func(i int) string { return fmt.Sprintf("198.51.100.%d, 192.0.2.7", i) }); n != 19 {
		t.Errorf("behind a proxy one visitor with forged hops was limited %d times of 20, want 19", n)
	}
}
