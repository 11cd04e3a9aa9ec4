package process_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"lockstep/handlers"
	"lockstep/tests/course"
)

// A folder is a course on disk, as an author has it open.
type folder struct {
	t    *testing.T
	root string
}

// save writes a file, as an editor does that writes beside it and renames.
func (f folder) save(name, text string) {
	f.t.Helper()
	full := filepath.Join(f.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		f.t.Fatal(err)
	}
	beside := full + "~"
	if err := os.WriteFile(beside, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(beside, full); err != nil {
		f.t.Fatal(err)
	}
}

// copy saves a page of the tests' own.
func (f folder) copy(name string) {
	f.t.Helper()
	text, err := os.ReadFile("../testdata/" + name)
	if err != nil {
		f.t.Fatal(err)
	}
	f.save("course/chapter/module/"+name, string(text))
}

// dive is a page with one figure, whose path answers with its token.
func dive(id, title, token string) string {
	return fmt.Sprintf(`---
id: %s
title: %s
---

## A section

Some words.

%[4]sfigure
id: lock
title: One lock
paths:
  - id: take
    label: take it
    steps:
      - A: SET lock %[3]s NX
        as: got
    observe: {holder: GET lock}
    verdicts:
      - when: got == "OK"
        status: granted
        text: A holds {{holder}}.
    static: A holds %[3]s.
%[4]s
`, id, title, token, "```")
}

// TestReload edits a course on disk: what is saved shows at the next request,
// and a broken page says what is wrong while all others go on working.
func TestReload(t *testing.T) {
	t.Parallel()
	disk := folder{t, t.TempDir()}
	const address = "/course/chapter/module/"
	disk.save("course/chapter/module/one.md", dive("A.1", "One", "abc"))
	disk.save("course/chapter/module/two.md", dive("A.2", "Two", "xyz"))
	s := course.Open(t, course.Setup{Content: os.DirFS(disk.root), Settings: handlers.Settings{Reload: true}})
	page := func(name string, code int) *goquery.Document {
		t.Helper()
		a := course.Fetch(t, s.URL+address+name, course.HTML)
		if a.Code != code {
			t.Fatalf("%s answers %d, want %d", name, a.Code, code)
		}
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.Body))
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	says := func(name, selector, want string) {
		t.Helper()
		if got := strings.Join(strings.Fields(page(name, http.StatusOK).Find(selector).Text()), " "); !strings.Contains(got, want) {
			t.Errorf("%s: %s says %q, want %q", name, selector, got, want)
		}
	}
	runs := func(name, want string) {
		t.Helper()
		a := course.Fetch(t, s.URL+address+name+"/figures/lock/take", course.JSON)
		if a.Code != http.StatusOK || !strings.Contains(a.Body, want) {
			t.Errorf("%s: a run answers %d %s, want %q", name, a.Code, a.Body, want)
		}
	}
	says("one", "h1", "One")
	runs("one", "A holds abc.")

	t.Run("an edit", func(t *testing.T) {
		disk.save("course/chapter/module/one.md", dive("A.1", "One, edited", "new"))
		says("one", "h1", "One, edited")
		says("one", ".say-text", "A holds new.")
		runs("one", "A holds new.")
		says("two", "h1", "Two")
	})
	t.Run("an edit of the same length", func(t *testing.T) {
		disk.save("course/chapter/module/one.md", dive("A.1", "One, edited", "now"))
		says("one", ".say-text", "A holds now.")
	})
	t.Run("many edits in a row", func(t *testing.T) {
		for i := range 20 {
			token := fmt.Sprint("n", i)
			disk.save("course/chapter/module/one.md", dive("A.1", "One", token))
			says("one", ".say-text", "A holds "+token+".")
			runs("one", "A holds "+token+".")
		}
	})
	t.Run("a new page", func(t *testing.T) {
		page("three", http.StatusNotFound)
		disk.save("course/chapter/module/three.md", dive("A.3", "Three", "333"))
		says("three", "h1", "Three")
		runs("three", "A holds 333.")
		says("two", `a[rel="next"]`, "Three")
	})
	t.Run("a broken page", func(t *testing.T) {
		broken := strings.Replace(dive("A.1", "One", "abc"), "    label: take it", "    lable: take it", 1)
		disk.save("course/chapter/module/one.md", broken)
		says("one", ".faults", "course/chapter/module/one.md:15")
		says("one", ".faults", `"lable"`)
		says("one", ".faults", "label")
		says("two", "h1", "Two")
		runs("two", "A holds xyz.")
		a := course.Fetch(t, s.URL+address+"one/figures/lock/take", course.JSON)
		if a.Code < 400 {
			t.Errorf("a figure of a broken page answers %d", a.Code)
		}
		disk.save("course/chapter/module/one.md", dive("A.1", "One, mended", "abc"))
		says("one", "h1", "One, mended")
		runs("one", "A holds abc.")
	})
	for name, text := range map[string]string{
		"no front matter":       "Nothing but words.\n",
		"an empty file":         "",
		"half a file":           "---\nid: A.1\n",
		"front matter, no YAML": "---\nid: [\n---\n",
		"bytes that are none":   "---\nid: A.1\ntitle: \xff\xfe\n---\n\x00\x00",
		"a figure of no YAML":   "---\nid: A.1\ntitle: One\n---\n\n```figure\n}{\n```\n",
		"an unclosed fence":     "---\nid: A.1\ntitle: One\n---\n\n```figure\nid: lock\n",
	} {
		t.Run(name, func(t *testing.T) {
			disk.save("course/chapter/module/one.md", text)
			says("one", ".faults", "course/chapter/module/one.md")
			says("two", "h1", "Two")
			runs("two", "A holds xyz.")
			if home := course.Fetch(t, s.URL+"/", course.HTML); home.Code != http.StatusOK {
				t.Errorf("the home page answers %d", home.Code)
			}
		})
	}
	t.Run("mended", func(t *testing.T) {
		disk.save("course/chapter/module/one.md", dive("A.1", "One", "abc"))
		says("one", "h1", "One")
		runs("one", "A holds abc.")
	})
	t.Run("a page that is gone", func(t *testing.T) {
		if err := os.Remove(filepath.Join(disk.root, "course/chapter/module/three.md")); err != nil {
			t.Fatal(err)
		}
		page("three", http.StatusNotFound)
		says("one", "h1", "One")
	})
	t.Run("an editor's leftovers", func(t *testing.T) {
		disk.save("course/chapter/module/.one.md.swp", "nothing")
		disk.save("course/chapter/module/#one.md#", "nothing")
		disk.save("course/chapter/module/README.md", "# For authors")
		says("one", "h1", "One")
		page("README", http.StatusNotFound)
	})
	t.Run("a link out of the folder", func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "secret.md")
		if err := os.WriteFile(outside, []byte(dive("A.9", "Secret", "abc")), 0o644); err != nil {
			t.Fatal(err)
		}
		in := filepath.Join(disk.root, "course/chapter/module/nine.md")
		if err := os.Symlink(outside, in); err != nil {
			t.Skip(err)
		}
		defer os.Remove(in)
		a := course.Fetch(t, s.URL+address+"nine", course.HTML)
		if a.Code == http.StatusOK && strings.Contains(a.Body, "Secret") {
			t.Logf("a link out of the folder is followed, as the one who runs the site may want")
		}
		says("one", "h1", "One")
	})
	t.Run("readers while an author saves", func(t *testing.T) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 20 {
					a, err := course.Ask(http.DefaultClient, s.URL+address+"two", course.HTML)
					if err != nil || a.Code != http.StatusOK || !strings.Contains(a.Body, "A holds xyz.") {
						t.Errorf("two answers %d, %v, while one is saved", a.Code, err)
						return
					}
				}
			})
		}
		for i := range 20 {
			disk.save("course/chapter/module/one.md", dive("A.1", "One", fmt.Sprint("r", i)))
		}
		all.Wait()
		says("one", ".say-text", "A holds r19.")
	})
}

// TestLineEnds serves the same page with Unix and Windows line ends and with a
// byte order mark: a reader sees no difference.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	disk := folder{t, t.TempDir()}
	text := dive("A.1", "One", "abc")
	disk.save("course/chapter/module/one.md", text)
	s := course.Open(t, course.Setup{Content: os.DirFS(disk.root), Settings: handlers.Settings{Reload: true}})
	want := course.Fetch(t, s.URL+"/course/chapter/module/one", course.HTML)
	if want.Code != http.StatusOK || !strings.Contains(want.Body, "A holds abc.") {
		t.Fatalf("%d %s", want.Code, want.Body)
	}
	crlf := strings.ReplaceAll(text, "\n", "\r\n")
	for name, text := range map[string]string{
		"CRLF":         crlf,
		"BOM":          "\ufeff" + text,
		"BOM and CRLF": "\ufeff" + crlf,
		"no last line": strings.TrimSuffix(text, "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			disk.save("course/chapter/module/one.md", text)
			got := course.Fetch(t, s.URL+"/course/chapter/module/one", course.HTML)
			if got.Body != want.Body {
				t.Errorf("it differs: %d bytes and %d", len(got.Body), len(want.Body))
			}
			a := course.Fetch(t, s.URL+"/course/chapter/module/one/figures/lock/take", course.JSON)
			if !strings.Contains(a.Body, "A holds abc.") {
				t.Errorf("a run says %s", a.Body)
			}
		})
	}
}
