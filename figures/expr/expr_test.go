package expr

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTemplates(t *testing.T) {
	env := map[string]any{"a": int64(1), "s": "x y", "list": []any{"OK", nil}}
	tests := []struct{ source, text, static string }{
		{"plain", "plain", "plain"},
		{"{{a}} of {{ a + 1 }}", "1 of 2", "1 of 2"},
		{"{{list}} {{none}}", "[OK, nil] nil", "[OK, nil] nil"},
		{"took {{~ a }} ms, {{s}}", "took 1 ms, x y", "took 250 ms, x y"},
		{`{{ a == 1 ? "}" : "no" }}`, "}", "}"},
	}
	for _, test := range tests {
		tm, err := ParseTemplate(test.source, nil)
		if err != nil {
			t.Errorf("%q: %v", test.source, err)
			continue
		}
		text, pattern := tm.Render(env)
		if text != test.text {
			t.Errorf("%q gives %q, want %q", test.source, text, test.text)
		}
		if !regexp.MustCompile(pattern).MatchString(test.static) {
			t.Errorf("%q does not agree with %q", test.source, test.static)
		}
	}
}

func TestCommandQuoting(t *testing.T) {
	c, err := ParseCommand(`SET "a b" {{ s + " z" }} 'q' x{{a}}y`, nil)
	if err != nil {
		t.Fatal(err)
	}
	args, line := c.Fill(map[string]any{"a": int64(1), "s": "x y"})
	if want := []string{"SET", "a b", "x y z", "q", "x1y"}; !cmp.Equal(args, want) {
		t.Errorf("arguments %q, want %q", args, want)
	}
	if want := `SET "a b" "x y z" q x1y`; line != want {
		t.Errorf("line %s, want %s", line, want)
	}
}
