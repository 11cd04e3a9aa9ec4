package process_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// soon is when something has happened, unless it never does.
const soon = 10 * time.Second

// TestProgramStops ends the program as an operator does, while it answers.
func TestProgramStops(t *testing.T) {
	t.Parallel()
	programs.Need(t, "valkey-server")
	p := programs.Serve(t)
	server := p.Server(t)
	before := p.Sockets()
	visitor := course.Client(t, 1)
	done := make(chan course.Answer, 1)
	go func() {
		a, err := course.Ask(visitor, p.URL+course.Hub+"/lease-renewal/figures/long-job/none", course.JSON)
		if err != nil {
			a.Body = err.Error()
		}
		done <- a
	}()
	// The visitor's connection, and those of the two actors and the one that samples.
	course.Eventually(t, time.Minute, "the run is under way", func() bool { return p.Sockets() >= before+4 })
	start := time.Now()
	p.Signal(t, syscall.SIGTERM)
	if code := p.End(t, soon); code != 0 {
		t.Errorf("SIGTERM: it exits with %d, want 0", code)
	}
	t.Logf("it ended %v after SIGTERM", time.Since(start).Round(time.Millisecond))
	if a := <-done; a.Code != http.StatusOK && a.Code != http.StatusServiceUnavailable {
		t.Errorf("the run under way answers %d %s", a.Code, a.Body)
	}
	course.Eventually(t, soon, "its server has ended", func() bool { return programs.Gone(server) })
}

// TestProgramKilled kills the program with -9: its server ends too, and the next
// start sweeps up what was left.
func TestProgramKilled(t *testing.T) {
	t.Parallel()
	programs.Need(t, "valkey-server")
	p := programs.Serve(t)
	server := p.Server(t)
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", server))
	if err != nil {
		t.Fatal(err)
	}
	p.Signal(t, syscall.SIGKILL)
	p.End(t, soon)
	course.Eventually(t, soon, "its server has ended", func() bool { return programs.Gone(server) })
	again := programs.Serve(t)
	if a := course.Fetch(t, again.URL+course.Hub+"/figures/race/a", course.JSON); a.Code != http.StatusOK {
		t.Errorf("a run answers %d %s", a.Code, a.Body)
	}
	course.Eventually(t, soon, dir+" is swept", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

// TestProgramSecondSignal ends the program at once, whatever is under way.
func TestProgramSecondSignal(t *testing.T) {
	t.Parallel()
	programs.Need(t, "valkey-server")
	p := programs.Serve(t)
	for range 2 {
		p.Signal(t, syscall.SIGINT)
	}
	p.End(t, soon)
}

// TestProgramSimulated serves from the embedded server, which is named on every
// page and verdict.
func TestProgramSimulated(t *testing.T) {
	t.Parallel()
	p := programs.Serve(t, "--server", "embedded")
	for _, address := range []string{"/", course.Hub, course.Hub + "/set-nx-px", "/nope"} {
		a := course.Fetch(t, p.URL+address, course.HTML)
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.Body))
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.Find(".badge").Text(); !strings.Contains(got, "simulated, not Valkey") {
			t.Errorf("%s: the badge says %q", address, got)
		}
		if strings.Contains(a.Body, "live ·") {
			t.Errorf("%s says that something is live", address)
		}
	}
	a := course.Fetch(t, p.URL+course.Hub+"/figures/race/b", course.JSON)
	if !strings.Contains(a.Body, `"mode":"embedded"`) || !strings.Contains(a.Body, `"status":"refused"`) {
		t.Errorf("a run answers %d %s", a.Code, a.Body)
	}
	if a := course.Fetch(t, p.URL+course.Hub+"/figures/race/b", course.HTML); !strings.Contains(a.Body, "simulated, not Valkey") || strings.Contains(a.Body, "live ·") {
		t.Errorf("a verdict says %s", a.Body)
	}
	if a := course.Fetch(t, p.URL+course.Hub+"?run=race.b", course.HTML); !strings.Contains(a.Body, "simulated, not Valkey ·") {
		t.Errorf("a page with a verdict does not say that it is simulated")
	}
	// What it answers is what Valkey answers; where it knows that it can't, it
	// says so, and the page keeps the recorded verdict.
	simulated, recorded := 0, 0
	for _, v := range course.Paths(t) {
		if v.Explores() || !v.Runs() {
			continue
		}
		a := course.Fetch(t, v.On(p.URL), course.JSON)
		if a.Code == http.StatusNotImplemented {
			recorded++
			continue
		}
		simulated++
		if err := v.Judge(a); err != nil {
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
	t.Parallel()
	disk := folder{t, t.TempDir()}
	disk.copy("lost.md")
	cmd := programs.Site(t, "check", "--content", disk.root)
	cmd.Env = append(cmd.Env, "PATH="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "(embedded)") {
		t.Errorf("check: %v\n%s", err, out)
	}
}

// TestProgramTakesTheCache has a server in the user's cache go before the one on
// the PATH.
func TestProgramTakesTheCache(t *testing.T) {
	t.Parallel()
	cache := folder{t, t.TempDir()}
	cache.save("lockstep/valkey/valkey-server", "#!/bin/sh\necho taken from the cache\nexit 1\n")
	if err := os.Chmod(filepath.Join(cache.root, "lockstep/valkey/valkey-server"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := programs.Site(t, "check")
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+cache.root)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "it said: taken from the cache") {
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
	t.Parallel()
	disk := badCourse(t)
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"check"}} {
		out, err := programs.Site(t, append(args, "--content", disk.root)...).CombinedOutput()
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
	t.Parallel()
	programs.Need(t, "valkey-server")
	disk := folder{t, t.TempDir()}
	disk.save("course/chapter/module/one.md", dive("A.1", "One", "abc"))
	out, err := programs.Site(t, "check", "--content", disk.root).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 figures") && !strings.Contains(string(out), "1 figure") {
		t.Fatalf("check: %v\n%s", err, out)
	}
	wrong := strings.Replace(dive("A.1", "One", "abc"), "static: A holds abc.", "static: A holds nothing.", 1)
	wrong += "\n```session\n> SET k v\n(nil)\n```\n"
	disk.save("course/chapter/module/one.md", wrong)
	out, err = programs.Site(t, "check", "--content", disk.root).CombinedOutput()
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
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":        {[]string{"--nonsense"}, "nonsense"},
		"no such folder":         {[]string{"--content", "/does/not/exist"}, "/does/not/exist"},
		"a bad proxy":            {[]string{"serve", "--proxy", "10.0.0.0/99", "--addr", "127.0.0.1:0"}, "10.0.0.0/99"},
		"a short key":            {[]string{"serve", "--key", "secret", "--addr", "127.0.0.1:0"}, "6 bytes"},
		"a bad address":          {[]string{"serve", "--addr", "nowhere:port"}, "listen"},
		"no such server":         {[]string{"serve", "--addr", "127.0.0.1:0", "--server", "/does/not/exist"}, "/does/not/exist"},
		"a URL of nothing":       {[]string{"serve", "--addr", "127.0.0.1:0", "--valkey", "http://x"}, "http"},
		"a server that is away":  {[]string{"serve", "--addr", "127.0.0.1:0", "--valkey", "redis://127.0.0.1:1"}, "127.0.0.1:1"},
		"a program, but no such": {[]string{"serve", "--addr", "127.0.0.1:0", "--server", "/bin/true"}, "/bin/true"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := programs.Site(t, tt.args...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) || strings.Contains(string(out), "panic") || strings.Contains(string(out), "goroutine ") {
				t.Errorf("%v: %v\n%s", tt.args, err, out)
			}
		})
	}
}

// TestForgedAddress sends a new X-Forwarded-For with each request: nobody's
// limit is raised by that, unless a proxy that the operator has named sends it.
func TestForgedAddress(t *testing.T) {
	t.Parallel()
	programs.Need(t, "valkey-server")
	limited := func(url string, forwarded func(i int) string) (n int) {
		for i := range 20 {
			req, err := http.NewRequest(http.MethodGet, url+course.Hub+"/figures/race/b", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", course.JSON)
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
				if resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"error":"Figures are run from your address faster`) {
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
	direct := programs.Serve(t, "--ceiling", slow)
	if n := limited(direct.URL, rotating); n != 19 {
		t.Errorf("with rotating headers %d of 20 runs were limited, want 19", n)
	}
	if a := course.Fetch(t, direct.URL+course.Hub, course.HTML); a.Code != http.StatusOK {
		t.Errorf("a page answers %d while runs are limited", a.Code)
	}
	if a := course.Fetch(t, direct.URL+course.Hub+"?run=race.b", course.HTML); a.Code != http.StatusOK || !strings.Contains(a.Body, "recorded · Figures are run from your address faster") {
		t.Errorf("a page with a run answers %d while runs are limited, without the recorded verdict", a.Code)
	}
	behind := programs.Serve(t, "--ceiling", slow, "--proxy", "127.0.0.0/8")
	if n := limited(behind.URL, rotating); n != 0 {
		t.Errorf("behind a proxy %d of 20 visitors were limited, want none", n)
	}
	if n := limited(behind.URL, func(i int) string { return fmt.Sprintf("198.51.100.%d, 192.0.2.7", i) }); n != 19 {
		t.Errorf("behind a proxy one visitor with forged hops was limited %d times of 20, want 19", n)
	}
}

// TestStreamsAtShutdown ends the program while readers follow as many runs as one core may
// have in real time.
func TestStreamsAtShutdown(t *testing.T) {
	t.Parallel()
	programs.Need(t, "valkey-server")
	const readers = 16
	disk := folder{t, t.TempDir()}
	disk.copy("slow.md")
	p := programs.Serve(t, "--proxy", "127.0.0.0/8", "--content", disk.root)
	server := p.Server(t)
	visitor := course.Client(t, readers)
	began := make(chan struct{}, readers)
	last := make([]string, readers)
	var all sync.WaitGroup
	for i := range readers {
		all.Go(func() {
			begin := sync.OnceFunc(func() { began <- struct{}{} })
			defer begin()
			req, err := http.NewRequest(http.MethodGet, p.URL+"/course/chapter/module/slow/figures/slow/run", nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Accept", "text/event-stream")
			req.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
			run, err := visitor.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer run.Body.Close()
			if run.StatusCode != http.StatusOK {
				t.Errorf("reader %d: %s", i, run.Status)
			}
			for lines := bufio.NewScanner(run.Body); lines.Scan(); {
				if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
					last[i] = kind
					begin()
				}
			}
		})
	}
	for range readers {
		<-began
	}
	start := time.Now()
	p.Signal(t, syscall.SIGTERM)
	if code := p.End(t, soon); code != 0 {
		t.Errorf("it exits with %d, want 0", code)
	}
	took := time.Since(start)
	all.Wait()
	course.Eventually(t, soon, "its server has ended", func() bool { return programs.Gone(server) })
	t.Logf("it ended %v after SIGTERM; the readers' last events: %q", took.Round(time.Millisecond), slices.Compact(slices.Sorted(slices.Values(last))))
	for i, kind := range last {
		if kind != "trouble" {
			t.Errorf("reader %d was left with %q", i, kind)
		}
	}
}
