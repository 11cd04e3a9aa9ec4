package say

import (
	"strings"
	"testing"
)

// TestPointing has both words for whoever points and whoever taps, and writes
// everything else as it is.
func TestPointing(t *testing.T) {
	both := func(point, tap string) string {
		return `<span class="by-pointer">` + point + `</span><span class="by-touch" hidden>` + tap + `</span>`
	}
	for text, want := range map[string]string{
		"B holds it. Point at a release.":   "B holds it. " + both("Point at", "Tap") + " a release.",
		"the one that you point at; <more>": "the one that you " + both("point at", "tap") + "; &lt;more&gt;",
		"Which point atones?":               "Which point atones?",
		"指向一条路径":                            "指向一条路径",
	} {
		var b strings.Builder
		if err := Pointing(text).Render(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("%q is written %s, want %s", text, b.String(), want)
		}
	}
}
