package pages_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"lockstep/tests/course"
)

// TestLinks walks from the home page over every link, anchor and asset of the
// site, and looks at each page on the way.
func TestLinks(t *testing.T) {
	t.Parallel()
	s := course.Visit(t)
	c := &crawl{t: t, base: s.URL, anchors: map[string]map[string]bool{}}
	c.follow("/", "")
	for len(c.todo) > 0 {
		// Pages that show a run take as long as the run: several at once.
		now := c.todo
		c.todo = nil
		answers := make([]course.Answer, len(now))
		var all sync.WaitGroup
		places := make(chan struct{}, 8)
		for i, address := range now {
			places <- struct{}{}
			all.Go(func() {
				answers[i] = c.fetch(address)
				<-places
			})
		}
		all.Wait()
		for i, address := range now {
			c.page(address, answers[i])
		}
	}
	for _, l := range c.links {
		u, _ := url.Parse(l.to)
		if u.Fragment == "" {
			continue
		}
		u.Fragment, u.RawFragment = "", ""
		address, err := url.PathUnescape(l.to[strings.Index(l.to, "#")+1:])
		if err != nil || !c.anchors[u.String()][address] {
			t.Errorf("%s links to %s, where there is no such anchor", l.from, l.to)
		}
	}
	for _, p := range s.Course.Pages {
		if c.anchors[p.URL] == nil {
			t.Errorf("no link leads to %s", p.URL)
		}
	}
	t.Logf("%d addresses, %d links", len(c.anchors), len(c.links))
}

type link struct{ from, to string }

type crawl struct {
	t       *testing.T
	base    string
	anchors map[string]map[string]bool // by address without fragment: its ids
	todo    []string
	links   []link
}

// follow notes a link, and its target as one to look at.
func (c *crawl) follow(to, from string) {
	u, err := url.Parse(to)
	if err != nil {
		c.t.Errorf("%s links to %q: %v", from, to, err)
		return
	}
	switch {
	case u.Scheme == "http" && u.Host == strings.TrimPrefix(c.base, "http://"):
		u.Scheme, u.Host = "", ""
	case u.Scheme != "" || u.Host != "":
		if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			c.t.Errorf("%s links to %s", from, to)
		}
		return // another site's business
	}
	at, _ := url.Parse(from)
	u = at.ResolveReference(u)
	if strings.Contains(from, "schedule=") && strings.Contains(to, "schedule=") {
		return // one may go on like this for a long time
	}
	c.links = append(c.links, link{from, u.String()})
	u.Fragment, u.RawFragment = "", ""
	if _, known := c.anchors[u.String()]; !known {
		c.anchors[u.String()] = nil
		c.todo = append(c.todo, u.String())
	}
}

// fetch asks for an address, and follows no redirect.
func (c *crawl) fetch(address string) course.Answer {
	direct := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := course.Ask(&direct, c.base+address, course.HTML)
	if err != nil {
		c.t.Error(err)
	}
	return a
}

// page looks at what is at an address.
func (c *crawl) page(address string, a course.Answer) {
	c.anchors[address] = map[string]bool{"": true}
	if a.Code != http.StatusOK {
		c.t.Errorf("%s, which is linked to, answers %d", address, a.Code)
		return
	}
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		if strings.HasPrefix(address, "/static/") && !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
			c.t.Errorf("%s may not be kept: %s", address, a.Header.Get("Cache-Control"))
		}
		return
	}
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.Body))
	if err != nil {
		c.t.Error(err)
		return
	}
	for _, fault := range faultsOf(doc) {
		c.t.Errorf("%s: %s", address, fault)
	}
	doc.Find("[id]").Each(func(_ int, s *goquery.Selection) { c.anchors[address][s.AttrOr("id", "")] = true })
	for _, ref := range references(doc) {
		c.follow(ref, address)
	}
}

// references are all addresses that a page names.
func references(doc *goquery.Document) (all []string) {
	for _, attr := range []string{"href", "src"} {
		doc.Find("[" + attr + "]").Each(func(_ int, s *goquery.Selection) { all = append(all, s.AttrOr(attr, "")) })
	}
	return all
}

// faultsOf are the ways in which a page's HTML breaks the rules of the site: no
// id twice, nothing inline that the policy forbids, no link to nowhere, no
// reference to an element that isn't there.
func faultsOf(doc *goquery.Document) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	ids := map[string]int{}
	doc.Find("[id]").Each(func(_ int, s *goquery.Selection) { ids[s.AttrOr("id", "")]++ })
	for id, n := range ids {
		if n > 1 || strings.TrimSpace(id) == "" || strings.ContainsAny(id, " \t\n") {
			add("id %q stands on %d elements", id, n)
		}
	}
	doc.Find("[style], style").Each(func(_ int, s *goquery.Selection) { add("inline style: %s", outer(s)) })
	doc.Find("script").Each(func(_ int, s *goquery.Selection) {
		if s.AttrOr("src", "") == "" || strings.TrimSpace(s.Text()) != "" {
			add("inline script: %s", outer(s))
		}
	})
	doc.Find("*").Each(func(_ int, s *goquery.Selection) {
		for _, a := range s.Nodes[0].Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			switch {
			case strings.HasPrefix(a.Key, "on"):
				add("inline script: %s", outer(s))
			case (a.Key == "href" || a.Key == "src") && (value == "" || value == "#" || strings.HasPrefix(value, "javascript:") || strings.HasPrefix(value, "about:")):
				add("%s leads nowhere: %s", a.Key, outer(s))
			case slices.Contains([]string{"aria-describedby", "aria-labelledby", "aria-controls", "for"}, a.Key):
				for id := range strings.FieldsSeq(a.Val) {
					if ids[id] == 0 {
						add("%s names %q, which isn't there", a.Key, id)
					}
				}
			}
		}
	})
	for _, one := range []string{"h1", "main", "head > title", `[role="status"], [aria-live]`} {
		if n := doc.Find(one).Length(); n != 1 {
			add("%d elements are %s", n, one)
		}
	}
	// Headings go down one level at a time.
	level := 0
	doc.Find("h1, h2, h3, h4, h5, h6").Each(func(_ int, s *goquery.Selection) {
		now := int(s.Nodes[0].Data[1] - '0')
		if now > level+1 {
			add("h%d follows h%d: %s", now, level, s.Text())
		}
		if strings.TrimSpace(s.Text()) == "" {
			add("an empty %s", s.Nodes[0].Data)
		}
		level = now
	})
	if doc.Find("title").Text() == "" || strings.HasPrefix(strings.TrimSpace(doc.Find("title").Text()), "·") {
		add("no title")
	}
	return faults
}

func outer(s *goquery.Selection) string {
	text, _ := goquery.OuterHtml(s)
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return text
}

// TestLinkRules checks that the rules of TestLinks can fail.
func TestLinkRules(t *testing.T) {
	t.Parallel()
	const good = `<!doctype html><title>t</title><link rel="stylesheet" href="/s.css"><main><h1 id="a">x</h1><p role="status"></p>%s</main>`
	for _, tt := range []struct{ html, want string }{
		{``, ``},
		{`<p id="a">`, `id "a" stands on 2 elements`},
		{`<p id="a b">`, `id "a b" stands on 1 elements`},
		{`<p style="color: red">`, `inline style`},
		{`<style>p {}</style>`, `inline style`},
		{`<script>alert(1)</script>`, `inline script`},
		{`<p onclick="x">`, `inline script`},
		{`<a href="">x</a>`, `href leads nowhere`},
		{`<a href="#">x</a>`, `href leads nowhere`},
		{`<a href="about:invalid#x">x</a>`, `href leads nowhere`},
		{`<p aria-describedby="nope">`, `names "nope"`},
		{`<h1>y</h1>`, `2 elements are h1`},
		{`<p aria-live="polite">`, `2 elements are`},
		{`<h3>y</h3>`, `h3 follows h1`},
		{`<h2> </h2>`, `an empty h2`},
	} {
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(fmt.Sprintf(good, tt.html)))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(faultsOf(doc), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.html, got, tt.want)
		}
	}
}
