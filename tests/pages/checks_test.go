package pages_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"lockstep/content"
	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// checkedPages are the addresses that the checks of this file look at: every
// page, searches, a page that isn't there, and pages that show a run.
func checkedPages(s *course.Site) []string {
	all := []string{"/", "/search", "/search?q=fenc", "/search?q=zzqx", "/nowhere", course.Hub + "?run=race.a"}
	for _, p := range s.Course.Pages {
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
	t.Parallel()
	s := course.Visit(t)
	ask := func(query string) (*goquery.Document, course.Answer) {
		t.Helper()
		a := course.Fetch(t, s.URL+"/search?q="+url.QueryEscape(query), course.HTML)
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.Body))
		if err != nil || a.Code != http.StatusOK {
			t.Fatalf("%q: %d, %v", query, a.Code, err)
		}
		if doc.Find(`meta[name="robots"][content="noindex"]`).Length() != 1 || doc.Find(`form[role="search"]`).Length() != 1 {
			t.Errorf("%q: the page has no noindex, or not one form", query)
		}
		return doc, a
	}
	doc, _ := ask("  FENCING   tok ")
	first := doc.Find(".hit").First()
	if href := first.Find("a").AttrOr("href", ""); href != course.Hub+"/fencing-tokens" || first.Find("mark").Length() == 0 {
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
	if strings.Contains(a.Body, "<script>alert") {
		t.Error("a query is written as markup")
	}
	ask(strings.Repeat("x\x00é", 500))
	form := "form[role=search]"
	for _, page := range []string{"/", course.Hub, "/how-to-read", "/nowhere"} {
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(course.Fetch(t, s.URL+page, course.HTML).Body))
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
	t.Parallel()
	s := course.Visit(t)
	titles := map[string]string{}
	for _, p := range append([]*content.Page{s.Course.Home}, s.Course.Pages...) {
		a := course.Fetch(t, s.URL+p.URL, course.HTML)
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.Body))
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
	if a := course.Fetch(t, s.URL+"/robots.txt", "*/*"); a.Code != http.StatusOK || !strings.HasPrefix(a.Body, "User-agent: *\n") {
		t.Errorf("robots.txt is %d %q", a.Code, a.Body)
	}
}

// TestValid has every kind of page looked at by the Nu Html Checker: neither
// errors nor warnings.
func TestValid(t *testing.T) {
	t.Parallel()
	s := course.Visit(t)
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("there is no java on the PATH")
	}
	jar := filepath.Join(programs.NPM(t, "vnu-jar", "26.9.27"), "build", "dist", "vnu.jar")
	dir := t.TempDir()
	addresses := checkedPages(s)
	args := []string{"-Xss4m", "-jar", jar, "--Werror", "--format", "json"}
	for i, address := range addresses {
		file := filepath.Join(dir, fmt.Sprintf("%03d.html", i))
		if err := os.WriteFile(file, []byte(course.Fetch(t, s.URL+address, course.HTML).Body), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	var report strings.Builder
	check := exec.CommandContext(t.Context(), java, args...)
	check.Stderr = &report
	err = check.Run()
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
