package components

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/a-h/templ"
	"github.com/google/go-cmp/cmp"

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
	home := &content.Page{Title: "Home", TitleHTML: "Home", URL: "/", Kind: content.KindHome, File: "index.md"}
	return Site{
		Engine: sandbox.Engine{Name: "valkey", Version: "8.0.1"},
		Assets: assets,
		Course: &content.Course{Home: home},
	}
}

// twoFigures is a page with two figures that share the ids of their paths.
func twoFigures() *content.Page {
	one := labelled("one-lock", "One lock", "resource:lock", []string{"blind DEL", "token-checked release"})
	two := observing("two")
	return &content.Page{
		ID: "R1", Title: "Two figures", TitleHTML: "Two figures", URL: "/course/two", File: "two.md", Kind: content.KindDive,
		Lede: "A promise.", Grounding: "Somewhere.",
		Figures:  []*figures.Figure{one, two},
		Headings: []content.Heading{{Level: 2, Number: 1, ID: "first", Text: "First", HTML: "First"}, {Level: 2, Number: 2, ID: "second", Text: "Second", HTML: "Second"}},
		Body:     []content.Part{{Figure: one, Number: 1}, {HTML: `<section aria-labelledby="first"><h2 id="first">First</h2>`}, {Figure: two, Number: 2}, {HTML: `</section><h2 id="second">Second</h2>`}},
		Sources:  []content.Source{{Title: "A book"}},
	}
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
	broken := &content.Page{Title: "Broken", File: "x/broken.md", Faults: figures.Faults{{File: "x/broken.md", Line: 3, Message: "unknown key", Hint: "did you mean title?"}}}
	folder := &content.Page{Title: "Folder", Name: "Folder", URL: "/course", Kind: content.KindChapter, Children: []*content.Page{page}}
	site.Course.Home.Children = []*content.Page{folder}
	site.Course.Pages = []*content.Page{folder, page}
	lit := &Run{Figure: page.Figures[0], Path: page.Figures[0].Paths[0]}
	lit.Result = sample(lit.Figure, lit.Path, figures.Broken, site.Engine)
	return map[string]*goquery.Document{
		"page":     render(t, Page(site, page, nil)),
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
	doc := render(t, Page(testSite(t), page, nil))
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

// What a run returns has to fit where the figure has room for it: figure.js
// replaces parts by their names.
func TestVerdictHasTheFiguresParts(t *testing.T) {
	site, page := testSite(t), twoFigures()
	f, p := page.Figures[0], page.Figures[0].Paths[0]
	result := sample(f, p, figures.Broken, site.Engine)
	parts := func(s *goquery.Selection) []string {
		return s.Find("[data-part]").Map(func(_ int, s *goquery.Selection) string { return s.AttrOr("data-part", "") })
	}
	verdict := render(t, Verdict(f, result)).Find(".verdict")
	if diff := cmp.Diff([]string{"readout", "wire", "key", "ran"}, parts(verdict)); diff != "" {
		t.Errorf("parts of a verdict (-want +got):\n%s", diff)
	}
	idle := render(t, Figure(page, 1, f, site.Engine, nil)).Find("figure")
	if diff := cmp.Diff([]string{"wire", "key", "ran"}, parts(idle)); diff != "" {
		t.Errorf("parts of a figure at rest (-want +got):\n%s", diff)
	}
	want := "Client A, blind DEL: broken. The recorded verdict of this path: blind DEL. Live, Valkey 8.0.1."
	if got := verdict.AttrOr("data-announce", ""); got != want {
		t.Errorf("announced %q\n    want %q", got, want)
	}
	if got := verdict.Find(".say-source").Text(); got != "live · Valkey 8.0.1 · 9 commands · 23.5 ms" {
		t.Errorf("source %q", got)
	}
	simulation := render(t, Verdict(f, sample(f, p, figures.Safe, sandbox.Engine{Name: "miniredis", Mode: sandbox.Embedded})))
	if got := simulation.Find(".say-source").Text(); !strings.HasPrefix(got, "simulated, not Valkey") {
		t.Errorf("a simulated verdict says %q", got)
	}
}

func TestRunInPlace(t *testing.T) {
	site, page := testSite(t), twoFigures()
	f, p := page.Figures[0], page.Figures[0].Paths[1]
	run := &Run{Figure: f, Path: p, Result: sample(f, p, figures.Granted, site.Engine)}
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

	run = &Run{Figure: f, Path: p, Trouble: "The sandbox is busy."}
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

func TestRecordedStatus(t *testing.T) {
	rule := func(s figures.Status, text string) figures.Rule {
		return figures.Rule{Status: s, Text: expr.Template{Source: text}}
	}
	for _, test := range []struct {
		static string
		rules  []figures.Rule
		want   figures.Status
	}{
		{"A wins.", []figures.Rule{rule(figures.Granted, "A wins."), rule(figures.Refused, "A loses.")}, figures.Granted},
		{"31 of 84 schedules let two in.", []figures.Rule{rule(figures.Broken, "{{violations.exclusion}} of {{ schedules }} schedules let two in.")}, figures.Broken},
		{"C wins.", []figures.Rule{rule(figures.Granted, "{{~ winner }} wins.")}, figures.Granted},
		{"B wins.", []figures.Rule{rule(figures.Granted, "{{a}} wins."), rule(figures.Broken, "B wins.")}, figures.Unjudged},
		{"Nobody said this.", []figures.Rule{rule(figures.Safe, "A.")}, figures.Unjudged},
	} {
		if got := recorded(&figures.Path{Static: test.static, Verdicts: test.rules}); got != test.want {
			t.Errorf("recorded(%q) = %v, want %v", test.static, got, test.want)
		}
	}
}

func TestPrintReply(t *testing.T) {
	for _, test := range []struct {
		reply sandbox.Value
		want  string
	}{
		{nil, "(nil)"},
		{"OK", "OK"},
		{"abc", `"abc"`},
		{"a\nb", `"a\nb"`},
		{int64(-2), "(integer) -2"},
		{sandbox.Error("EMQSTALE the claim is not the latest"), "(error) EMQSTALE the claim is not the latest"},
		{[]any{}, "(empty array)"},
		{[]any{"a", nil, int64(1)}, "1) \"a\"\n2) (nil)\n3) (integer) 1"},
		{[]any{"a", []any{"b", "c"}}, "1) \"a\"\n2) 1) \"b\"\n   2) \"c\""},
	} {
		if got := printReply(test.reply); got != test.want {
			t.Errorf("printReply(%v):\n%s\nwant:\n%s", test.reply, got, test.want)
		}
	}
}

func TestShellCommand(t *testing.T) {
	for line, want := range map[string]string{
		"SET resource:lock abc NX PX 30000":        "valkey-cli SET resource:lock abc NX PX 30000",
		`SET k "two words"`:                        "valkey-cli SET k 'two words'",
		`SET k "it's"`:                             `valkey-cli SET k 'it'\''s'`,
		"EVAL release.lua 1 resource:lock abc":     "valkey-cli --eval lua/release.lua resource:lock , abc",
		"EVAL emq_claim.lua 2 emq:{q}:p k job: 30": "valkey-cli --eval lua/emq_claim.lua 'emq:{q}:p' k , job: 30",
	} {
		if got := shellCommand(line); got != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		ms(410): "0.41", ms(21_310): "21.3", ms(1_234_567): "1,235",
		group(29998): "29,998", group(-1200): "-1,200", group(7): "7",
		lease(-1): "no expiry", lease(-2): "no key", lease(29998): "29,998 ms left",
		count(1, "command"): "1 command", count(1270, "schedule"): "1,270 schedules",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Wires start in the middle of their rows and end in one point, whatever their
// number.
func TestWire(t *testing.T) {
	if got, want := wire(0, 4), "M0 50H62C84 50 78 200 100 200"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := wireBox(4), "0 0 100 400"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Text that isn't escaped comes in through one door.
func TestOneRaw(t *testing.T) {
	templates, err := fs.Glob(os.DirFS("."), "*.templ")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range templates {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(text), "templ.Raw")
	}
	if n != 1 {
		t.Errorf("templ.Raw stands %d times, want 1", n)
	}
}
