package browser_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lockstep/content"
	"lockstep/tests/course"
	"lockstep/tests/programs"
)

// TestLighthouse runs Lighthouse over the hub and the dives. It takes minutes,
// and its scores of speed mean something on a quiet machine only.
func TestLighthouse(t *testing.T) {
	if os.Getenv("LOCKSTEP_LIGHTHOUSE") == "" {
		t.Skip("LOCKSTEP_LIGHTHOUSE is not set")
	}
	s := course.Visit(t)
	chrome := programs.Need(t, browsers...)
	node := programs.Need(t, "node")
	cli := filepath.Join(programs.NPM(t, "lighthouse", "12.2.3"), "cli", "index.js")
	for _, p := range s.Course.Pages {
		if p.Kind != content.KindModule && p.Kind != content.KindDive {
			continue
		}
		for _, form := range []string{"desktop", "mobile"} {
			t.Run(p.ID+" "+form, func(t *testing.T) {
				out := filepath.Join(t.TempDir(), "report.json")
				args := []string{cli, s.URL + p.URL, "--quiet", "--output=json", "--output-path=" + out, "--chrome-flags=--headless=new --no-sandbox --disable-gpu"}
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
