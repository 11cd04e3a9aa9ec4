package run

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheckExcuses checks paths whose verdict is a text that any static would
// agree with: it is no agreement.
func TestCheckExcuses(t *testing.T) {
	runner := testRunner(t)
	for name, test := range map[string]struct{ rule, want string }{
		"an excuse": {`{status: broken, text: '{{~ "This machine is busy."}}'}`, "no rule held in 3 runs"},
		"a verdict": {`{status: granted, text: 'A reads {{~ r}}.'}`, ""},
	} {
		fig := figureOf(t, `
id: f
actors: {A: a}
paths:
  - id: p
    steps:
      - A: SET l 1
        as: r
    verdicts:
      - {when: 'r == "no"', status: refused, text: A reads no.}
      - `+test.rule+`
    static: A reads OK.
`)
		faults, err := runner.Check(t.Context(), fig)
		if err != nil {
			t.Fatal(err)
		}
		if got := faults.Error(); (len(faults) > 0) != (test.want != "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestCheckOverBudget checks a path that is too large to be explored.
func TestCheckOverBudget(t *testing.T) {
	var b strings.Builder
	b.WriteString("id: big\npaths:\n  - id: all\n    programs:\n")
	for _, n := range "ABCDE" {
		fmt.Fprintf(&b, "      %c:\n%s", n, strings.Repeat("        - do: RPUSH log {{self}}\n", 4))
	}
	b.WriteString("    verdicts: [{status: safe, text: done}]\n")
	fig := figureOf(t, b.String())
	runner := testRunner(t)
	faults, err := runner.Check(t.Context(), fig)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(faults.Error(), "dive.md:3: path \"all\" is over the budget of an exploration: ") {
		t.Errorf("faults: %v", faults)
	}
}
