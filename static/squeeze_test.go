package static_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"lockstep/static"
)

func TestSqueezed(t *testing.T) {
	tests := []struct{ name, give, want string }{
		{"a.css", "/* Why\n   so. */\n\na {\n  color: light-dark(#fff000, #000); /* not blue */\n}\n", "a{color:light-dark(#fff000,#000)}"},
		{"a.js", "// Why\nif (here) {\n  // so\n  b(`\n  //x`); // c\n}\nexport const y = '//x';\n", "here&&b(`\n  //x`);export const y=\"//x\""},
		{"a.svg", "<svg>\n  <!-- x -->\n  <path d=\"M 0 0\"/>\n</svg>\n", "<svg><path d=\"M0 0\"/></svg>"},
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

// TestSqueezeFaults loads a script that is none.
func TestSqueezeFaults(t *testing.T) {
	if _, err := static.Load(fstest.MapFS{"a.js": {Data: []byte("if (")}}); err == nil || !strings.Contains(err.Error(), "a.js") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}
