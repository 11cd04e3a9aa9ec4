package lockstep_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/redis/go-redis/v9"

	"lockstep/components"
	"lockstep/content"
	"lockstep/figures"
	"lockstep/handlers"
	"lockstep/lua"
	"lockstep/sandbox"
)

// TestBench prints how fast the site is, as ratios of one run: a verdict
// against the same commands sent raw and against the same endpoint without a
// server, and a page against a bare handler and against nginx.
//
// Every variant is visited in each round; a ratio is the median of the rounds'
// own ratios, so that a noisy machine disturbs both sides alike.
func TestBench(t *testing.T) {
	if os.Getenv("LOCKSTEP_BENCH") == "" {
		t.Skip("set LOCKSTEP_BENCH=1, or run make bench")
	}
	if _, err := exec.LookPath("wrk"); err != nil {
		t.Skip("wrk is missing; make bench gets it")
	}
	b := newBench(t)
	b.verdicts(t)
	b.pages(t)
}

const (
	benchRounds = 5
	benchTime   = "1s"
	benchPage   = "/redis-patterns/coordination/distributed-locking/fencing-tokens"
	// benchRun is a figure of six commands: four of setup and steps, one
	// script, one read.
	benchRun = "/b/b/b/b/figures/six/run"
)

const sixCommands = `---
id: B.1
title: Bench
---
` + "```figure" + `
id: six
resource: l
paths:
  - id: run
    steps:
      - A: SET l abc NX PX 30000
      - B: SET l xyz NX PX 30000
      - A: GET l
      - A: EVAL extend.lua 1 l abc 30000
      - A: EVAL release.lua 1 l abc
        as: released
    observe: {holder: GET l}
    verdicts:
      - {when: released == 1 && holder == nil, status: safe, text: released}
` + "```\n"

type bench struct {
	site, bare, noop, nginx string // addresses; nginx is "" where it is missing
	raw                     *redis.Client
	release, extend         string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scripts, err := lua.Load(lua.FS())
	must(t, err)
	sources := map[string]string{}
	for name, s := range scripts {
		sources[name] = s.Source
	}
	dir := t.TempDir()
	must(t, os.CopyFS(dir, content.FS()))
	must(t, os.MkdirAll(filepath.Join(dir, "b/b/b"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "b/b/b/b.md"), []byte(sixCommands), 0o644))
	course, faults := content.Load(os.DirFS(dir), scripts)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	box, err := sandbox.Open(t.Context(), sandbox.Options{Scripts: sources})
	must(t, err)
	t.Cleanup(func() { box.Close() })
	sql, err := sandbox.OpenSQL(t.Context(), "")
	must(t, err)
	t.Cleanup(func() { sql.Close() })
	runner := &figures.Runner{Sandbox: box, SQL: sql, Limit: 3 * time.Second}
	site, err := handlers.New(os.DirFS(dir), scripts, course, runner, slog.New(slog.DiscardHandler), handlers.Settings{})
	must(t, err)

	b := &bench{site: listen(t, site.Handler())}
	b.raw, b.release, b.extend = rawServer(t, scripts)
	b.noop = listen(t, noop(t, course, runner))
	body := get(t, b.site+benchPage)
	b.bare = listen(t, bare(body))
	b.nginx = startNginx(t, body)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listen serves on a port of its own.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: h}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, answer.Status)
	}
	return body
}

// noop is the endpoint of a verdict without a server behind it: it renders the
// same fragment from a result that is at hand.
func noop(t *testing.T, course *content.Course, runner *figures.Runner) http.Handler {
	t.Helper()
	page, _ := course.Page("/b/b/b/b")
	fig := page.Figures[0]
	result, err := runner.Run(t.Context(), fig, fig.Paths[0])
	must(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out bytes.Buffer
		components.Verdict(fig, result).Render(context.Background(), &out)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(out.Bytes())
	})
}

// bare is the least that net/http can do for a page that is in memory.
func bare(body []byte) http.Handler {
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	z.Write(body)
	z.Close()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Etag", `"bench"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(zipped.Len()))
		w.Write(zipped.Bytes())
	})
}

// startNginx serves the same bytes from a file.
func startNginx(t *testing.T, body []byte) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Log("nginx is missing: pages are held against the bare handler only")
			return ""
		}
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	z.Write(body)
	z.Close()
	must(t, os.WriteFile(filepath.Join(dir, "page.html"), body, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "page.html.gz"), zipped.Bytes(), 0o644))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	l.Close()
	conf := fmt.Sprintf(`daemon off; error_log stderr crit; pid %[1]s/pid; worker_processes 2; user root;
events { worker_connections 512; }
http { access_log off; gzip_static on; open_file_cache max=10; keepalive_requests 1000000; types { text/html html; }
server { listen %[2]s; root %[1]s; } }`, dir, address)
	must(t, os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o644))
	cmd := exec.Command(program, "-c", filepath.Join(dir, "conf"), "-p", dir)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	waitFor(t, address)
	return "http://" + address
}

func waitFor(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// rawServer is a server that go-redis speaks to with nothing in between.
func rawServer(t *testing.T, scripts lua.Scripts) (client *redis.Client, release, extend string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lockstep-bench")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("valkey-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	client = redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Protocol: 2, PoolSize: 64, DisableIdentity: true})
	t.Cleanup(func() { client.Close() })
	for deadline := time.Now().Add(5 * time.Second); client.Ping(t.Context()).Err() != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the raw server doesn't come up")
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, name := range []string{"release.lua", "extend.lua"} {
		must(t, client.ScriptLoad(t.Context(), scripts[name].Source).Err())
	}
	return client, scripts["release.lua"].SHA1, scripts["extend.lua"].SHA1
}

// rawRun sends the six commands in one round trip.
func (b *bench) rawRun(ctx context.Context, key string) error {
	p := b.raw.Pipeline()
	p.Do(ctx, "SET", key, "abc", "NX", "PX", "30000")
	p.Do(ctx, "SET", key, "xyz", "NX", "PX", "30000")
	p.Do(ctx, "GET", key)
	p.Do(ctx, "EVALSHA", b.extend, "1", key, "abc", "30000")
	p.Do(ctx, "EVALSHA", b.release, "1", key, "abc")
	p.Do(ctx, "GET", key)
	_, err := p.Exec(ctx)
	if err == redis.Nil {
		return nil
	}
	return err
}

// load is what one variant did in one round.
type load struct {
	rate   float64 // a second
	median time.Duration
}

var (
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkMedian = regexp.MustCompile(`50%\s+([\d.]+)(us|ms|s)`)
)

// wrk loads an address with so many clients.
func wrk(t *testing.T, url string, clients int, headers ...string) load {
	t.Helper()
	args := []string{"-t1", "-c" + strconv.Itoa(clients), "-d" + benchTime, "--latency"}
	for _, h := range headers {
		args = append(args, "-H", h)
	}
	out, err := exec.Command("wrk", append(args, url)...).Output()
	must(t, err)
	if strings.Contains(string(out), "Non-2xx") && !slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, "If-None-Match") }) {
		t.Fatalf("%s:\n%s", url, out)
	}
	rate, _ := strconv.ParseFloat(wrkRate.FindStringSubmatch(string(out))[1], 64)
	m := wrkMedian.FindStringSubmatch(string(out))
	median, _ := time.ParseDuration(m[1] + m[2])
	return load{rate, median}
}

// rawLoad runs the six commands with so many clients.
func (b *bench) rawLoad(t *testing.T, clients int) load {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	times := make([][]time.Duration, clients)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range clients {
		wg.Go(func() {
			for key := "l" + strconv.Itoa(i); ctx.Err() == nil; {
				begun := time.Now()
				if b.rawRun(ctx, key) == nil {
					times[i] = append(times[i], time.Since(begun))
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(times...)
	slices.Sort(all)
	return load{float64(len(all)) / time.Since(start).Seconds(), all[len(all)/2]}
}

func (b *bench) verdicts(t *testing.T) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "verdict\tclients\tsite/s\tsite / raw\tsite / without Valkey\tmedian ms\tmedian / (without Valkey + raw)\t")
	for _, clients := range []int{1, 16, 64} {
		var site []load
		var overRaw, overNoop, latency []float64
		for range benchRounds {
			s, n, r := wrk(t, b.site+benchRun, clients), wrk(t, b.noop, clients), b.rawLoad(t, clients)
			site = append(site, s)
			overRaw, overNoop = append(overRaw, s.rate/r.rate), append(overNoop, s.rate/n.rate)
			latency = append(latency, float64(s.median)/float64(n.median+r.median))
		}
		fmt.Fprintf(w, "6 commands\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", clients, mid(rates(site)), mid(overRaw), mid(overNoop),
			float64(site[len(site)/2].median)/1e6, mid(latency))
	}
	w.Flush()
	fmt.Println(out.String())
}

func (b *bench) pages(t *testing.T) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "page, 64 clients\tsite/s\tsite / bare net/http\tsite / nginx\t")
	answer, err := http.Get(b.site + benchPage)
	must(t, err)
	answer.Body.Close()
	zip := "Accept-Encoding: gzip"
	for _, kind := range []string{"200", "304"} {
		var site []load
		var overBare, overNginx []float64
		for range benchRounds {
			headers := func(etag string) []string {
				if kind == "304" {
					return []string{zip, "If-None-Match: " + etag}
				}
				return []string{zip}
			}
			s := wrk(t, b.site+benchPage, 64, headers(answer.Header.Get("Etag"))...)
			site = append(site, s)
			overBare = append(overBare, s.rate/wrk(t, b.bare, 64, headers(`"bench"`)...).rate)
			if b.nginx != "" {
				overNginx = append(overNginx, s.rate/wrk(t, b.nginx+"/page.html", 64, headers(nginxTag(t, b.nginx+"/page.html"))...).rate)
			}
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t\n", kind, mid(rates(site)), mid(overBare), mid(overNginx))
	}
	w.Flush()
	fmt.Println(out.String())
}

// nginxTag is the tag of nginx's answer to a request for gzip.
func nginxTag(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	answer.Body.Close()
	return answer.Header.Get("Etag")
}

func rates(all []load) []float64 {
	out := make([]float64, len(all))
	for i, l := range all {
		out[i] = l.rate
	}
	return out
}

func mid(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
