package static_test

import (
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"lockstep/static"
)

func TestAssetsAreNamedByTheirContent(t *testing.T) {
	load := func(css string) *static.Assets {
		a, err := static.Load(fstest.MapFS{
			"site.css":  {Data: []byte(css)},
			"README.md": {Data: []byte("not an asset")},
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	one, two := load("a{color:red}"), load("b{color:red}")
	url := one.URL("site.css")
	if url == two.URL("site.css") {
		t.Errorf("two contents share the address %s", url)
	}
	f, ok := one.File(strings.TrimPrefix(url, static.Prefix))
	if !ok || string(f.Body) != "a{color:red}" || f.Type != "text/css; charset=utf-8" {
		t.Errorf("File(%q) = %+v, %v", url, f, ok)
	}
	if n := len(one.Files()); n != 1 {
		t.Errorf("got %d files, want 1", n)
	}
}

func TestEmbeddedAssets(t *testing.T) {
	a, err := static.Load(static.FS())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"site.css", "site.js", "figure.js", "early.js", "favicon.svg"} {
		if _, ok := a.File(strings.TrimPrefix(a.URL(name), static.Prefix)); !ok {
			t.Errorf("no %s", name)
		}
	}
}

// Every colour that says something has to be readable on every ground, in the
// light and in the dark theme.
func TestContrast(t *testing.T) {
	css, err := fs.ReadFile(static.FS(), "site.css")
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);`).FindAllStringSubmatch(string(css), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	statuses := []string{"granted", "refused", "safe", "broken", "deadlock"}
	for theme, name := range []string{"light", "dark"} {
		colour := func(name string) string {
			c, ok := colours[name]
			if !ok {
				t.Fatalf("the style sheet has no colour %s", name)
			}
			return c[theme]
		}
		check := func(fore, ground string, what string, least float64) {
			if got := contrast(fore, ground); got < least {
				t.Errorf("%s: %s has a contrast of %.2f, want %.1f", name, what, got, least)
			}
		}
		for _, ground := range []string{"paper", "card", "sunk"} {
			for _, fore := range append(statuses, "ink", "soft", "accent") {
				check(colour(fore), colour(ground), fore+" on "+ground, 4.5)
			}
			check(colour("edge"), colour(ground), "an edge on "+ground, 3)
		}
		for _, status := range statuses {
			check(colour("card"), colour(status), "the word of a tag on "+status, 4.5)
			tint := mix(colour(status), colour("card"), 0.1) // more than the sheet's 7 %
			for _, fore := range []string{"ink", "soft", status} {
				check(colour(fore), tint, fore+" on a box lit by "+status, 4.5)
			}
		}
	}
}

func channels(colour string) [3]float64 {
	var c [3]float64
	for i := range c {
		n, _ := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		c[i] = float64(n)
	}
	return c
}

func mix(a, b string, part float64) string {
	x, y := channels(a), channels(b)
	for i := range x {
		x[i] = math.Round(part*x[i] + (1-part)*y[i])
	}
	return fmt.Sprintf("#%02x%02x%02x", int(x[0]), int(x[1]), int(x[2]))
}

// contrast is WCAG's ratio of two colours.
func contrast(a, b string) float64 {
	luminance := func(colour string) float64 {
		c := channels(colour)
		for i, v := range c {
			v /= 255
			if v <= 0.04045 {
				c[i] = v / 12.92
			} else {
				c[i] = math.Pow((v+0.055)/1.055, 2.4)
			}
		}
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	light, dark := luminance(a), luminance(b)
	if light < dark {
		light, dark = dark, light
	}
	return (light + 0.05) / (dark + 0.05)
}
