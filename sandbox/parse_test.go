package sandbox

import (
	"errors"
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
		back, err := Parse(Quote(got))
		if err != nil {
			t.Errorf("Parse(Quote(%q)): %v", got, err)
		}
		if diff := cmp.Diff(got, back); diff != "" {
			t.Errorf("Parse(Quote(%q)) (-want +got):\n%s", got, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		line, message string
		column        int
	}{
		{`SET k "abc`, `the quote " is not closed`, 7},
		{`SET k 'abc`, `the quote ' is not closed`, 7},
		{`SET k "abc\"`, `the quote " is not closed`, 7},
		{`SET k "abc\`, `the quote " is not closed`, 7},
		{`SET k "abc"d`, `white space is missing after the closing "`, 12},
		{`'a''b'`, `white space is missing after the closing '`, 4},
	}
	for _, test := range tests {
		_, err := Parse(test.line)
		var at *ParseError
		if !errors.As(err, &at) {
			t.Errorf("Parse(%q) = %v, want a ParseError", test.line, err)
			continue
		}
		if at.Message != test.message || at.Column != test.column {
			t.Errorf("Parse(%q) = column %d: %s, want column %d: %s", test.line, at.Column, at.Message, test.column, test.message)
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
		back, err := Parse(Quote(words))
		if err != nil {
			t.Fatalf("Parse(Quote(%q)): %v", words, err)
		}
		if diff := cmp.Diff(words, back); diff != "" {
			t.Errorf("Parse(Quote(%q)) (-want +got):\n%s", words, diff)
		}
	})
}
