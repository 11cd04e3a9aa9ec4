package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
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
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/redis/go-redis/v9"

	"lockstep/components/card"
	"lockstep/content"
	"lockstep/figures/run"
	"lockstep/handlers"
	"lockstep/lua"
	"lockstep/sandbox/server"
	"lockstep/sandbox/sql"
	"lockstep/tests/programs"
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
	b.beside(t)
	b.pages(t)
}

const (
	benchRounds = 5
	benchTime   = "1s"
	benchPage   = "/redis-patterns/coordination/distributed-locking/fencing-tokens"
	// benchRun is a figure of six commands: four of setup and steps, one
	// script, one read.
	benchRun = "/b/b/b/b/figures/six/run"
	// benchExplore is every schedule of three clients and a lapse: 324.
	benchExplore = benchPage + "/figures/every-release/blind-del"
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
	etag                    string // of the page
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
	box, err := server.Open(t.Context(), server.Options{Scripts: sources})
	must(t, err)
	t.Cleanup(func() { box.Close() })
	sql, err := sql.Open(t.Context(), "")
	must(t, err)
	t.Cleanup(func() { sql.Close() })
	runner := &run.Runner{Sandbox: box, SQL: sql, Limit: 3 * time.Second}
	site, err := handlers.New(os.DirFS(dir), scripts, course, runner, slog.New(slog.DiscardHandler), handlers.Settings{})
	must(t, err)

	b := &bench{site: listen(t, site.Handler())}
	b.raw, b.release, b.extend = rawServer(t, scripts)
	b.noop = listen(t, noop(t, course, runner, b.site))
	header, body := answered(t, b.site+benchPage)
	b.etag, b.bare = header.Get("Etag"), listen(t, bare(header, body))
	b.nginx = nginx(t, body)
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

// noop is the endpoint of a verdict without a server behind it: the same router,
// recovery and headers, and the same fragment, rendered from a result at hand.
func noop(t *testing.T, course *content.Course, runner *run.Runner, site string) http.Handler {
	t.Helper()
	page, _ := course.Page("/b/b/b/b")
	fig := page.Figures[0]
	result, err := runner.Run(t.Context(), fig, fig.Paths[0])
	must(t, err)
	header, _ := answered(t, site+benchRun)
	e := echo.New()
	e.Use(middleware.Recover())
	e.GET("/*", func(c echo.Context) error {
		maps.Copy(c.Response().Header(), header)
		var out bytes.Buffer
		out.Grow(8 << 10)
		if err := card.Verdict(fig, result).Render(context.Background(), &out); err != nil {
			return err
		}
		return c.HTMLBlob(http.StatusOK, out.Bytes())
	})
	return e
}

// answered is the site's answer to a visitor who takes gzip: the headers that it
// set, and the body as it was sent.
func answered(t *testing.T, url string) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	got, err := http.DefaultClient.Do(req)
	must(t, err)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	must(t, err)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, got.Status)
	}
	got.Header.Del("Date")
	return got.Header, body
}

// bare is the least that net/http can do for a page that is in memory: the same
// headers and the same bytes.
func bare(header http.Header, body []byte) http.Handler {
	kept := http.Header{"Etag": header["Etag"], "Cache-Control": header["Cache-Control"], "Vary": header["Vary"]}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == header.Get("Etag") {
			maps.Copy(w.Header(), kept)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		maps.Copy(w.Header(), header)
		w.Write(body)
	})
}

// nginx serves the same bytes from a file.
func nginx(t *testing.T, zipped []byte) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	must(t, err)
	body, err := io.ReadAll(z)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "page.html"), body, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "page.html.gz"), zipped, 0o644))
	return programs.Nginx(t, fmt.Sprintf(`gzip_static on; open_file_cache max=10; keepalive_requests 1000000; types { text/html html; }
server { listen ADDRESS; root %s; }`, dir))
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
	p99    time.Duration
}

var (
	wrkRate = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkTime = regexp.MustCompile(`(50|99)%\s+([\d.]+)(us|ms|s)`)
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
	l := load{rate: rate}
	for _, m := range wrkTime.FindAllStringSubmatch(string(out), -1) {
		took, _ := time.ParseDuration(m[2] + m[3])
		if m[1] == "50" {
			l.median = took
		} else {
			l.p99 = took
		}
	}
	return l
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
	return load{rate: float64(len(all)) / time.Since(start).Seconds(), median: all[len(all)/2]}
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

// beside measures one reader's verdicts while others explore without a pause.
func (b *bench) beside(t *testing.T) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "verdict for 1 client\texplorers\tmedian ms\tp99 ms\tp99 / alone\texplorations/s\t")
	for _, explorers := range []int{0, 1, 4} {
		var medians, tails, overAlone, explored []float64
		for range benchRounds {
			alone := wrk(t, b.site+benchRun, 1)
			l, rate := alone, 0.0
			if explorers > 0 {
				var wg sync.WaitGroup
				wg.Go(func() { rate = wrk(t, b.site+benchExplore, explorers).rate })
				l = wrk(t, b.site+benchRun, 1)
				wg.Wait()
			}
			medians, tails = append(medians, ms(l.median)), append(tails, ms(l.p99))
			overAlone, explored = append(overAlone, float64(l.p99)/float64(alone.p99)), append(explored, rate)
		}
		fmt.Fprintf(w, "6 commands\t%d\t%.2f\t%.2f\t%.2f\t%.0f\t\n", explorers, mid(medians), mid(tails), mid(overAlone), mid(explored))
	}
	w.Flush()
	fmt.Println(out.String())
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (b *bench) pages(t *testing.T) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "page, 64 clients\tsite/s\tsite / bare net/http\tsite / nginx\t")
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
			s := wrk(t, b.site+benchPage, 64, headers(b.etag)...)
			site = append(site, s)
			overBare = append(overBare, s.rate/wrk(t, b.bare, 64, headers(b.etag)...).rate)
			if b.nginx != "" {
				header, _ := answered(t, b.nginx+"/page.html")
				overNginx = append(overNginx, s.rate/wrk(t, b.nginx+"/page.html", 64, headers(header.Get("Etag"))...).rate)
			}
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t\n", kind, mid(rates(site)), mid(overBare), mid(overNginx))
	}
	w.Flush()
	fmt.Println(out.String())
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
