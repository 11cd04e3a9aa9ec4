// Package rooms_test holds the project's packages against the imports that each
// may have, and draws the map of them that README shows.
package rooms_test

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw the map again")

const (
	root   = "../.."
	module = "lockstep/"
)

// rooms are the packages and what of ours each may import. A new arrow is a
// decision: it stands here or the test fails. Tests may import what they like.
var rooms = map[string]string{
	"cmd/site":           "content figures figures/explore figures/run handlers lua sandbox/contained sandbox/fleet sandbox/server sandbox/sql",
	"handlers":           "components components/card components/chart content figures figures/explore figures/run handlers/admission lua sandbox static",
	"handlers/admission": "",
	"components":         "components/card components/say content figures sandbox static",
	"components/card":    "components/chart components/say figures figures/expr sandbox",
	"components/chart":   "components/say figures figures/expr sandbox",
	"components/say":     "figures figures/expr sandbox",
	"content":            "figures figures/read lua",
	"figures/run":        "figures figures/explore figures/expr sandbox sandbox/fleet sandbox/server sandbox/sql",
	"figures/explore":    "figures figures/expr sandbox",
	"figures/read":       "figures figures/expr lua sandbox sandbox/sql",
	"figures":            "figures/expr sandbox",
	"figures/expr":       "sandbox",
	"sandbox/fleet":      "sandbox sandbox/server",
	"sandbox/contained":  "sandbox sandbox/server",
	"sandbox/server":     "sandbox",
	"sandbox/sql":        "sandbox",
	"sandbox":            "",
	"lua":                "",
	"static":             "",
}

// libraries are those that only one part of the project may know.
var libraries = map[string]string{
	"github.com/labstack/echo":   "handlers",
	"github.com/yuin/goldmark":   "content",
	"github.com/redis/go-redis":  "sandbox",
	"go.yaml.in/yaml":            "content figures/read",
	"github.com/expr-lang/expr":  "figures/expr",
	"github.com/jackc/pgx":       "sandbox/sql",
	"github.com/ncruces":         "sandbox/sql",
	"github.com/alicebob":        "sandbox/server",
	"github.com/alecthomas/kong": "cmd/site",
	"github.com/landlock-lsm":    "sandbox/contained",
	"github.com/elastic":         "sandbox/contained",
}

// A room is a package as its files have it.
type room struct {
	name    string
	says    string   // the first sentence of its comment, without its name
	ours    []string // what it imports of the project
	foreign []string
}

// read finds every package that is not a test's.
func read(t *testing.T) map[string]*room {
	t.Helper()
	all := map[string]*room{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "tests" || strings.HasPrefix(entry.Name(), ".") && file != root) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if all[name] == nil {
			all[name] = &room{name: name}
		}
		return all[name].take(file)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// take reads one file of a package.
func (r *room) take(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	if doc := strings.Join(strings.Fields(parsed.Doc.Text()), " "); doc != "" {
		sentence, _, _ := strings.Cut(doc+" ", ". ")
		r.says = strings.TrimPrefix(strings.TrimPrefix(sentence, "Package "+path.Base(r.name)+" "), "Command "+path.Base(r.name)+" ")
	}
	for _, spec := range parsed.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		list := &r.foreign
		if strings.HasPrefix(name, module) {
			name, list = strings.TrimPrefix(name, module), &r.ours
		}
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	return nil
}

func TestImports(t *testing.T) {
	found := read(t)
	for name, r := range found {
		allowed, ok := rooms[name]
		if !ok {
			t.Errorf("%s is a new package: say here what it may import", name)
		}
		if r.says == "" {
			t.Errorf("%s has no comment that says what it is for", name)
		}
		for _, to := range r.ours {
			if !slices.Contains(strings.Fields(allowed), to) {
				t.Errorf("%s imports %s, which it may not", name, to)
			}
		}
		for library, only := range libraries {
			uses := slices.ContainsFunc(r.foreign, func(p string) bool { return p == library || strings.HasPrefix(p, library+"/") })
			may := slices.ContainsFunc(strings.Fields(only), func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") })
			if uses && !may {
				t.Errorf("%s imports %s, which only %s may", name, library, only)
			}
		}
	}
	for name, allowed := range rooms {
		if found[name] == nil {
			t.Errorf("there is no package %s any more", name)
			continue
		}
		for _, to := range strings.Fields(allowed) {
			if !slices.Contains(found[name].ours, to) {
				t.Errorf("%s may import %s, and doesn't: take the arrow away", name, to)
			}
		}
	}
}

// TestMap holds the picture in README against the code.
func TestMap(t *testing.T) {
	const file = "rooms.svg"
	want := draw(read(t))
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code says; draw it again with go test ./tests/rooms -update", file)
	}
}

// depths are how far each room is above the ground.
func depths(all map[string]*room) map[string]int {
	depth := map[string]int{}
	var of func(name string) int
	of = func(name string) int {
		if d, ok := depth[name]; ok {
			return d
		}
		d := 0
		for _, to := range all[name].ours {
			d = max(d, 1+of(to))
		}
		depth[name] = d
		return d
	}
	for name := range all {
		of(name)
	}
	return depth
}

// direct are the arrows that no way round says already.
func direct(all map[string]*room, from string) (arrows []string) {
	var reaches func(from, to string) bool
	reaches = func(from, to string) bool {
		return slices.ContainsFunc(all[from].ours, func(n string) bool { return n == to || reaches(n, to) })
	}
	for _, to := range all[from].ours {
		if !slices.ContainsFunc(all[from].ours, func(n string) bool { return n != to && reaches(n, to) }) {
			arrows = append(arrows, to)
		}
	}
	return arrows
}

const (
	boxWidth, boxHeight = 236, 74
	gapX, gapY          = 24, 44
	margin              = 16
)

// draw makes the map: a row for each depth, importers above what they import.
func draw(all map[string]*room) []byte {
	depth := depths(all)
	rows := make([][]string, slices.Max(slices.Collect(maps.Values(depth)))+1)
	for name, d := range depth {
		rows[d] = append(rows[d], name)
	}
	widest := 0
	for _, row := range rows {
		slices.SortFunc(row, func(a, b string) int { return cmp.Or(cmp.Compare(path.Dir(a), path.Dir(b)), cmp.Compare(a, b)) })
		widest = max(widest, len(row))
	}
	width := 2*margin + widest*(boxWidth+gapX) - gapX
	height := 2*margin + len(rows)*(boxHeight+gapY) - gapY
	place := map[string][2]int{}
	for d, row := range rows {
		left := (width - len(row)*(boxWidth+gapX) + gapX) / 2
		for i, name := range row {
			place[name] = [2]int{left + i*(boxWidth+gapX), margin + (len(rows)-1-d)*(boxHeight+gapY)}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif">`+"\n", width, height)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		for _, to := range direct(all, name) {
			x1, y1 := place[name][0]+boxWidth/2, place[name][1]+boxHeight
			x2, y2 := place[to][0]+boxWidth/2, place[to][1]
			fmt.Fprintf(&b, `<path d="M%d %dC%d %d %d %d %d %d" fill="none" stroke="#8a93a3"/>`+"\n", x1, y1, x1, y1+gapY/2, x2, y2-gapY/2, x2, y2)
		}
	}
	for _, name := range names {
		box(&b, all[name], place[name])
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// box draws one package: its name and what it is.
func box(b *bytes.Buffer, r *room, at [2]int) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="#f5f7fa" stroke="#5b6678"/>`+"\n", at[0], at[1], boxWidth, boxHeight)
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="14" font-weight="600" fill="#1b2330">%s</text>`+"\n", at[0]+10, at[1]+20, r.name)
	for i, line := range wrap(r.says, 36, 3) {
		fmt.Fprintf(b, `<text x="%d" y="%d" font-size="11" fill="#333d4d">`, at[0]+10, at[1]+37+14*i)
		_ = xml.EscapeText(b, []byte(line))
		b.WriteString("</text>\n")
	}
}

// wrap breaks a text into lines; what doesn't fit is left out, and shown to be.
func wrap(text string, width, most int) (lines []string) {
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		switch {
		case last >= 0 && len(lines[last])+1+len(word) <= width:
			lines[last] += " " + word
		case len(lines) == most:
			lines[last] = strings.TrimRight(lines[last], ",;:") + " …"
			return lines
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
