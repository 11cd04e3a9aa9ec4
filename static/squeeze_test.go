package static_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"lockstep/static"
)

func TestSqueezed(t *testing.T) {
	tests := []struct{ name, give, want string }{
		{"a.css", "/* Why\n   so. */\n\na {\n  color: red; /* not blue */\n}\n", "a {\ncolor: red;\n}\n"},
		{"a.js", "// Why\nif (a) {\n  // so\n  b(); // c\n}\n\nf('//x');\n", "if (a) {\nb(); // c\n}\nf('//x');\n"},
		{"a.svg", "<svg>\n  <!-- x -->\n</svg>\n", "<svg>\n  <!-- x -->\n</svg>\n"},
	}
	for _, tt := range tests {
		a, err := static.Load(fstest.MapFS{tt.name: {Data: []byte(tt.give)}})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := a.File(strings.TrimPrefix(a.URL(tt.name), static.Prefix))
		if string(f.Body) != tt.want {
			t.Errorf("%s is %q, want %q", tt.name, f.Body, tt.want)
		}
	}
}

// TestSqueezable checks that no text of the files goes on over several lines:
// squeezing would change it.
func TestSqueezable(t *testing.T) {
	names, err := fs.Glob(static.FS(), "*.js")
	if err != nil || len(names) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(static.FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if strings.Count(line, "`")%2 != 0 && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				t.Errorf("%s:%d: a template that goes on in the next line", name, n)
			}
		}
	}
}
