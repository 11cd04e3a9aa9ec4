package browser_test

import (
	"strings"
	"testing"

	"lockstep/tests/course"
)

// TestTapWords: what tells readers to point tells those who touch to tap.
func TestTapWords(t *testing.T) {
	for _, c := range []struct {
		name   string
		window size
		touch  bool
		want   string
		not    string
	}{
		{"pointer", desktop, false, "Point at", "Tap"},
		{"touch", phone, true, "Tap", "Point at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := openTab(t, c.window)
			if c.touch {
				b.touch(true)
			}
			b.open(course.Hub)
			b.js(`document.querySelector('#race .ran').open = true`, nil)
			var texts []string
			b.js(`[...document.querySelectorAll('#race .say-idle, #race .ran-none')].map((el) => el.innerText)`, &texts)
			if len(texts) != 2 {
				t.Fatalf("the figure says %q", texts)
			}
			for _, text := range texts {
				if !strings.Contains(text, c.want+" a ") || strings.Contains(text, c.not) {
					t.Errorf("the figure says %q", text)
				}
			}
		})
	}
}

// TestChartSaysWhose points at another path than the one whose chart stands.
func TestChartSaysWhose(t *testing.T) {
	b := openTab(t, desktop)
	b.open(course.Hub)
	whose := func() (text string) {
		b.js(`document.querySelector('#contention .timed-title').innerText`, &text)
		return text
	}
	b.click(pathOf(timedFigure, timedPath))
	b.leave()
	b.live(timedFigure, timedPath)
	if text := whose(); strings.Contains(text, "still") {
		t.Errorf("under its own verdict the chart says %q", text)
	}
	b.scrollTo(pathOf(timedFigure, "one-command"))
	b.point(timedFigure, "one-command")
	b.recorded(timedFigure, "one-command")
	var label string
	b.js(`document.querySelector('#contention a.path[data-path="locked"] .path-label').innerText`, &label)
	if text := whose(); !strings.HasPrefix(text, "still the run of") || !strings.Contains(text, label) {
		t.Errorf("under the verdict of another path the chart says %q", text)
	}
}
