package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	tests := []struct {
		line string
		want []string
	}{
		{``, []string{}},
		{"  \t\r\n\v\f ", []string{}},
		{`GET a`, []string{"GET", "a"}},
		{"  SET\ta \n b  ", []string{"SET", "a", "b"}},
		{`SET k "hello world"`, []string{"SET", "k", "hello world"}},
		{`SET k ""`, []string{"SET", "k", ""}},
		{`SET k ''`, []string{"SET", "k", ""}},
		{`"\n\r\t\b\a\\\"\q"`, []string{"\n\r\t\b\a\\\"q"}},
		{`"\x00\xfF\x4a"`, []string{"\x00\xffJ"}},
		{`"\xg0\x1"`, []string{"xg0x1"}},
		{`'\n\'\\ '`, []string{`\n'\\ `}},
		{`'say "hi"' "it's"`, []string{`say "hi"`, "it's"}},
		{`a"b c"`, []string{"ab c"}},
		{`a'b c'`, []string{"ab c"}},
		{`\n a\b`, []string{`\n`, `a\b`}},
		{`"é😀"`, []string{"é😀"}},
		{`SET k {"a":1}`, nil}, // a quote within a word opens, and must close before white space
	}
	for _, test := range tests {
		got, err := Parse(test.line)
		if test.want == nil {
			if err == nil {
				t.Errorf("Parse(%q) = %q, want an error", test.line, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("Parse(%q): %v", test.line, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", test.line, diff)
		}
		back, err := Parse(quote(got))
		if err != nil {
			t.Errorf("Parse(quote(%q)): %v", got, err)
		}
		if diff := cmp.Diff(got, back); diff != "" {
			t.Errorf("Parse(quote(%q)) (-want +got):\n%s", got, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		line, want string
	}{
		{`SET k "abc`, `column 7: the quote " is not closed`},
		{`SET k 'abc`, `column 7: the quote ' is not closed`},
		{`SET k "abc\"`, `column 7: the quote " is not closed`},
		{`SET k "abc\`, `column 7: the quote " is not closed`},
		{`SET k "abc"d`, `column 12: white space is missing after the closing "`},
		{`'a''b'`, `column 4: white space is missing after the closing '`},
	}
	for _, test := range tests {
		if _, err := Parse(test.line); err == nil || err.Error() != test.want {
			t.Errorf("Parse(%q): %v, want %s", test.line, err, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`SET k "a\x00b" 'c'`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Parse(line)
		if err != nil {
			return
		}
		back, err := Parse(quote(words))
		if err != nil {
			t.Fatalf("Parse(quote(%q)): %v", words, err)
		}
		if diff := cmp.Diff(words, back); diff != "" {
			t.Errorf("Parse(quote(%q)) (-want +got):\n%s", words, diff)
		}
	})
}

// quote writes words as one line that Parse and valkey-cli read back as they
// were. Words that need no quotes get none.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quoteWord(word)
	}
	return strings.Join(quoted, " ")
}

func quoteWord(word string) string {
	bare := word != ""
	for i := range len(word) {
		if c := word[i]; c <= ' ' || c == '"' || c == '\'' || c == 0x7f {
			bare = false
		}
	}
	if bare {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(word) {
		switch c := word[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case '\a':
			b.WriteString(`\a`)
		default:
			if c < ' ' || c == 0x7f {
				fmt.Fprintf(&b, `\x%02x`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
