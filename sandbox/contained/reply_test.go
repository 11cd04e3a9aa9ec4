package contained

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"lockstep/sandbox"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
)

// repeated gives a text again and again, up to most bytes.
func repeated(text string, most int64) io.Reader {
	return io.LimitReader(&again{text: text}, most)
}

type again struct {
	text string
	at   int
}

func (a *again) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = a.text[a.at]
		a.at = (a.at + 1) % len(a.text)
	}
	return len(p), nil
}

func TestReply(t *testing.T) {
	read := func(text string) (any, error) {
		r := reader{from: bufio.NewReader(strings.NewReader(text))}
		return r.reply()
	}
	for text, want := range map[string]any{
		"+OK\r\n":                        "OK",
		"-ERR no\r\n":                    refusal("ERR no"),
		":-7\r\n":                        int64(-7),
		"$-1\r\n":                        nil,
		"*-1\r\n":                        nil,
		"$0\r\n\r\n":                     "",
		"$4\r\na\r\nb\r\n":               "a\r\nb",
		"*3\r\n:1\r\n$-1\r\n-ERR in\r\n": []any{int64(1), nil, error(refusal("ERR in"))},
		"*2\r\n*0\r\n*1\r\n+x\r\n":       []any{[]any{}, []any{"x"}},
	} {
		got, err := read(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{
		"\r\n", "OK\r\n", "+OK\n", ":x\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", "$1\r\nab\r\n",
		"%1\r\n+a\r\n+b\r\n", "_\r\n", "#t\r\n", ",1\r\n", "~0\r\n", ">0\r\n", "$262145\r\n", "*10001\r\n",
		strings.Repeat("*1\r\n", 34) + ":1\r\n",
	} {
		if got, err := read(text); !errors.Is(err, errReply) {
			t.Errorf("%.40q = %v, %v, want it refused", text, got, err)
		}
	}
	for _, text := range []string{"", "+O", "$3\r\nab", "*2\r\n:1\r\n"} {
		if got, err := read(text); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q = %v, %v, want an end", text, got, err)
		}
	}
}

// TestLies has a server announce, or send, more than anybody wants to hold.
func TestLies(t *testing.T) {
	for name, answer := range map[string]io.Reader{
		"an array":      strings.NewReader("*2147483647\r\n"),
		"a string":      strings.NewReader("$2147483647\r\n"),
		"a map":         strings.NewReader("%100000000\r\n"),
		"nested arrays": repeated("*1\r\n", 8<<20),
		"wide arrays":   repeated("*9999\r\n", 8<<20),
		"a line":        io.MultiReader(strings.NewReader("+"), repeated("x", 600<<20)),
		"a number":      io.MultiReader(strings.NewReader(":"), repeated("1", 600<<20)),
		"one too many":  strings.NewReader("+OK\r\n+OK\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer ours.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = theirs.Read(make([]byte, 1024))
				_, _ = io.Copy(theirs, answer)
				_ = theirs.Close()
			}()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p := &process{}
			err := p.speak(ours)([]redis.Cmder{redis.NewCmd(t.Context(), "GET", "k")})
			runtime.ReadMemStats(&after)
			_ = ours.Close()
			<-done
			if !errors.Is(err, errReply) || p.trouble == nil || p.trouble.Kind != sandbox.OfReply {
				t.Errorf("err = %v, trouble = %v, want it refused", err, p.trouble)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 2<<20 {
				t.Errorf("%d bytes were allocated", took)
			}
		})
	}
}

// TestSmuggled has a script's reply bring others with it.
func TestSmuggled(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_, _ = theirs.Read(make([]byte, 4096))
		_, _ = fmt.Fprint(theirs, "-ERR a\r\n$8\r\nINJECTED\r\n+OK\r\n")
	}()
	get := redis.NewCmd(t.Context(), "GET", "k")
	p := &process{}
	err := p.speak(ours)([]redis.Cmder{redis.NewCmd(t.Context(), "EVALSHA", "abc", "0"), get})
	if !errors.Is(err, errReply) {
		t.Errorf("err = %v, want it refused", err)
	}
	if get.Val() != nil {
		t.Errorf("the next command was answered %v", get.Val())
	}
}

func FuzzReply(f *testing.F) {
	for _, text := range []string{"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$3\r\nabc\r\n", "*2\r\n$-1\r\n*0\r\n", "*2147483647\r\n", "%1\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := reader{from: bufio.NewReader(strings.NewReader(string(text)))}
		got, err := r.reply()
		if err != nil {
			return
		}
		values, bytes, deepest := size(got, 0)
		if values > mostElements || bytes > mostBytes || deepest > mostDepth {
			t.Errorf("%d values, %d bytes, %d deep", values, bytes, deepest)
		}
	})
}

func size(v any, depth int) (values, bytes, deepest int) {
	values, deepest = 1, depth
	switch v := v.(type) {
	case string:
		bytes = len(v)
	case []any:
		for _, item := range v {
			n, b, d := size(item, depth+1)
			values, bytes, deepest = values+n, bytes+b, max(deepest, d)
		}
	}
	return values, bytes, deepest
}

func FuzzScriptError(f *testing.F) {
	f.Add("ERR user_script:1: x script: a2aa786b55411d3867dcc474af1d6517619162eb, on @user_script:1.")
	f.Add("ERR Error compiling script (new function): user_script:2: unexpected symbol near '<eof>'")
	f.Fuzz(func(t *testing.T, text string) {
		if trouble := fromScript(text); trouble != nil && trouble.Line < 0 {
			t.Errorf("line %d", trouble.Line)
		}
	})
}
