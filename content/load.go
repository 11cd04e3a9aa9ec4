package content

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/figures"
	"lockstep/lua"
)

// Load reads every page of fsys. The course is usable whatever is wrong in it;
// the faults, of all files in order, are also with the pages they belong to.
func Load(fsys fs.FS, scripts lua.Scripts) (*Course, figures.Faults) {
	l := &loader{fsys: fsys, scripts: scripts, md: newMarkdown()}
	l.read()
	course := l.arrange()
	for _, d := range l.drafts {
		l.guard(d, func() {
			l.link(d, course)
			l.render(d)
		})
	}
	l.index(course)
	faults := slices.Clone(l.faults)
	for _, d := range l.drafts {
		d.page.Faults.Sort()
		faults = append(faults, d.page.Faults...)
	}
	// A page that lost its address to another isn't in the course: who looks at
	// the address must see why.
	for _, d := range l.drafts {
		if d.shadowed != nil {
			d.shadowed.Faults = append(d.shadowed.Faults, d.page.Faults...)
		}
	}
	faults.Sort()
	return course, faults
}

// Fingerprint changes when a page of fsys is added, saved or removed. It reads
// no file.
func Fingerprint(fsys fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) { // removed while we looked
				return nil
			}
			return err
		}
		_, err = fmt.Fprintln(sum, name, info.Size(), info.ModTime().UnixNano())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look at the content: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// A loader is one reading of a content folder.
type loader struct {
	fsys    fs.FS
	scripts lua.Scripts
	md      *markdown
	drafts  []*draft       // in the order of file names
	faults  figures.Faults // those that belong to no page

	byFile map[string]*draft
}

// fault notes something that is wrong with a page.
func (d *draft) fault(line int, hint, format string, args ...any) {
	d.page.Faults = append(d.page.Faults, figures.Fault{
		File: d.page.File, Line: line, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// guard keeps a panic in a library from taking the other pages with it.
func (l *loader) guard(d *draft, do func()) {
	defer func() {
		if r := recover(); r != nil {
			d.fault(0, "the text of this page meets a bug of the site", "the page cannot be rendered: %v", r)
			d.doc = nil
			d.page.Body = nil
		}
	}()
	do()
}

var (
	fileName   = regexp.MustCompile(`^[a-z0-9-]+\.md$`)
	folderName = regexp.MustCompile(`^[a-z0-9-]+$`)
)

// skipped tells whether a name is none of a page or a course folder: it starts
// with a capital, a dot or an underscore.
func skipped(name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	return first == '.' || first == '_' || unicode.IsUpper(first)
}

// taken are names that the site itself uses below its own address and below a
// page's.
func taken(dir, name string) bool {
	if dir == "." && (name == "static" || name == "healthz" || name == "search") {
		return true
	}
	return name == "figures"
}

// read finds the pages' files and reads each.
func (l *loader) read() {
	l.byFile = map[string]*draft{}
	err := fs.WalkDir(l.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			l.faults = append(l.faults, figures.Fault{File: name, Message: "cannot be read: " + err.Error()})
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		base := entry.Name()
		if name != "." && skipped(base) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			l.hidden(name)
			return nil
		}
		if entry.IsDir() || !strings.EqualFold(path.Ext(base), ".md") {
			return nil
		}
		d := &draft{page: &Page{Place: Place{File: name, URL: address(name)}}}
		l.drafts = append(l.drafts, d)
		l.byFile[name] = d
		l.name(d)
		text, err := fs.ReadFile(l.fsys, name)
		if err != nil {
			d.opaque = true
			d.fault(0, "", "cannot be read: %v", err)
			return nil
		}
		l.guard(d, func() { l.parse(d, text) })
		return nil
	})
	if err != nil {
		l.faults = append(l.faults, figures.Fault{File: ".", Message: "cannot be read: " + err.Error()})
	}
}

// hidden notes a file that was meant as a page and is none by its name.
func (l *loader) hidden(name string) {
	if first, _ := utf8.DecodeRuneInString(path.Base(name)); !unicode.IsUpper(first) || path.Ext(name) != ".md" {
		return
	}
	text, err := fs.ReadFile(l.fsys, name)
	if err == nil && isRule(firstLine(normal(text))) {
		l.faults = append(l.faults, figures.Fault{
			File: name, Message: "this is no page, since its name starts with a capital", Hint: "use small letters a-z, digits and hyphens",
		})
	}
}

// name checks the names that make a page's address.
func (l *loader) name(d *draft) {
	dir, base := path.Split(d.page.File)
	if !fileName.MatchString(base) {
		d.fault(0, "use small letters a-z, digits and hyphens, and end in .md", "%q makes no address", base)
	}
	folders := strings.Split(strings.Trim(dir, "/"), "/")
	for i, folder := range folders {
		if folder != "" && !folderName.MatchString(folder) {
			d.fault(0, "use small letters a-z, digits and hyphens", "the folder %q makes no address", folder)
		}
		if taken(path.Join(append([]string{"."}, folders[:i]...)...), folder) {
			d.fault(0, "give the folder another name", "the site itself uses the address %q", folder)
		}
	}
	if slug := strings.TrimSuffix(base, ".md"); taken(path.Clean(dir), slug) {
		d.fault(0, "give the file another name", "the site itself uses the address %q", slug)
	}
	if depth(d.page.URL) > int(KindDive) {
		d.fault(0, "pages are <course>/<chapter>/<module>/<dive>.md at most", "the page lies too deep")
	}
}

// address gives the address of the page in a file.
func address(file string) string {
	url := "/" + strings.TrimSuffix(file, path.Ext(file))
	if path.Base(url) == "index" {
		url = path.Dir(url)
	}
	return url
}

func depth(url string) int { return strings.Count(strings.TrimSuffix(url, "/"), "/") }

// normal gives a file's text with LF line ends and without a byte order mark,
// so that a checkout or an editor changes nothing of what is shown and run.
func normal(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	// Markdown has no NUL, and render marks the places of parts with it.
	return bytes.ReplaceAll(text, []byte{0}, []byte("\ufffd"))
}

// parse reads one page: its front matter, then the body as a tree.
func (l *loader) parse(d *draft, text []byte) {
	text = normal(text)
	if !utf8.Valid(text) {
		d.opaque = true
		line := slices.IndexFunc(bytes.Split(text, []byte("\n")), func(line []byte) bool { return !utf8.Valid(line) })
		d.fault(1+line, "save the file as UTF-8", "the text is not UTF-8")
		return
	}
	bodyLine, ok := l.frontMatter(d, text)
	if !ok {
		d.opaque = true
		return
	}
	d.setSource(text, bodyLine)
	l.parseBody(d)
}

// arrange builds the tree of pages and the order in which they are read.
func (l *loader) arrange() *Course {
	course := &Course{Home: folder("/", ""), byURL: map[string]*Page{}, byID: map[string]*Page{}}
	l.addresses(course)
	if home, ok := course.byURL["/"]; ok {
		course.Home = home
	}
	course.byURL["/"] = course.Home
	for _, d := range l.drafts {
		if d.shadowed == nil {
			course.place(d.page)
		}
	}
	sortTree(course.Home)
	beside := setApart(course.Home)
	course.Pages = append(below(course.Home), beside...)
	for _, p := range course.Pages {
		if p.Kind != KindBeside {
			p.Eyebrow = eyebrow(p)
		}
		if p.Kind == KindModule {
			chain(append([]*Page{p}, p.Children...))
		}
	}
	l.ids(course)
	return course
}

// folder is a page without a file.
func folder(url, title string) *Page {
	return &Page{About: About{Title: title, Name: title, TitleHTML: inlineText(title), Lang: "en", Dir: "ltr"}, Place: Place{URL: url}}
}

// addresses gives each address to one page: to index.md before another file,
// since it is what authors mean.
func (l *loader) addresses(course *Course) {
	for _, index := range []bool{true, false} {
		for _, d := range l.drafts {
			p := d.page
			if (path.Base(p.File) == "index.md") != index {
				continue
			}
			if first, ok := course.byURL[p.URL]; ok {
				d.fault(0, "rename one of them", "%s has the same address, %s", first.File, p.URL)
				d.shadowed = first
				continue
			}
			course.byURL[p.URL] = p
		}
	}
}

// place puts a page below its folder's, which it makes where there is none.
func (c *Course) place(p *Page) {
	p.Kind = Kind(min(depth(p.URL), int(KindDive)))
	if p.Kind == KindHome {
		return
	}
	dir := path.Dir(p.URL)
	parent, ok := c.byURL[dir]
	if !ok {
		parent = folder(dir, folderTitle(dir))
		c.byURL[dir] = parent
		c.place(parent)
	}
	p.Parent = parent
	parent.Children = append(parent.Children, p)
}

// ids gives each id to one page.
func (l *loader) ids(course *Course) {
	for _, d := range l.drafts {
		p := d.page
		if p.ID == "" || d.shadowed != nil {
			continue
		}
		if first, ok := course.byID[p.ID]; ok {
			d.fault(d.keyLine["id"], "each page has an id of its own", "%s has the id %q too", first.File, p.ID)
			continue
		}
		course.byID[p.ID] = p
	}
}

// setApart takes those pages out of the courses that are none: a file at the
// top, with nothing below it.
func setApart(home *Page) (beside []*Page) {
	var courses []*Page
	for _, p := range home.Children {
		if p.File == "" || path.Base(p.File) == "index.md" || len(p.Children) > 0 {
			courses = append(courses, p)
			continue
		}
		p.Kind = KindBeside
		beside = append(beside, p)
	}
	home.Children = courses
	return beside
}

// sortTree puts the pages below p in order, each folder's by id.
func sortTree(p *Page) {
	for _, child := range p.Children {
		sortTree(child)
	}
	slices.SortFunc(p.Children, func(a, b *Page) int {
		x, y := orderID(a), orderID(b)
		if (x == "") != (y == "") { // those without an id come last
			return cmp.Compare(y, x)
		}
		return cmp.Or(compareNatural(x, y), cmp.Compare(a.URL, b.URL))
	})
}

// orderID is the id by which a page is ordered: a folder without index.md has
// its place by what is in it.
func orderID(p *Page) string {
	if p.ID == "" && p.File == "" && len(p.Children) > 0 {
		return orderID(p.Children[0])
	}
	return p.ID
}

// below lists the pages below p in reading order.
func below(p *Page) []*Page {
	var pages []*Page
	for _, child := range p.Children {
		pages = append(pages, child)
		pages = append(pages, below(child)...)
	}
	return pages
}

// chain sets previous and next.
func chain(pages []*Page) {
	for i, p := range pages {
		if i > 0 {
			p.Prev = pages[i-1]
		}
		if i < len(pages)-1 {
			p.Next = pages[i+1]
		}
	}
}

// compareNatural compares runs of digits by their number, so that R2.02.2
// stands before R2.02.10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		x, y := leadingRun(a), leadingRun(b)
		a, b = a[len(x):], b[len(y):]
		c := cmp.Compare(x, y)
		if isDigit(x[0]) && isDigit(y[0]) {
			n, m := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			c = cmp.Or(cmp.Compare(len(n), len(m)), cmp.Compare(n, m), c)
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// leadingRun gives the digits that s starts with, or what stands before its
// first digit.
func leadingRun(s string) string {
	i := 1
	for i < len(s) && isDigit(s[i]) == isDigit(s[0]) {
		i++
	}
	return s[:i]
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// folderTitle makes a title of a folder's name.
func folderTitle(url string) string {
	words := strings.ReplaceAll(path.Base(url), "-", " ")
	first, size := utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(first)) + words[size:]
}

// eyebrow is the line over a page's title.
func eyebrow(p *Page) string {
	kind := p.Kind.String()
	if p.Kind == KindDive {
		kind = fmt.Sprintf("dive %s", diveNumber(p))
	}
	var words []string
	if p.ID != "" {
		words = append(words, p.ID)
	}
	if p.Parent.Name != "" {
		words = append(words, p.Parent.Name)
	}
	return strings.Join(append(words, kind), " · ")
}

// diveNumber is the last number of a dive's id where that goes on from its
// module's (R2.02 and R2.02.2), or else its place in the module.
func diveNumber(p *Page) string {
	last, ok := strings.CutPrefix(p.ID, p.Parent.ID+".")
	if ok && p.Parent.ID != "" && last != "" && strings.Trim(last, "0123456789") == "" {
		return strings.TrimLeft(last[:len(last)-1], "0") + last[len(last)-1:]
	}
	return fmt.Sprint(1 + slices.Index(p.Parent.Children, p))
}
