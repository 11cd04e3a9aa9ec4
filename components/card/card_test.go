package card

import (
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/a-h/templ"
	"github.com/google/go-cmp/cmp"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/figures/expr"
	"lockstep/sandbox"
)

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

// What a run returns has to fit where the figure has room for it: figure.js
// replaces parts by their names.
func TestVerdictHasTheFiguresParts(t *testing.T) {
	f := labelled("one-lock", "One lock", "resource:lock", []string{"blind DEL", "token-checked release"})
	p := f.Paths[0]
	result := sample(f, p, figures.Broken, valkey)
	parts := func(s *goquery.Selection) []string {
		return s.Find("[data-part]").Map(func(_ int, s *goquery.Selection) string { return s.AttrOr("data-part", "") })
	}
	verdict := render(t, Verdict(f, result)).Find(".verdict")
	if diff := cmp.Diff([]string{"readout", "wire", "key", "ran"}, parts(verdict)); diff != "" {
		t.Errorf("parts of a verdict (-want +got):\n%s", diff)
	}
	idle := render(t, Figure(f, Stage{Page: "/course/two", Number: 1, Engine: valkey})).Find("figure")
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
		say.Number(29998): "29,998", say.Number(-1200): "-1,200", say.Number(7): "7",
		lease(-1): "no expiry", lease(-2): "no key", lease(29998): "29,998 ms left",
		say.Count(1, "command"): "1 command", say.Count(1270, "schedule"): "1,270 schedules",
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
