package content_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"lockstep/content"
	"lockstep/lua"
)

var update = flag.Bool("update", false, "rewrite what the files of testdata want")

func scripts(t testing.TB) lua.Scripts {
	t.Helper()
	s, err := lua.Load(lua.FS())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCourse reads the course itself.
func TestCourse(t *testing.T) {
	course, faults := content.Load(content.FS(), scripts(t))
	for _, f := range faults {
		t.Error(f)
	}
	p, ok := course.Page("/redis-patterns/coordination/distributed-locking")
	if !ok {
		t.Fatal("the hub is missing")
	}
	if got, want := p.Eyebrow, "R2.02 · Coordination · module"; got != want {
		t.Errorf("the hub's eyebrow is %q, want %q", got, want)
	}
}

// TestEmbedded checks that no page of this folder is left out of the program,
// and that nothing else is taken in.
func TestEmbedded(t *testing.T) {
	list := func(fsys fs.FS) (names []string) {
		err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".md") {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	if diff := cmp.Diff(list(os.DirFS(".")), list(content.FS())); diff != "" {
		t.Errorf("on disk (-) and in the program (+):\n%s", diff)
	}
	if matches, _ := fs.Glob(content.FS(), "*.go"); len(matches) > 0 {
		t.Errorf("the program carries %v", matches)
	}
}

// TestGuide checks that the dive in the author's guide is one, in its place.
func TestGuide(t *testing.T) {
	guide, err := fs.ReadFile(content.FS(), "README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "Save this as `content/")
	file, rest, _ := strings.Cut(rest, "`")
	_, rest, _ = strings.Cut(rest, "````markdown\n")
	dive, _, ok := strings.Cut(rest, "````\n")
	if !ok {
		t.Fatal("the guide holds no dive")
	}
	give := fstest.MapFS{file: {Data: []byte(dive)}}
	course, _ := content.Load(content.FS(), scripts(t))
	for _, p := range course.Pages {
		if p.File == "" {
			continue
		}
		text, err := fs.ReadFile(content.FS(), p.File)
		if err != nil {
			t.Fatal(err)
		}
		give[p.File] = &fstest.MapFile{Data: text}
	}
	course, faults := content.Load(give, scripts(t))
	for _, f := range faults {
		if f.File == file {
			t.Error(f)
		}
	}
	p, ok := course.Page("/" + strings.TrimSuffix(file, ".md"))
	if !ok || len(p.Figures) != 1 || p.Prev == nil {
		t.Errorf("the guide's dive is %+v", p)
	}
}

// TestGolden reads the files of each archive in testdata as a content folder and
// compares its pages with those that the archive wants.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			give := fstest.MapFS{}
			want := map[string]string{}
			kept := archive.Files[:0:0]
			for _, f := range archive.Files {
				if url, ok := strings.CutPrefix(f.Name, "want "); ok {
					want[url] = string(f.Data)
					continue
				}
				give[f.Name] = &fstest.MapFile{Data: f.Data}
				kept = append(kept, f)
			}
			course, faults := content.Load(give, scripts(t))
			for _, f := range faults {
				t.Error(f)
			}
			got := map[string]string{}
			for _, p := range course.Pages {
				if p.File == "" || len(p.Body) == 0 {
					continue
				}
				got[p.URL] = dump(p)
				kept = append(kept, txtar.File{Name: "want " + p.URL, Data: []byte(dump(p))})
			}
			if *update {
				archive.Files = kept
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// dump writes a page as the archives of testdata do: parts that are no HTML
// stand in brackets on a line of their own.
func dump(p *content.Page) string {
	var b strings.Builder
	for _, part := range p.Body {
		switch {
		case part.Figure != nil:
			fmt.Fprintf(&b, "[figure %d %s]\n", part.Number, part.Figure.ID)
		case part.Script != nil:
			fmt.Fprintf(&b, "[script %s]\n", part.Script.Name)
		case part.Dives != nil:
			for _, child := range part.Dives {
				fmt.Fprintf(&b, "[card %s %s: %s (%s)]\n", child.ID, child.Name, child.Summary, child.State)
			}
		default:
			fmt.Fprintln(&b, strings.TrimSpace(string(part.HTML)))
		}
	}
	for _, h := range p.Headings {
		fmt.Fprintf(&b, "[contents %s %d #%s %s]\n", strings.Repeat("#", h.Level), h.Number, h.ID, h.HTML)
	}
	return b.String()
}

// front is the least front matter, four lines.
const front = "---\nid: R1\ntitle: T\n---\n"

func page(text string) fstest.MapFS {
	return fstest.MapFS{"c/p.md": {Data: []byte(text)}}
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name string
		text string // of c/p.md
		want []string
	}{
		// Front matter.
		{"no front matter", "# Title\n", []string{
			"c/p.md:1: the page has no front matter (start the file with a line ---, then id and title, then a line ---)",
		}},
		{"empty file", "", []string{
			"c/p.md:1: the page has no front matter (start the file with a line ---, then id and title, then a line ---)",
		}},
		{"blank line first", "\n---\nid: R1\ntitle: T\n---\n", []string{
			"c/p.md:1: the page has no front matter (front matter starts on the first line, at the margin: delete what stands before ---)",
		}},
		{"front matter never closed", "---\nid: R1\ntitle: T\n\ntext\n", []string{
			"c/p.md:1: the front matter is never closed (end it with a line ---)",
		}},
		{"no id, no title", "---\n---\n", []string{
			"c/p.md:1: the front matter has no id (add a line `id: …`)",
			"c/p.md:1: the front matter has no title (add a line `title: …`)",
		}},
		{"empty title", "---\nid: R1\ntitle:\n---\n", []string{
			"c/p.md:3: title is empty (write it after the colon)",
		}},
		{"unknown key", "---\nid: R1\ntitle: T\nleed: x\n---\n", []string{
			`c/p.md:4: unknown key "leed" in the front matter (did you mean "lede"?)`,
		}},
		{"unknown key, none near", "---\nid: R1\ntitle: T\nauthor: x\n---\n", []string{
			`c/p.md:4: unknown key "author" in the front matter (known are id, title, name, lede, grounding, summary, state, sources, related, lang, dir)`,
		}},
		{"key twice", "---\nid: R1\ntitle: T\nid: R2\n---\n", []string{
			`c/p.md:4: the front matter has the key "id" twice (it stands first in line 2)`,
		}},
		{"colon missing", "---\nid: R1\nlease 12\ntitle: T\n---\n", []string{
			"c/p.md:3: \"lease 12\" is not a key with a value (write it as `key: value`)",
		}},
		{"tab before a key", "---\nid: R1\n\ttitle: T\n---\n", []string{
			"c/p.md:3: \"title: T\" starts with a character that YAML doesn't take there (indent by blanks, not by tabs, and put a value that starts with ` @ % or a tab in quotes)",
		}},
		{"second colon", "---\nid: R1\ntitle: Locks: a start\n---\n", []string{
			"c/p.md:3: \"title: Locks: a start\" holds a second colon (put the value in quotes where it holds `: `)",
		}},
		{"a list for a text", "---\nid: R1\ntitle: [a, b]\n---\n", []string{
			"c/p.md:3: title is a list, not a text (put a text that starts with [ in quotes)",
		}},
		{"a map for a text", "---\nid: R1\ntitle: {a: b}\n---\n", []string{
			"c/p.md:3: title is a map, not a text (put a text that starts with { or holds `: ` in quotes)",
		}},
		{"a text for a list", "---\nid: R1\ntitle: T\nsources: Redis\n---\n", []string{
			"c/p.md:4: sources is the text \"Redis\", not a list (start each entry with `- `)",
		}},
		{"a text for a source", "---\nid: R1\ntitle: T\nsources:\n  - Redis\n---\n", []string{
			"c/p.md:5: a source is the text \"Redis\", not a map (write `key: value` lines)",
		}},
		{"no map", "---\n- id\n---\n", []string{
			"c/p.md:2: the front matter is a list, not a map (write `key: value` lines)",
		}},
		{"source without title", "---\nid: R1\ntitle: T\nsources:\n  - url: https://x.org/\n    titel: X\n---\n", []string{
			"c/p.md:5: a source has no title (add `title: …`)",
			`c/p.md:6: unknown key "titel" in a source (did you mean "title"?)`,
		}},
		{"source with a relative url", "---\nid: R1\ntitle: T\nsources:\n  - title: X\n    url: x.md\n---\n", []string{
			"c/p.md:6: the url \"x.md\" is no web address (write an address that starts with https://; pages of the course go under related, with `page:`)",
		}},
		{"related without a page", "---\nid: R1\ntitle: T\nrelated:\n  - note: x\n---\n", []string{
			"c/p.md:5: a related page has both page and url, or neither (write `page:` with an id or a file, or `url:` with a web address)",
		}},
		{"related id unknown", "---\nid: R1\ntitle: T\nrelated:\n  - page: R3\n---\n", []string{
			`c/p.md:5: no page has the id "R3" (did you mean "R1"?)`,
		}},
		{"related file unknown", "---\nid: R1\ntitle: T\nrelated:\n  - page: q.md\n---\n", []string{
			`c/p.md:5: there is no page "q.md" (did you mean "p.md"?)`,
		}},
		{"unknown state", "---\nid: R1\ntitle: T\nstate: done\n---\n", []string{
			`c/p.md:4: state is "done" (write built, draft or planned)`,
		}},
		{"odd id, lang and dir", "---\nid: R 1\ntitle: T\nlang: english please\ndir: up\n---\n", []string{
			`c/p.md:2: the id "R 1" has other characters (use letters, digits, dots and hyphens, like R2.02.2)`,
			`c/p.md:4: lang is "english please" (write a language tag, like en or pt-BR)`,
			`c/p.md:5: dir is "up" (write ltr or rtl)`,
		}},
		{"comment that cuts a title", "---\nid: R1\ntitle: Issue #229\n---\n", []string{
			"c/p.md:3: title is cut off after \"Issue\" (in YAML ` #` starts a comment: put the whole text in quotes)",
		}},
		{"raw HTML in the lede", "---\nid: R1\ntitle: T\nlede: one <b>two</b>\n---\n", []string{
			`c/p.md:4: raw HTML, "<b>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
		}},
		{"dead link in the lede", "---\nid: R1\ntitle: T\nlede: see [x](x.md)\n---\n", []string{
			`c/p.md:4: there is no page "x.md" (did you mean "p.md"?)`,
		}},
		{"not UTF-8", "---\nid: R1\ntitle: T\n---\nblocage cl\xe9\n", []string{
			"c/p.md:5: the text is not UTF-8 (save the file as UTF-8)",
		}},

		// Raw HTML and links.
		{"raw HTML block", front + "\n<figure>\n\ntext\n\n</figure>\n", []string{
			`c/p.md:6: raw HTML, "<figure>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
			`c/p.md:10: raw HTML, "</figure>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
		}},
		{"raw HTML inline", front + "\none<br>two <em>x</em>\nand <id>\n", []string{
			`c/p.md:6: raw HTML, "<br>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
			`c/p.md:6: raw HTML, "<em>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
			`c/p.md:7: raw HTML, "<id>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
		}},
		{"script tag", front + "\n<script>\nalert(1)\n</script>\n", []string{
			`c/p.md:6: raw HTML, "<script>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
			`c/p.md:8: raw HTML, "</script>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
		}},
		{"text beside a comment", front + "\n<!-- note --> some **text**\n", []string{
			`c/p.md:6: the text beside a comment, "some **text**", is not shown (put the comment on a line of its own)`,
		}},
		{"comment never closed", front + "\ntext\n\n<!-- note\n\nmore\n", []string{
			"c/p.md:8: a comment is never closed (end it with -->)",
		}},
		{"refused links", front + "\n[a](javascript:alert(1)) [b](data:x)\n[c](redis://localhost) [d]() [e](//x.org) [f](https://)\n", []string{
			`c/p.md:6: a link to "javascript:alert(1)" leads nowhere (link to https: addresses and to pages; put anything else in backquotes)`,
			`c/p.md:6: a link to "data:x" leads nowhere (link to https: addresses and to pages; put anything else in backquotes)`,
			`c/p.md:7: a link to "redis://localhost" leads nowhere (link to https: addresses and to pages; put anything else in backquotes)`,
			"c/p.md:7: the link has no address (write [text](address))",
			`c/p.md:7: the address "//x.org" names no scheme (start it with https://)`,
			`c/p.md:7: the address "https://" names no host (write https://host/path)`,
		}},
		{"refused autolink", front + "\nconnect to <redis://localhost:6379>\n", []string{
			`c/p.md:6: a link to "redis://localhost:6379" leads nowhere (link to https: addresses and to pages; put anything else in backquotes)`,
		}},
		{"image", front + "\ntext\n![a lock](lock.png)\n", []string{
			"c/p.md:7: images are not shown (draw it as a figure, or describe it)",
		}},
		{"footnote", front + "\ntext [^1] more\n", []string{
			"c/p.md:6: footnotes are not shown (put the note into the text, or into the sources)",
		}},
		{"link to no page", front + "\na\n[x](./q.md)\n", []string{
			`c/p.md:7: there is no page "./q.md" (did you mean "./p.md"?)`,
		}},
		{"link in wrong case", front + "\n[x](P.md)\n", []string{
			`c/p.md:6: there is no page "P.md" (small and capital letters differ: the page is "p.md")`,
		}},
		{"dead anchor", front + "\n## The lease\n\n[x](#the-leese)\n", []string{
			`c/p.md:8: this page has no anchor "the-leese" (did you mean "the-lease"?)`,
		}},
		{"dead anchor by file", front + "\n## The lease\n\n[x](p.md#lease)\n", []string{
			`c/p.md:8: this page has no anchor "lease" (known are the-lease)`,
		}},
		{"no references", front + "\n[x](#references)\n", []string{
			`c/p.md:6: this page has no anchor "references"`,
		}},
		{"run of no figure", front + "\n[x](?run=a.b) [y](?go=1)\n", []string{
			`c/p.md:6: /c/p has no figure "a"`,
			`c/p.md:6: the page takes no "?go=1" (write ?run=<figure>.<path>, or add &schedule=<steps>)`,
		}},

		// Headings.
		{"level 1", front + "\n# T\n", []string{
			"c/p.md:6: a heading of level 1 in the body (the page's title is its only heading of level 1: start with ##)",
		}},
		{"anchor twice", front + "\n## A {#x}\n\n## B {#x}\n", []string{
			`c/p.md:8: the anchor "x" stands twice in this page (choose another: the heading or figure in line 6 has it)`,
		}},
		{"anchor of the site", front + "\n## A {#references}\n", []string{
			`c/p.md:6: the site itself uses the anchor "references" (choose another)`,
		}},
		{"class on a heading", front + "\n## A {.x}\n", []string{
			`c/p.md:6: unknown attribute "class" on a heading (a heading takes {#its-anchor} and nothing else)`,
		}},
		{"odd anchor", front + "\n## A {#a.b}\n", []string{
			`c/p.md:6: the anchor "a.b" has other characters (use letters, digits and hyphens)`,
		}},
		{"empty heading", front + "\n## \n", []string{
			"c/p.md:6: the heading is empty (write its text after the #)",
		}},

		// Blocks.
		{"unknown kind of block", front + "\n> [!NOTTE] x\n> text\n", []string{
			`c/p.md:6: unknown kind of block "NOTTE" (did you mean "NOTE"?)`,
		}},
		{"empty block", front + "\n> [!NOTE]\n", []string{
			"c/p.md:6: the block NOTE is empty (go on with lines that start with >)",
		}},
		{"block inside a block", front + "\n> [!PATTERN]\n> text\n> [!ECHOMQ]\n> text\n", []string{
			`c/p.md:8: no block starts here, at "[!ECHOMQ]" (a block is a quote of its own: start each line with > and leave an empty line before it)`,
		}},
		{"block without its quote", front + "\n[!NOTE]\ntext\n", []string{
			`c/p.md:6: no block starts here, at "[!NOTE]" (a block is a quote of its own: start each line with > and leave an empty line before it)`,
		}},

		// Fences.
		{"fence never closed", front + "\ntext\n\n```lua\nreturn 1\n\n## more\n", []string{
			"c/p.md:8: this block of code is never closed (end it with ``` on a line of its own, as far to the right)",
		}},
		{"fence closed by another mark", front + "\n```lua\nreturn 1\n~~~\n", []string{
			"c/p.md:6: this block of code is never closed (end it with ``` on a line of its own, as far to the right)",
		}},
		{"misspelt fence", front + "\n```figur\nid: x\n```\n", []string{
			`c/p.md:6: unknown kind of block "figur" (did you mean "figure"?)`,
		}},
		{"unknown script", front + "\n```script\nrelease.lua\nrelaese.lua\n```\n", []string{
			`c/p.md:8: there is no script "relaese.lua" (did you mean "release.lua"?)`,
		}},
		{"no script", front + "\n```script\n```\n", []string{
			"c/p.md:6: a script block names no script (name one script a line, like release.lua)",
		}},
		{"dives with text", front + "\n```dives\nall\n```\n", []string{
			"c/p.md:6: a dives block, and no pages below this one (take the block out, or save pages in the folder)",
			"c/p.md:7: a dives block holds text (leave it empty: the cards come from the pages below this one)",
		}},
		{"list broken by a fence", front + "\n1. step\n\n  ```\n  code\n  ```\n\n2. next\n", []string{
			"c/p.md:8: the numbered list ends before this block and starts again after it, at 2 (indent the block by 3, as deep as the item's text)",
		}},
		{"list broken by prose", front + "\n1. step\n\n  more\n\n2. next\n", []string{
			"c/p.md:8: the numbered list ends before this block and starts again after it, at 2 (indent the block by 3, as deep as the item's text)",
		}},
		{"list of ten broken", front + "\n9. step\n10. step\n\n   ```\n   code\n   ```\n11. next\n", []string{
			"c/p.md:9: the numbered list ends before this block and starts again after it, at 11 (indent the block by 4, as deep as the item's text)",
		}},
		{"pipe in a table's code", front + "\n| a | b |\n|---|---|\n| `x|y` | z |\n| `x\\|y` | z |\n", []string{
			`c/p.md:8: the row has 3 cells and the table's header 2 (a | inside a cell is written \|, in code too)`,
		}},
		{"table with a short rule", front + "\n| a | b | c |\n|---|---|\n| x | y | z |\n", []string{
			"c/p.md:7: this is no table: the header has 3 cells and this line 2 (give both lines as many cells)",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, faults := content.Load(page(test.text), scripts(t))
			got := []string{}
			for _, f := range faults {
				got = append(got, f.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// TestFigureLines checks that a figure's faults have the line of the file,
// wherever its fence stands.
func TestFigureLines(t *testing.T) {
	tests := []struct {
		name, text string
		want       int
	}{
		{"at the margin", front + "\n```figure\nid: x\nactorz: {}\n```\n", 8},
		{"first line", front + "\n```figure\nactorz: {}\n```\n", 7},
		{"in a list", front + "\n1. step\n\n   ```figure\n   id: x\n\n   actorz: {}\n   ```\n", 11},
		{"in a list, with tabs", front + "\n-\tstep\n\n\t```figure\n\tid: x\n\tactorz: {}\n\t```\n", 10},
		{"in a quote", front + "\n> text\n>\n> ```figure\n> id: x\n> actorz: {}\n> ```\n", 10},
		{"in a list in a quote", front + "\n> - text\n>\n>   ```figure\n>   id: x\n>   actorz: {}\n>   ```\n", 10},
		{"after CRLF", strings.ReplaceAll(front+"\n```figure\nid: x\nactorz: {}\n```\n", "\n", "\r\n"), 8},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, faults := content.Load(page(test.text), scripts(t))
			for _, f := range faults {
				if strings.Contains(f.Message, "actorz") {
					if f.Line != test.want {
						t.Errorf("line %d, want %d: %v", f.Line, test.want, f)
					}
					return
				}
			}
			t.Errorf("no fault names actorz: %v", faults)
		})
	}
}

const figure = `
` + "```figure" + `
id: lost-lock
title: The lost lock
paths:
  - id: blind
    label: blind DEL
    steps: [{A: DEL lock}]
    static: A deletes it.
verdicts:
  - {when: "true", status: broken, text: A deletes it.}
` + "```" + `
`

// TestFaultsBetween has the faults that take two places or two files.
func TestFaultsBetween(t *testing.T) {
	index := func(id string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("---\nid: " + id + "\ntitle: T\n---\n")}
	}
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(front + s)} }
	tests := []struct {
		name string
		give fstest.MapFS
		want []string
	}{
		{"id twice", fstest.MapFS{"a/index.md": index("R1"), "b/index.md": index("R1")}, []string{
			`b/index.md:2: a/index.md has the id "R1" too (each page has an id of its own)`,
		}},
		{"address twice", fstest.MapFS{"a/b.md": index("R1"), "a/b/index.md": index("R2")}, []string{
			"a/b.md: a/b/index.md has the same address, /a/b (rename one of them)",
		}},
		{"file names", fstest.MapFS{"a/B b.md": index("R1"), "a/b_c.md": index("R2"), "a/d.MD": index("R3"), "é/index.md": index("R4"), "a/ö.md": index("R5")}, []string{
			"a/B b.md: this is no page, since its name starts with a capital (use small letters a-z, digits and hyphens)",
			`a/b_c.md: "b_c.md" makes no address (use small letters a-z, digits and hyphens, and end in .md)`,
			`a/d.MD: "d.MD" makes no address (use small letters a-z, digits and hyphens, and end in .md)`,
			`a/ö.md: "ö.md" makes no address (use small letters a-z, digits and hyphens, and end in .md)`,
			`é/index.md: the folder "é" makes no address (use small letters a-z, digits and hyphens)`,
		}},
		{"names of the site", fstest.MapFS{"static/index.md": index("R1"), "a/figures/index.md": index("R2"), "healthz.md": index("R3")}, []string{
			`a/figures/index.md: the site itself uses the address "figures" (give the folder another name)`,
			`healthz.md: the site itself uses the address "healthz" (give the file another name)`,
			`static/index.md: the site itself uses the address "static" (give the folder another name)`,
		}},
		{"too deep", fstest.MapFS{"a/b/c/d/e.md": index("R1")}, []string{
			"a/b/c/d/e.md: the page lies too deep (pages are <course>/<chapter>/<module>/<dive>.md at most)",
		}},
		{"figure twice", fstest.MapFS{"a.md": text(figure + figure)}, []string{
			`a.md:19: the page has two figures "lost-lock" (the other stands in line 7)`,
		}},
		{"figure and heading", fstest.MapFS{"a.md": text(figure + "\n## A {#lost-lock}\n")}, []string{
			`a.md:18: the anchor "lost-lock" stands twice in this page (choose another: the heading or figure in line 7 has it)`,
		}},
		{"run", fstest.MapFS{
			"a.md":       text("[x](b/index.md?run=lost-lock.blnd) [y](b/index.md?run=lost-lick.blind) [z](b/index.md?run=lost-lock)\n"),
			"b/index.md": {Data: []byte("---\nid: R2\ntitle: T\n---\n" + figure)},
		}, []string{
			`a.md:5: the figure "lost-lock" has no path "blnd" (did you mean "blind"?)`,
			`a.md:5: /b has no figure "lost-lick" (did you mean "lost-lock"?)`,
			`a.md:5: "?run=lost-lock" names no path (write ?run=<figure>.<path>)`,
		}},
		{"links across folders", fstest.MapFS{
			"a/b/index.md": index("R1"),
			"a/b/c.md":     index("R2"),
			"a/d/e.md":     {Data: []byte("---\nid: R3\ntitle: T\n---\n[x](c.md) [y](../b/C.md) [z](/a/b/c.md#x) [w](/a/b/q)\n")},
		}, []string{
			`a/d/e.md:5: there is no page "c.md" (did you mean "../b/c.md"?)`,
			`a/d/e.md:5: there is no page "../b/C.md" (small and capital letters differ: the page is "../b/c.md")`,
			`a/d/e.md:5: /a/b/c has no anchor "x"`,
			`a/d/e.md:5: there is no page "/a/b/q" (did you mean "/a/b/c"?)`,
		}},
		{"many files in order", fstest.MapFS{"a/b.md": text("# x\n\n<b>\n"), "a/c.md": text("<i>")}, []string{
			"a/b.md:5: a heading of level 1 in the body (the page's title is its only heading of level 1: start with ##)",
			`a/b.md:7: raw HTML, "<b>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
			`a/c.md:2: a/b.md has the id "R1" too (each page has an id of its own)`,
			`a/c.md:5: raw HTML, "<i>", is not shown (write it in Markdown; to show the tag itself, put it in backquotes)`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, faults := content.Load(test.give, scripts(t))
			got := []string{}
			for _, f := range faults {
				got = append(got, f.Error())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// TestLineEnds checks that a file is the same page whatever ends its lines.
func TestLineEnds(t *testing.T) {
	course, _ := content.Load(content.FS(), scripts(t))
	convert := map[string]func([]byte) []byte{
		"CRLF": func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) },
		"CR":   func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r")) },
		"BOM":  func(b []byte) []byte { return append([]byte("\ufeff"), b...) },
	}
	for name, f := range convert {
		t.Run(name, func(t *testing.T) {
			give := fstest.MapFS{}
			for _, p := range course.Pages {
				if p.File == "" {
					continue
				}
				text, err := fs.ReadFile(content.FS(), p.File)
				if err != nil {
					t.Fatal(err)
				}
				give[p.File] = &fstest.MapFile{Data: f(text)}
			}
			got, faults := content.Load(give, scripts(t))
			if _, want := content.Load(content.FS(), scripts(t)); len(faults) != len(want) {
				t.Errorf("other faults: %v", faults)
			}
			for _, p := range course.Pages {
				q, _ := got.Page(p.URL)
				if diff := cmp.Diff(dump(p), dump(q)); diff != "" {
					t.Errorf("%s:\n%s", p.URL, diff)
				}
				if len(p.Figures) != len(q.Figures) {
					t.Errorf("%s has other figures", p.URL)
				}
			}
		})
	}
}

// TestOrder checks the tree: natural order, the walk through a module, folders
// without a page, eyebrows.
func TestOrder(t *testing.T) {
	give := fstest.MapFS{}
	add := func(file, id, title string) {
		give[file] = &fstest.MapFile{Data: []byte("---\nid: " + id + "\ntitle: " + title + "\n---\n")}
	}
	add("redis/index.md", "R", "Redis patterns")
	add("redis/locks/basic/index.md", "R2.02", "Distributed locking")
	add("redis/locks/basic/z.md", "R2.02.1", "One")
	add("redis/locks/basic/b.md", "R2.02.10", "Ten")
	add("redis/locks/basic/c.md", "R2.02.2", "Two")
	add("redis/cache/x/index.md", "R1.01", "Caches")
	give["redis/locks/README.md"] = &fstest.MapFile{Data: []byte("not a page")}
	give["_drafts/x.md"] = &fstest.MapFile{Data: []byte("not a page")}
	give["redis/notes.txt"] = &fstest.MapFile{Data: []byte("not a page")}
	course, faults := content.Load(give, scripts(t))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var got []string
	for _, p := range course.Pages {
		line := p.URL + " | " + p.Eyebrow
		if p.Prev != nil {
			line += " | after " + p.Prev.Name
		}
		if p.Next != nil {
			line += " | before " + p.Next.Name
		}
		got = append(got, line)
	}
	want := []string{
		"/redis | R · course",
		"/redis/cache | Redis patterns · chapter",
		"/redis/cache/x | R1.01 · Cache · module",
		"/redis/locks | Redis patterns · chapter",
		"/redis/locks/basic | R2.02 · Locks · module | before One",
		"/redis/locks/basic/z | R2.02.1 · Distributed locking · dive 1 | after Distributed locking | before Two",
		"/redis/locks/basic/c | R2.02.2 · Distributed locking · dive 2 | after One | before Ten",
		"/redis/locks/basic/b | R2.02.10 · Distributed locking · dive 10 | after Two",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// TestAnchorsStay checks that a heading added at the top changes no anchor.
func TestAnchorsStay(t *testing.T) {
	body := "\n## 锁\n\n## Блокировка и срок\n\n## Le délai d'une clé\n\n## מנעול\n\n## 🔒 lock\n\n## lock\n\n## `SET NX`\n\n### A 2\n\n### A\n\n### A\n"
	anchors := func(text string) (ids []string) {
		course, faults := content.Load(page(front+text), scripts(t))
		if len(faults) > 0 {
			t.Error(faults)
		}
		p, _ := course.Page("/c/p")
		for _, h := range p.Headings {
			ids = append(ids, h.ID)
		}
		return ids
	}
	want := []string{"锁", "блокировка-и-срок", "le-délai-d-une-clé", "מנעול", "lock", "lock-2", "set-nx", "a-2", "a", "a-3"}
	if diff := cmp.Diff(want, anchors(body)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if diff := cmp.Diff(append([]string{"new"}, want...), anchors("\n## New\n"+body)); diff != "" {
		t.Errorf("with a heading at the top: want (-), got (+):\n%s", diff)
	}
	decomposed := "Le de\u0301lai"
	if got := anchors("\n## " + decomposed + "\n\n[x](#le-d%C3%A9lai) [y](#le-de\u0301lai)\n"); got[0] != "le-délai" {
		t.Errorf("a decomposed heading has the anchor %q", got[0])
	}
}

// TestBrokenPage checks that a page with faults is in the course and takes no
// other page with it.
func TestBrokenPage(t *testing.T) {
	give := page("---\nid: R1\ntitle: T\n")
	give["c/q.md"] = &fstest.MapFile{Data: []byte("---\nid: R2\ntitle: Q\n---\n[x](p.md#anywhere)\n")}
	course, _ := content.Load(give, scripts(t))
	broken, ok := course.Page("/c/p")
	if !ok || len(broken.Faults) != 1 || broken.Title != "P" {
		t.Errorf("the broken page is %+v", broken)
	}
	whole, ok := course.Page("/c/q")
	if !ok || len(whole.Faults) != 0 || len(whole.Body) != 1 {
		t.Errorf("the whole page is %+v", whole)
	}
}

func TestFingerprint(t *testing.T) {
	give := page(front)
	first, err := content.Fingerprint(give)
	if err != nil {
		t.Fatal(err)
	}
	give["c/notes.txt"] = &fstest.MapFile{}
	if same, _ := content.Fingerprint(give); same != first {
		t.Error("it changes with a file that is no page")
	}
	give["c/p.md"].ModTime = give["c/p.md"].ModTime.Add(time.Second)
	if saved, _ := content.Fingerprint(give); saved == first {
		t.Error("it does not change when a page is saved")
	}
}

// FuzzRender reads any bytes as a page: no panic, and nothing that the site's
// policy or the browser would stumble over.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{
		"- a\n\n    ```\n    \tx\n    ```\n", ">  ```\n>\t0\n", "1. a\n\n  ```\nb\n  ```\n2. c\n",
		"> [!NOTE] t\n> x\n\n> [!PATTERN]\n> x\n\n> [!ECHOMQ]\n> y\n", "> [!NOTE]\n> | a | b |\n> |---|---|\n> | c | d |\n",
		"## a {#b}\n### {#c}\n# x\n---\n", "```figure\nid: x\n```\n", "- ```script\n  release.lua\n  ```\n", "```dives\n```",
		"[a](b \"c\") ![x](y) <http://z> www.x.org <b> <!-- c -->\n", "|a|b|\n|-|-|\n|`c|d`|e|f|\n", "```session\n> PING\nPONG\n```\n", "\x00\x001\x00 &#0;",
	} {
		f.Add([]byte(seed))
	}
	s := scripts(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, head := range []string{"", front} {
			course, faults := content.Load(page(head+string(text)), s)
			for _, fault := range faults {
				if strings.Contains(fault.Message, "cannot be rendered") {
					t.Error(fault)
				}
			}
			p, ok := course.Page("/c/p")
			if !ok {
				t.Fatal("the page is gone")
			}
			for _, part := range p.Body {
				if strings.ContainsAny(string(part.HTML), "\x00") || strings.Contains(string(part.HTML), " style=") && !strings.Contains(string(text), "style") {
					t.Errorf("the page holds %q", part.HTML)
				}
			}
		}
	})
}
