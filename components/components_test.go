package components

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/a-h/templ"
	"github.com/google/go-cmp/cmp"

	"lockstep/components/card"
	"lockstep/content"
	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
	"lockstep/static"
)

func testSite(t *testing.T) Site {
	t.Helper()
	assets, err := static.Load(static.FS())
	if err != nil {
		t.Fatal(err)
	}
	home := &content.Page{About: content.About{Title: "Home", TitleHTML: "Home"}, Place: content.Place{URL: "/", Kind: content.KindHome, File: "index.md"}}
	return Site{
		Engine: sandbox.Engine{Name: "valkey", Version: "8.0.1"},
		Assets: assets,
		Course: &content.Course{Home: home},
	}
}

// twoFigures is a page with two figures that share the ids of their paths.
func twoFigures() *content.Page {
	one, two := specimen("busy"), specimen("observing")
	one.ID, one.Title, two.ID = "one-lock", "One lock", "two"
	return &content.Page{
		About: content.About{ID: "R1", Title: "Two figures", TitleHTML: "Two figures", Lede: "A promise.", Grounding: "Somewhere."},
		Place: content.Place{URL: "/course/two", File: "two.md", Kind: content.KindDive},
		Contents: content.Contents{
			Figures:  []*figures.Figure{one, two},
			Headings: []content.Heading{{Level: 2, Number: 1, ID: "first", Text: "First", HTML: "First"}, {Level: 2, Number: 2, ID: "second", Text: "Second", HTML: "Second"}},
			Body:     []content.Part{{Figure: one, Number: 1}, {HTML: `<section aria-labelledby="first"><h2 id="first">First</h2>`}, {Figure: two, Number: 2}, {HTML: `</section><h2 id="second">Second</h2>`}},
			Sources:  []content.Source{{Title: "A book"}},
		},
	}
}

// specimen is a figure of the gallery.
func specimen(id string) *figures.Figure {
	for _, s := range card.Specimens("/gallery") {
		if s.Figure.ID == id {
			return s.Figure
		}
	}
	return nil
}

// ran is what a run of a path in the gallery showed, as one of another path.
func ran(f *figures.Figure, p *figures.Path, status figures.Status) card.Run {
	for _, s := range card.Specimens("/gallery") {
		if run := s.Stage.Run; run.Result != nil && run.Result.Status == status {
			result := *run.Result
			result.Figure, result.Path, result.Verdict = f.ID, p.ID, p.Static
			return card.Run{Figure: f, Path: p, Result: &result}
		}
	}
	return card.Run{}
}

func render(t *testing.T, c templ.Component) *goquery.Document {
	t.Helper()
	var b strings.Builder
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	doc, err := goquery.NewDocumentFromReader(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// everyPage renders each kind of page.
func everyPage(t *testing.T) map[string]*goquery.Document {
	site, page := testSite(t), twoFigures()
	broken := &content.Page{About: content.About{Title: "Broken"}, Place: content.Place{File: "x/broken.md"}, Faults: figures.Faults{{File: "x/broken.md", Line: 3, Message: "unknown key", Hint: "did you mean title?"}}}
	folder := &content.Page{About: content.About{Title: "Folder", Name: "Folder"}, Place: content.Place{URL: "/course", Kind: content.KindChapter, Children: []*content.Page{page}}}
	site.Course.Home.Children = []*content.Page{folder}
	site.Course.Pages = []*content.Page{folder, page}
	lit := ran(page.Figures[0], page.Figures[0].Paths[0], figures.Broken)
	return map[string]*goquery.Document{
		"page":     render(t, Page(site, page, card.Run{})),
		"page run": render(t, Page(site, page, lit)),
		"home":     render(t, Home(site)),
		"folder":   render(t, Folder(site, folder)),
		"problem":  render(t, Problem(site, 404, "Not found", "There is no page here.")),
		"broken":   render(t, Broken(site, broken)),
		"gallery":  render(t, Gallery(site)),
	}
}

func TestPagesKeepTheRules(t *testing.T) {
	for name, doc := range everyPage(t) {
		seen := map[string]bool{}
		doc.Find("[id]").Each(func(_ int, s *goquery.Selection) {
			id := s.AttrOr("id", "")
			if seen[id] {
				t.Errorf("%s: two elements have the id %q", name, id)
			}
			seen[id] = true
		})
		doc.Find("[aria-describedby], [aria-labelledby]").Each(func(_ int, s *goquery.Selection) {
			for _, id := range []string{s.AttrOr("aria-describedby", ""), s.AttrOr("aria-labelledby", "")} {
				if id != "" && !seen[id] {
					t.Errorf("%s: nothing has the id %q", name, id)
				}
			}
		})
		if n := doc.Find("[style], style, script:not([src])").Length(); n > 0 {
			t.Errorf("%s: %d styles or scripts in the page; the policy forbids them", name, n)
		}
		doc.Find("*").Each(func(_ int, s *goquery.Selection) {
			for _, a := range s.Nodes[0].Attr {
				if strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: <%s %s=%q>", name, s.Nodes[0].Data, a.Key, a.Val)
				}
			}
		})
		if got := doc.Find(`[role="status"], [aria-live], output`).Length(); got != 1 {
			t.Errorf("%s: %d live regions, want 1", name, got)
		}
		if got := doc.Find("h1").Length(); got != 1 {
			t.Errorf("%s: %d h1, want 1", name, got)
		}
		doc.Find(".tag[data-status], .condition[data-status]").Each(func(_ int, s *goquery.Selection) {
			status := s.AttrOr("data-status", "")
			if status != "" && (s.Find("svg.mark path").Length() == 0 || strings.TrimSpace(s.Text()) == "") {
				t.Errorf("%s: the status %s lacks its mark or its word", name, status)
			}
		})
	}
}

func TestFigurePaths(t *testing.T) {
	page := twoFigures()
	doc := render(t, Page(testSite(t), page, card.Run{}))
	for _, f := range page.Figures {
		figure := doc.Find("figure#" + f.ID)
		for _, p := range f.Paths {
			link := figure.Find(`a.path[data-path="` + p.ID + `"]`)
			if got, want := link.AttrOr("href", ""), "?run="+f.ID+"."+p.ID+"#"+f.ID; got != want {
				t.Errorf("%s.%s: href %q, want %q", f.ID, p.ID, got, want)
			}
			if got := link.Find(".path-label").Text(); got != p.Label {
				t.Errorf("%s.%s: label %q", f.ID, p.ID, got)
			}
			said := figure.Find(`.say[data-path="` + p.ID + `"]`)
			if got := said.Find(".say-text").Text(); got != p.Static {
				t.Errorf("%s.%s: recorded verdict %q, want %q", f.ID, p.ID, got, p.Static)
			}
			if got := said.Find(".say-source").Text(); got != "recorded" {
				t.Errorf("%s.%s: source %q", f.ID, p.ID, got)
			}
			if figure.Find(`.wires-all path[data-path="`+p.ID+`"]`).Length() != 1 {
				t.Errorf("%s.%s: no wire", f.ID, p.ID)
			}
		}
		if got := figure.AttrOr("data-src", ""); got != page.URL+"/figures/"+f.ID {
			t.Errorf("%s: data-src %q", f.ID, got)
		}
	}
	if got := doc.Find("figure#two .key").Text(); !strings.Contains(got, "Valkey 8.0.1") || !strings.Contains(got, "commands_received") {
		t.Errorf("a figure without a key shows %q, want the server and what is read from it", got)
	}
	if doc.Find("article > .page-lead > figure#one-lock").Length() != 1 {
		t.Error("the figure at the top doesn't stand before the contents")
	}
}

func TestRunInPlace(t *testing.T) {
	site, page := testSite(t), twoFigures()
	f, p := page.Figures[0], page.Figures[0].Paths[1]
	run := ran(f, p, figures.Granted)
	doc := render(t, Page(site, page, run))
	if got := doc.Find("figure[data-lit=live]").Length(); got != 1 {
		t.Errorf("%d figures are lit, want 1", got)
	}
	if got := doc.Find("figure#one-lock .say.on").Length(); got != 1 {
		t.Errorf("%d verdicts show, want 1", got)
	}
	if got := doc.Find("figure#one-lock li.lit a").AttrOr("data-path", ""); got != p.ID {
		t.Errorf("lit is %q, want %q", got, p.ID)
	}

	run = card.Run{Figure: f, Path: p, Trouble: "The sandbox is busy."}
	doc = render(t, Page(site, page, run))
	on := doc.Find("figure#one-lock .say.on")
	if got := strings.TrimSpace(on.Find(".say-source").Text()); got != "recorded · The sandbox is busy." {
		t.Errorf("source of a run that could not be: %q", got)
	}
	if got := on.Find(".say-text").Text(); got != p.Static {
		t.Errorf("it shows %q, want the recorded verdict", got)
	}
}

func TestNamesStandAsTyped(t *testing.T) {
	doc := render(t, Gallery(testSite(t)))
	var labels []string
	doc.Find("figure#markup .path-label").Each(func(_ int, s *goquery.Selection) { labels = append(labels, s.Text()) })
	if diff := cmp.Diff([]string{`</script><b>bold</b>`, `" onfocus="x`, `O'Brien & Co`}, labels); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenPageListsFaults(t *testing.T) {
	got := strings.Join(strings.Fields(everyPage(t)["broken"].Find(".faults li").Text()), " ")
	for _, want := range []string{"x/broken.md:3", "unknown key", "did you mean title?"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

// TestFigureInRealTime is the figure before and after a run, as the page has it.
func TestFigureInRealTime(t *testing.T) {
	step := func(command string) figures.Step {
		return figures.Step{Does: figures.Send{Actor: "A", Command: expr.Command{Source: command}}}
	}
	f := &figures.Figure{ID: "job", Title: "A job", Resource: "resource:lock", Actors: []figures.Actor{{Name: "A"}}}
	p := &figures.Path{ID: "p", Label: "a path", Actor: "A", Steps: []figures.Step{step("SET resource:lock a NX PX 300"), step("DEL resource:lock")}}
	p.Steps[1].Timed, p.Steps[1].At = true, 700*time.Millisecond
	f.Paths = []*figures.Path{p}
	result := &figures.Result{Asked: figures.Asked{Figure: f.ID, Path: p.ID}, Trace: []figures.Entry{{AtUS: 1000, Phase: figures.PhaseSteps, Actor: "A", Command: "SET resource:lock a NX PX 300", Reply: "OK"}}}
	page := twoFigures()
	page.Figures[0] = f
	page.Body[0].Figure = f
	idle := render(t, Page(testSite(t), page, card.Run{}))
	link := idle.Find(`#job a.path`)
	if takes, _ := link.Attr("data-timed"); takes != "0.7 s" || !strings.Contains(link.Text(), "runs 0.7 s") {
		t.Errorf("the link doesn't say how long its path takes: %q, %q", takes, link.Text())
	}
	if idle.Find(`#job .timed-idle [role="img"][aria-label]`).Length() != 1 {
		t.Error("a figure that hasn't run shows no empty picture")
	}
	for _, asset := range []string{`link[rel="stylesheet"][href*="timed."]`, `[data-module="timed"]`} {
		if idle.Find("head "+asset).Length() != 1 {
			t.Errorf("the page doesn't name %s", asset)
		}
	}
	run := render(t, Page(testSite(t), page, card.Run{Figure: f, Path: p, Result: result}))
	if run.Find(`#job > .timed .moments`).Length() != 1 {
		t.Error("a page that was asked for a run doesn't show its moments")
	}
	if run.Find(`#job template[data-idle]`).Length() != 1 {
		t.Error("a page that was asked for a run has no empty picture to go back to")
	}
	if render(t, card.Verdict(f, result)).Find(`.verdict > [data-part="timed"] .moments`).Length() != 1 {
		t.Error("the verdict has no picture of its run")
	}
	plain := render(t, Page(testSite(t), twoFigures(), card.Run{}))
	if plain.Find(`.timed, [href*="timed."], [data-timed]`).Length() != 0 {
		t.Error("a page without a path in real time carries what they need")
	}
}

// Text that isn't escaped comes in through one door.
func TestOneRaw(t *testing.T) {
	read, n := 0, 0
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".templ" {
			return err
		}
		text, err := os.ReadFile(name)
		read++
		n += strings.Count(string(text), "templ.Raw")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if read == 0 || n != 1 {
		t.Errorf("templ.Raw stands %d times in %d templates, want 1", n, read)
	}
}
