package static_test

import (
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
	one, two := load("a{}"), load("b{}")
	url := one.URL("site.css")
	if url == two.URL("site.css") {
		t.Errorf("two contents share the address %s", url)
	}
	f, ok := one.File(strings.TrimPrefix(url, static.Prefix))
	if !ok || string(f.Body) != "a{}" || f.Type != "text/css; charset=utf-8" {
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
	for _, name := range []string{"site.css", "site.js", "figure.js", "theme.js", "favicon.svg"} {
		if _, ok := a.File(strings.TrimPrefix(a.URL(name), static.Prefix)); !ok {
			t.Errorf("no %s", name)
		}
	}
}
