package pages_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/andybalholm/brotli"

	"lockstep/tests/course"
)

// TestScripts runs the request scripts in testdata. A script is a list of cases,
// each a paragraph: one or more requests, and what each of their answers must be.
//
//	# A comment, and the name of the case that follows.
//	GET /some/page
//	send Accept: application/json
//	code == 200
//	header Vary contains Accept
//	json values.released == 1
//
// The address goes out byte for byte. What can be looked at:
//
//	code              the status
//	header NAME       a header of the answer
//	body              the body, decompressed
//	text SELECTOR     the text of the elements that a CSS selector finds, spaces joined
//	count SELECTOR    how many it finds
//	json PATH         a value of a JSON body, by keys and indexes with dots; # is a length
//
// and how: `== VALUE`, `!= VALUE`, `contains TEXT`, `!contains TEXT`, `~ REGEXP`, `!~ REGEXP`,
// `missing`. Values of json are written as JSON.
//
// `keep NAME SUBJECT` keeps what an answer held, and `let NAME VALUE` names a
// text; both are written $NAME from there on.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			runScript(t, file, string(text), strings.TrimPrefix(course.Visit(t).URL, "http://"))
		})
	}
}

// A scriptCase is one paragraph of a script.
type scriptCase struct {
	name     string
	requests []string // "GET /page"
	header   []string
	checks   []scriptLine
}

type scriptLine struct {
	number int
	text   string
}

var request = regexp.MustCompile(`^(GET|HEAD|POST|PUT|DELETE) (/\S*|\*)$`)

// runScript runs every case of a script against a server.
func runScript(t *testing.T, file, text, addr string) {
	names := map[string]string{}
	var now scriptCase
	finish := func() {
		if len(now.requests) > 0 {
			c := now
			t.Run(c.name, func(t *testing.T) { c.run(t, file, addr, names) })
		}
		now = scriptCase{}
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		for name, value := range names {
			line = strings.ReplaceAll(line, "$"+name, value)
		}
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
			finish()
		case word == "#":
			now.name = strings.TrimSpace(now.name + " " + rest)
		case word == "let":
			name, value, _ := strings.Cut(rest, " ")
			names[name] = value
		case request.MatchString(line):
			now.requests = append(now.requests, line)
			if now.name == "" {
				now.name = line
			}
		case word == "send":
			now.header = append(now.header, rest)
		case len(now.requests) > 0:
			now.checks = append(now.checks, scriptLine{i + 1, line})
		default:
			t.Fatalf("%s:%d: there is no request before %q", file, i+1, line)
		}
	}
	finish()
}

func (c *scriptCase) run(t *testing.T, file, addr string, names map[string]string) {
	for _, request := range c.requests {
		a, err := raw(addr, request, c.header)
		if err != nil {
			t.Fatalf("%s: %s: %v", file, request, err)
		}
		for _, line := range c.checks {
			if name, subject, ok := strings.Cut(strings.TrimPrefix(line.text, "keep "), " "); ok && strings.HasPrefix(line.text, "keep ") {
				value, _, err := a.look(subject)
				if err != nil {
					t.Fatalf("%s:%d: %v", file, line.number, err)
				}
				names[name] = fmt.Sprint(value)
				continue
			}
			if err := a.check(line.text); err != nil {
				t.Errorf("%s:%d: %s\n\t%s\n\t%v", file, line.number, request, line.text, err)
			}
		}
		if t.Failed() {
			t.Logf("%s: %d %v\n%.2000s", request, a.Code, a.Header, a.Body)
		}
	}
}

// An answer is one that checks look at.
type answer course.Answer

// raw sends one request as it is written, down a connection of its own: a
// client library would put strange addresses in order.
func raw(addr, request string, header []string) (a answer, err error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	lines := append([]string{request + " HTTP/1.1", "Host: " + addr, "Connection: close", "Content-Length: 0"}, header...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return a, err
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && len(body) > 0 {
		body, err = decode(resp.Header.Get("Content-Encoding"), body)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

func decode(coding string, body []byte) ([]byte, error) {
	switch coding {
	case "br":
		return io.ReadAll(brotli.NewReader(bytes.NewReader(body)))
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}
	return body, nil
}

var check = regexp.MustCompile(`^(.+?) (==|!=|contains|!contains|~|!~) (.*)$`)

// check judges one line of a case.
func (a answer) check(line string) error {
	if subject, ok := strings.CutSuffix(line, " missing"); ok {
		got, found, err := a.look(subject)
		if err == nil && found {
			err = fmt.Errorf("it is there: %v", got)
		}
		return err
	}
	m := check.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("not a check")
	}
	subject, op, want := m[1], m[2], m[3]
	got, found, err := a.look(subject)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("it is missing")
	}
	text := fmt.Sprint(got)
	ok := false
	switch op {
	case "==", "!=":
		if strings.HasPrefix(subject, "json ") {
			var value any
			if err := json.Unmarshal([]byte(want), &value); err != nil {
				return fmt.Errorf("%s is no JSON: %w", want, err)
			}
			ok = reflect.DeepEqual(got, value) == (op == "==")
		} else {
			ok = (text == want) == (op == "==")
		}
	case "contains", "!contains":
		ok = strings.Contains(text, want) == (op == "contains")
	case "~", "!~":
		pattern, err := regexp.Compile(want)
		if err != nil {
			return err
		}
		ok = pattern.MatchString(text) == (op == "~")
	}
	if !ok {
		return fmt.Errorf("it is %.300q", text)
	}
	return nil
}

// look finds what a check is about.
func (a answer) look(subject string) (value any, found bool, err error) {
	kind, rest, _ := strings.Cut(subject, " ")
	switch kind {
	case "code":
		return a.Code, true, nil
	case "header":
		values := a.Header.Values(rest)
		return strings.Join(values, ", "), len(values) > 0, nil
	case "body":
		return a.Body, a.Body != "", nil
	case "text", "count":
		doc, err := goquery.NewDocumentFromReader(strings.NewReader(a.Body))
		if err != nil {
			return nil, false, err
		}
		elements := doc.Find(rest)
		if kind == "count" {
			return elements.Length(), true, nil
		}
		return strings.Join(strings.Fields(elements.Text()), " "), elements.Length() > 0, nil
	case "json":
		if err := json.Unmarshal([]byte(a.Body), &value); err != nil {
			return nil, false, fmt.Errorf("the body is no JSON: %w", err)
		}
		value, found = dig(value, rest)
		return value, found, nil
	}
	return nil, false, fmt.Errorf("unknown subject %q", kind)
}

// dig goes down a JSON value by keys and indexes.
func dig(value any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			inner, ok := v[key]
			if !ok {
				return nil, false
			}
			value = inner
		case []any:
			if key == "#" {
				value = float64(len(v))
				continue
			}
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, path == ""
		}
	}
	return value, true
}
