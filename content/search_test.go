package content_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"lockstep/content"
)

func searched(t *testing.T) *content.Course {
	t.Helper()
	give := fstest.MapFS{
		"c/index.md": {Data: []byte("---\nid: R\ntitle: Locks\nlede: All about locks.\n---\n")},
		"c/d/m/one.md": {Data: []byte(`---
id: R1
title: The fence
lede: A number that grows.
---

` + "```figure" + `
id: stale
title: A stale writer
idle: Point at a writer.
paths:
  - id: a
    label: the late one
    steps:
      - A: GET k
    static: The store refuses what comes late.
verdicts:
  - {when: "true", status: refused, text: The store refuses what comes late.}
` + "```" + `

Before the first heading.

## Numbers grow

A fence is a number. ` + "`fenced_write.lua`" + ` takes it.

| a | b |
|---|---|
| cell | Éclair façade |

` + "```lua" + `
return redis.call('GET', KEYS[1])
` + "```" + `

### Who counts

The server counts, and nobody else.

## 锁的租约

租约到期后锁会自动释放。
`)},
		"c/d/m/two.md":  {Data: []byte("---\nid: R2\ntitle: Leases\n---\n\n## A fence too\n\nA lease ends by itself.\n\n## Last\n\nThe fence, again.\n")},
		"reading.md":    {Data: []byte("---\nid: R0.1\ntitle: Reading\n---\n\nHow to read.\n")},
		"c/d/broken.md": {Data: []byte("---\nid: R3\ntitle: Cracked\nnonsense: 1\n---\n\n## Hidden\n\nunreachable\n")},
	}
	course, faults := content.Load(give, scripts(t))
	if len(faults) != 1 {
		t.Fatal(faults)
	}
	return course
}

// line is a hit on one line, its matches in brackets.
func line(h content.Hit) string {
	var b strings.Builder
	b.WriteString(h.URL() + " | " + h.Heading + " | ")
	for _, p := range h.Snippet {
		if p.Match {
			b.WriteString("[" + p.Text + "]")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func TestSearch(t *testing.T) {
	course := searched(t)
	tests := []struct {
		query string
		want  []string
	}{
		// A title before a heading before a text, each in reading order.
		{"fence", []string{
			"/c/d/m/one |  | A number that grows. Before the first heading.",
			"/c/d/m/two#a-fence-too | A fence too | A lease ends by itself.",
			"/c/d/m/one#numbers-grow | Numbers grow | A [fence] is a number. [fenced]_write.lua takes it. a b cell Éclair façade return redis.call('GET', KEYS[1])",
			"/c/d/m/two#last | Last | The [fence], again.",
		}},
		{"FENC numb", []string{
			"/c/d/m/one |  | A [number] that grows. Before the first heading.",
			"/c/d/m/one#numbers-grow | Numbers grow | A [fence] is a [number]. [fenced]_write.lua takes it. a b cell Éclair façade return redis.call('GET', KEYS[1])",
		}},
		{"late store", []string{"/c/d/m/one#stale | A stale writer | Point at a writer. the [late] one: The [store] refuses what comes [late]."}},
		{"stale", []string{"/c/d/m/one#stale | A stale writer | Point at a writer. the late one: The store refuses what comes late."}},
		{"eclair FACADE", []string{"/c/d/m/one#numbers-grow | Numbers grow | A fence is a number. fenced_write.lua takes it. a b cell [Éclair] [façade] return redis.call('GET', KEYS[1])"}},
		{"e\u0301clair", []string{"/c/d/m/one#numbers-grow | Numbers grow | A fence is a number. fenced_write.lua takes it. a b cell [Éclair] façade return redis.call('GET', KEYS[1])"}},
		{"redis.call", []string{"/c/d/m/one#numbers-grow | Numbers grow | … fenced_write.lua takes it. a b cell Éclair façade return [redis].[call]('GET', KEYS[1])"}},
		{"自动", []string{"/c/d/m/one#锁的租约 | 锁的租约 | 租约到期后锁会[自][动]释放。"}},
		{"R2", []string{"/c/d/m/two |  | "}},
		{"how read", []string{"/reading |  | [How] to [read]."}},
		{"cracked", []string{"/c/d/broken |  | "}},
		{"unreachable", nil},
		{"fence nowhere", nil},
		{"ence", nil},
		{"", nil},
		{" ,.; ", nil},
	}
	for _, tt := range tests {
		var got []string
		for _, h := range course.Search(tt.query) {
			got = append(got, line(h))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: want (-), got (+):\n%s", tt.query, diff)
		}
	}
}

// TestSnippets looks at the lengths of what is shown of the course itself.
func TestSnippets(t *testing.T) {
	course, _ := content.Load(content.FS(), scripts(t))
	for _, query := range []string{"lock", "set nx", "the token fence", "a", strings.Repeat("lock ", 1000), "\xff\x00lock"} {
		hits := course.Search(query)
		if len(hits) == 0 || len(hits) > 40 {
			t.Errorf("%.20q: %d hits", query, len(hits))
		}
		for _, h := range hits {
			n := 0
			for _, p := range h.Snippet {
				if !utf8.ValidString(p.Text) {
					t.Errorf("%s: %q is no text", h.URL(), p.Text)
				}
				n += len(p.Text)
			}
			if n > 320 {
				t.Errorf("%s: a snippet of %d bytes", h.URL(), n)
			}
		}
	}
}

func FuzzSearch(f *testing.F) {
	for _, query := range []string{"", "fence", "É", "锁", "e\u0301\u0301", "\xff", "ﬁ", "ß", "ก\u0e33", "\u0301"} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		searched(t).Search(query)
	})
}
