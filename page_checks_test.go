package lockstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"

	"lockstep/content"
)

// checkedPages are the addresses that the checks of this file look at: every
// page, searches, a page that isn't there, and pages that show a run.
func checkedPages(s *served) []string {
	all := []string{"/", "/search", "/search?q=fenc", "/search?q=zzqx", "/nowhere", hub + "?run=race.a"}
	for _, p := range s.course.Pages {
		all = append(all, p.URL)
		for _, f := range p.Figures {
			for _, path := range f.Paths {
				if path.Explores() && len(f.Paths) > 0 && f == p.Figures[len(p.Figures)-1] {
					all = append(all, p.URL+"?run="+f.ID+"."+path.ID)
				}
			}
		}
	}
	return append(all, "/how-to-read?run=add.read-write", "/how-to-read?run=add.read-write&schedule=A.B.A.B")
}

// TestSearchPage asks as a reader does.
func TestSearchPage(t *testing.T) {
	s := visit(t)
	ask := func(query string) (*goquery.Document, answer) {
		t.Helper()
		a := fetch(t, s.http.URL+"/search?q="+url.QueryEscape(query), asHTML)
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.body))
		if err != nil || a.code != http.StatusOK {
			t.Fatalf("%q: %d, %v", query, a.code, err)
		}
		if doc.Find(`meta[name="robots"][content="noindex"]`).Length() != 1 || doc.Find(`form[role="search"]`).Length() != 1 {
			t.Errorf("%q: the page has no noindex, or not one form", query)
		}
		return doc, a
	}
	doc, _ := ask("  FENCING   tok ")
	first := doc.Find(".hit").First()
	if href := first.Find("a").AttrOr("href", ""); href != hub+"/fencing-tokens" || first.Find("mark").Length() == 0 {
		t.Errorf("the first hit leads to %q with %d marks", href, first.Find("mark").Length())
	}
	if v := doc.Find("#page\\.query").AttrOr("value", ""); v != "FENCING tok" {
		t.Errorf("the form holds %q", v)
	}
	doc, _ = ask("fenced_write")
	doc.Find(".hit-text").Each(func(_ int, s *goquery.Selection) {
		if strings.Contains(s.Text(), "fenced _") {
			t.Errorf("marks part words: %s", s.Text())
		}
	})
	doc, _ = ask("zzqx zzqy")
	if doc.Find(".hit").Length() != 0 || !strings.Contains(doc.Find("main").Text(), "Nothing in the course has all of zzqx zzqy") {
		t.Errorf("without a hit the page says %q", doc.Find("main").Text())
	}
	_, a := ask(`"><script>alert(1)</script>`)
	if strings.Contains(a.body, "<script>alert") {
		t.Error("a query is written as markup")
	}
	ask(strings.Repeat("x\x00é", 500))
	form := "form[role=search]"
	for _, page := range []string{"/", hub, "/how-to-read", "/nowhere"} {
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(fetch(t, s.http.URL+page, asHTML).body))
		if err != nil {
			t.Fatal(err)
		}
		if doc.Find(form).AttrOr("action", "") != "/search" || doc.Find(form+" label").Length() != 1 || doc.Find(`a.search-link[href="/search"]`).Length() != 1 {
			t.Errorf("%s: one can't search from here", page)
		}
	}
}

// TestHead checks what search engines and shared links go by.
func TestHead(t *testing.T) {
	s := visit(t)
	titles := map[string]string{}
	for _, p := range append([]*content.Page{s.course.Home}, s.course.Pages...) {
		a := fetch(t, s.http.URL+p.URL, asHTML)
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		title := doc.Find("title").Text()
		if other, twice := titles[title]; title == "" || twice {
			t.Errorf("%s has the title %q, as %q has", p.URL, title, other)
		}
		titles[title] = p.URL
		if p.File != "" && doc.Find(`meta[name="description"]`).AttrOr("content", "") == "" {
			t.Errorf("%s has no description", p.URL)
		}
		if lang := doc.Find("html").AttrOr("lang", ""); lang != p.Lang {
			t.Errorf("%s is in %q, want %q", p.URL, lang, p.Lang)
		}
	}
	if a := fetch(t, s.http.URL+"/robots.txt", "*/*"); a.code != http.StatusOK || !strings.HasPrefix(a.body, "User-agent: *\n") {
		t.Errorf("robots.txt is %d %q", a.code, a.body)
	}
}

// heaviest is what a page may weigh at a first visit, in bytes on the wire,
// with all that it loads.
const heaviest = 40 << 10

var cssURL = regexp.MustCompile(`url\(["']?([^"')]+)`)

// TestWeight weighs pages as a first visit loads them, compressed; counts what
// goes to other hosts; and looks for cookies.
func TestWeight(t *testing.T) {
	s := visit(t)
	weigh := func(address string) (int, answer) {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, s.http.URL+address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "br")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if c := resp.Header.Values("Set-Cookie"); len(c) > 0 {
			t.Errorf("%s sets the cookie %s", address, c)
		}
		return len(body), answer{resp.StatusCode, resp.Header, fetch(t, s.http.URL+address, asHTML).body}
	}
	for _, p := range append([]*content.Page{s.course.Home}, s.course.Pages...) {
		sum, page := weigh(p.URL)
		text := sum
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(page.body))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		var load func(address, from string)
		load = func(address, from string) {
			at, err := url.Parse(from)
			if err != nil {
				t.Fatal(err)
			}
			u, err := at.Parse(address)
			if err != nil || u.Host != "" || u.Scheme != "" {
				t.Errorf("%s loads %s from elsewhere", from, address)
				return
			}
			if seen[u.Path] {
				return
			}
			seen[u.Path] = true
			n, a := weigh(u.Path)
			sum += n
			if a.code != http.StatusOK {
				t.Errorf("%s loads %s: %d", from, u.Path, a.code)
			}
			if strings.HasSuffix(u.Path, ".css") {
				for _, m := range cssURL.FindAllStringSubmatch(a.body, -1) {
					if !strings.HasPrefix(m[1], "data:") && !strings.HasPrefix(m[1], "#") {
						load(m[1], u.Path)
					}
				}
			}
		}
		doc.Find(`link[href]:not([media="not all"]):not([rel="next"]):not([rel="prev"])`).Each(func(_ int, l *goquery.Selection) { load(l.AttrOr("href", ""), p.URL) })
		doc.Find("[src]").Each(func(_ int, l *goquery.Selection) { load(l.AttrOr("src", ""), p.URL) })
		t.Logf("%s: %d bytes, the page itself %d", p.URL, sum, text)
		if sum > heaviest {
			t.Errorf("%s weighs %d bytes, more than %d", p.URL, sum, heaviest)
		}
	}
}

// tool installs a package of npm where the checks keep theirs, once, and gives
// its folder. Without npm or the network the test is skipped: the suite needs
// neither of them.
func tool(t *testing.T, name, version string) string {
	t.Helper()
	extra(t, "npm")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(cache, "lockstep-checks", name+"-"+version)
	found := filepath.Join(dir, "node_modules", name)
	if _, err := os.Stat(filepath.Join(found, "package.json")); err == nil {
		return found
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", name+"@"+version)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm install %s: %v\n%s", name, err, out)
	}
	return found
}

// extra finds a program that only the audits of pages need.
func extra(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("there is no %s on the PATH", program)
	}
	return path
}

// TestValid has every kind of page looked at by the Nu Html Checker: neither
// errors nor warnings.
func TestValid(t *testing.T) {
	s := visit(t)
	java := extra(t, "java")
	jar := filepath.Join(tool(t, "vnu-jar", "26.9.27"), "build", "dist", "vnu.jar")
	dir := t.TempDir()
	addresses := checkedPages(s)
	args := []string{"-Xss4m", "-jar", jar, "--Werror", "--format", "json"}
	for i, address := range addresses {
		file := filepath.Join(dir, fmt.Sprintf("%03d.html", i))
		if err := os.WriteFile(file, []byte(fetch(t, s.http.URL+address, asHTML).body), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	var report strings.Builder
	check := exec.CommandContext(t.Context(), java, args...)
	check.Stderr = &report
	err := check.Run()
	var found struct {
		Messages []struct {
			URL, Type, Message, Extract string
			LastLine                    int
		}
	}
	if jsonErr := json.Unmarshal([]byte(report.String()), &found); jsonErr != nil {
		t.Fatalf("vnu: %v: %s", errors.Join(err, jsonErr), report.String())
	}
	for _, m := range found.Messages {
		address := m.URL
		for i := range addresses {
			if strings.HasSuffix(m.URL, fmt.Sprintf("/%03d.html", i)) {
				address = addresses[i]
			}
		}
		t.Errorf("%s: %s: %s: %s", address, m.Type, m.Message, m.Extract)
	}
	if err != nil && len(found.Messages) == 0 {
		t.Errorf("vnu: %v", err)
	}
	t.Logf("%d pages", len(addresses))
}

// TestLighthouse runs Lighthouse over the hub and the dives. It takes minutes,
// and its scores of speed mean something on a quiet machine only.
func TestLighthouse(t *testing.T) {
	if os.Getenv("LOCKSTEP_LIGHTHOUSE") == "" {
		t.Skip("LOCKSTEP_LIGHTHOUSE is not set")
	}
	s := visit(t)
	needBrowser(t)
	node := need(t, "node")
	cli := filepath.Join(tool(t, "lighthouse", "12.2.3"), "cli", "index.js")
	var chrome string
	for _, name := range browserNames {
		if path, err := exec.LookPath(name); err == nil {
			chrome = path
			break
		}
	}
	for _, p := range s.course.Pages {
		if p.Kind != content.KindModule && p.Kind != content.KindDive {
			continue
		}
		for _, form := range []string{"desktop", "mobile"} {
			t.Run(p.ID+" "+form, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "report.json")
				args := []string{cli, s.http.URL + p.URL, "--quiet", "--output=json", "--output-path=" + out, "--chrome-flags=--headless=new --no-sandbox --disable-gpu"}
				if form == "desktop" {
					args = append(args, "--preset=desktop")
				}
				run := exec.CommandContext(t.Context(), node, args...)
				run.Env = append(os.Environ(), "CHROME_PATH="+chrome)
				if text, err := run.CombinedOutput(); err != nil {
					t.Fatalf("lighthouse: %v\n%s", err, text)
				}
				lighthouseReport(t, out)
			})
		}
	}
}

// lighthouseReport holds a report against what the site promises.
func lighthouseReport(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Categories map[string]struct {
			Score     float64
			AuditRefs []struct {
				ID     string
				Weight float64
			}
		}
		Audits map[string]struct {
			Title        string
			Score        *float64
			NumericValue float64
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]float64{"accessibility": 1, "best-practices": 1, "seo": 1, "performance": 0.98} {
		c, ok := report.Categories[name]
		t.Logf("%s: %.0f", name, 100*c.Score)
		if ok && c.Score >= least {
			continue
		}
		t.Errorf("%s: %.0f, want %.0f", name, 100*c.Score, 100*least)
		for _, ref := range c.AuditRefs {
			if a := report.Audits[ref.ID]; ref.Weight > 0 && a.Score != nil && *a.Score < 1 {
				t.Logf("  %s: %.2f %s", ref.ID, *a.Score, a.Title)
			}
		}
	}
	if shift := report.Audits["cumulative-layout-shift"].NumericValue; shift != 0 {
		t.Errorf("a layout shift of %v", shift)
	}
}
