package browser_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/cdproto/page"

	"lockstep/tests/course"
)

// TestShots makes screenshots of the main states, where LOCKSTEP_SHOTS names a
// folder for them.
func TestShots(t *testing.T) {
	dir := os.Getenv("LOCKSTEP_SHOTS")
	if dir == "" {
		t.Skip("LOCKSTEP_SHOTS names no folder")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, width := range []int64{390, 820, 1360} {
		for _, scheme := range []string{"light", "dark"} {
			b := openTab(t, size{width, 900})
			b.allow("/nope")
			b.prefer("prefers-color-scheme", scheme)
			shot := func(name string) {
				t.Helper()
				b.wait("nothing moves", `document.getAnimations().every((a) => a.playState !== 'running' || a.effect.getComputedTiming().iterations === Infinity)`)
				png := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
				file := fmt.Sprintf("%s/%s-%d-%s.png", dir, name, width, scheme)
				if err := os.WriteFile(file, png, 0o644); err != nil {
					t.Fatal(err)
				}
				n++
			}
			for name, address := range map[string]string{
				"home": "/", "hub": course.Hub, "dive-1": course.Hub + "/set-nx-px", "dive-2": course.Hub + "/fencing-tokens", "dive-3": course.Hub + "/lease-renewal",
				"how-to-read": "/how-to-read", "search": "/search?q=fence", "not-found": "/nope",
			} {
				b.open(address)
				shot(name)
			}
			for _, state := range []struct{ name, address, figure, path, part string }{
				{"live", course.Hub, "race", "a", ""},
				{"ran", course.Hub, "race", "b", ".ran"},
				{"broken", course.Hub + "/fencing-tokens", "lost-lock", "blind-del", ""},
				{"deadlock", course.Hub, "race", "crash-without-px", ""},
				{"explored", course.Hub + "/fencing-tokens", "every-release", "blind-del", ""},
				{"timeline", course.Hub + "/fencing-tokens", "every-release", "blind-del", `[data-part="timeline"]`},
				{"dense", course.Hub, "every-order", "without-nx", ""},
				{"timed", course.Hub + "/lease-renewal", "long-job", "none", ""},
				{"moments", course.Hub + "/lease-renewal", "long-job", "none", ".timed"},
				{"load", course.Hub, "contention", "locked", ""},
				{"failover", course.Hub, "failover", "lost", ""},
			} {
				b.open(state.address)
				b.js(fmt.Sprintf(`document.querySelector('#%s').scrollIntoView({ behavior: 'instant' }); document.querySelector(%q).click()`, state.figure, pathOf(state.figure, state.path)), nil)
				b.live(state.figure, state.path)
				b.js(fmt.Sprintf(`document.querySelectorAll('#%[1]s details').forEach((d) => { d.open = %[2]q !== ''; }); document.querySelector('#%[1]s ' + %[2]q).scrollIntoView({ behavior: 'instant' })`, state.figure, state.part), nil)
				shot(state.name)
			}
			b.open(course.Hub + "/fencing-tokens?run=every-release.blind-del&schedule=A.A.lapse.B#every-release")
			b.wait("the map has come", `document.querySelectorAll('#every-release .orders-map .cell').length === 324`)
			b.js(`document.querySelector('#every-release .scheduler').scrollIntoView({ behavior: 'instant' })`, nil)
			shot("scheduler")
		}
	}
	t.Logf("%d screenshots in %s", n, dir)
}
