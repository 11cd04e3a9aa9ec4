package content

import (
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"lockstep/figures"
)

// Bounds of a search.
const (
	MaxHits       = 40 // so many passages are listed at most
	maxQueryWords = 10
	snippetLead   = 60  // bytes before the first match
	snippetLength = 200 // bytes in all
)

// A Hit is a place of the course that holds every word of a query.
type Hit struct {
	Page    *Page
	Heading string  // the section's, or the figure's title; empty for the page as a whole
	Anchor  string  // without #; empty for the page as a whole
	Figure  int     // the figure's number; 0 elsewhere
	Snippet []Piece // of the place's text; empty where it has none
}

// URL is the address of the place.
func (h Hit) URL() string {
	if h.Anchor == "" {
		return h.Page.URL
	}
	return h.Page.URL + "#" + h.Anchor
}

// A Piece is a stretch of a snippet.
type Piece struct {
	Text  string
	Match bool // it is a word of the query
}

// A passage is what a search can find: a page as a whole, a section or a figure.
type passage struct {
	hit     Hit
	text    string
	title   []string // folded words, in order, each once; of the whole page
	heading []string
	body    []string
}

// What a word of a query is worth by where it stands. The best of one kind is
// worth more than all words of the next.
const (
	inTitle   = inHeading * (maxQueryWords + 1) * 2
	inHeading = inText * (maxQueryWords + 1) * 2
	inText    = 2 // and one more where the whole word is meant, not only its beginning
)

// Search finds the places that hold every word of a query, or a word that
// starts with it; case and accents don't count. Matches in a page's title come
// first, then those in headings, then those in the text, each in reading order;
// at most 40 are listed.
func (c *Course) Search(query string) []Hit {
	wanted := foldedWords(query)
	if len(wanted) == 0 {
		return nil
	}
	wanted = wanted[:min(len(wanted), maxQueryWords)]
	type found struct {
		*passage
		worth int
	}
	var all []found
	for i := range c.passages {
		if worth := c.passages[i].worth(wanted); worth > 0 {
			all = append(all, found{&c.passages[i], worth})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return b.worth - a.worth })
	var hits []Hit
	for _, f := range all[:min(len(all), MaxHits)] {
		hit := f.hit
		hit.Snippet = snippet(f.text, wanted)
		hits = append(hits, hit)
	}
	return hits
}

// worth is 0 where a word is missing. That a section's page has a word in its
// title says what the section is about, and finds nothing by itself: the page
// is found.
func (p *passage) worth(wanted []string) int {
	sum := 0
	for _, w := range wanted {
		title, heading, body := match(p.title, w), match(p.heading, w), match(p.body, w)
		switch {
		case title > 0 && p.hit.Anchor == "":
			sum += inTitle + title
		case heading > 0:
			sum += inHeading + heading
		case body > 0:
			sum += inText + body
		case title == 0:
			return 0
		}
	}
	return sum
}

// match tells whether one of the words starts with another (1), or is it (2).
func match(words []string, w string) int {
	at, whole := slices.BinarySearch(words, w)
	switch {
	case whole:
		return 2
	case at < len(words) && strings.HasPrefix(words[at], w):
		return 1
	}
	return 0
}

// index lists what can be found, in reading order.
func (l *loader) index(c *Course) {
	for _, p := range append([]*Page{c.Home}, c.Pages...) {
		title := set(p.Title + " " + p.Name + " " + p.ID)
		if len(title) == 0 {
			continue
		}
		whole := passage{hit: Hit{Page: p}, text: p.Description, title: title}
		d := l.byFile[p.File]
		if d == nil || d.doc == nil || len(p.Faults) > 0 {
			c.passages = append(c.passages, whole)
			continue
		}
		c.passages = append(c.passages, d.passages(whole)...)
	}
	for i := range c.passages {
		p := &c.passages[i]
		p.heading, p.body = set(p.hit.Heading), set(p.text)
	}
}

// passages takes a page apart at its headings. What a figure says is a passage of
// its own, so that a reader lands on it.
func (d *draft) passages(whole passage) []passage {
	list := []passage{whole}
	current, text := 0, strings.Fields(whole.text)
	open := func(p passage) {
		list[current].text = strings.Join(text, " ")
		list, current, text = append(list, p), len(list), nil
	}
	at := func(heading, anchor string) passage {
		return passage{hit: Hit{Page: d.page, Heading: heading, Anchor: anchor}, title: whole.title}
	}
	add := func(s string) {
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			text = append(text, s)
		}
	}
	_ = ast.Walk(d.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if id := headingID(n); id != "" && n.Level <= 3 {
				open(at(plainText(n, d.source), id))
			} else {
				add(plainText(n, d.source))
			}
			return ast.WalkSkipChildren, nil
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			add(string(lines(n, d.source)))
			return ast.WalkSkipChildren, nil
		case *partNode:
			switch part := d.parts[n.index]; {
			case part.Figure != nil:
				figure := at(part.Figure.Title, part.Figure.ID)
				figure.hit.Figure, figure.text = part.Number, figureText(part.Figure)
				list = append(list, figure)
			case part.Script != nil:
				add(part.Script.Name)
			}
			return ast.WalkSkipChildren, nil
		}
		if first := n.FirstChild(); first != nil && first.Type() == ast.TypeInline {
			add(plainText(n, d.source))
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	list[current].text = strings.Join(text, " ")
	return list
}

// figureText is what a figure says before anything ran.
func figureText(f *figures.Figure) string {
	text := []string{f.Idle}
	for _, p := range f.Paths {
		text = append(text, p.Label+": "+p.Static)
	}
	if f.Resource != "" {
		text = append(text, "Key "+f.Resource)
	}
	return strings.Join(text, " ")
}

// A word stands at a place of a text.
type word struct {
	folded     string
	start, end int
}

// wordsOf takes a text apart. A word is a run of letters, digits and marks;
// in scripts that write no spaces every letter is one.
func wordsOf(text string) []word {
	var all []word
	start, alone := -1, false
	end := func(at int) {
		if start >= 0 {
			if folded := fold(text[start:at]); folded != "" {
				all = append(all, word{folded, start, at})
			}
		}
		start = -1
	}
	for at, r := range text {
		switch {
		case unicode.IsMark(r):
			// belongs to the letter before it
		case !unicode.IsLetter(r) && !unicode.IsNumber(r):
			end(at)
		default:
			spaceless := unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
			if alone || spaceless {
				end(at)
			}
			if alone = spaceless; start < 0 {
				start = at
			}
		}
	}
	end(len(text))
	return all
}

// fold takes case, accents and width away.
func fold(s string) string {
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < 0x80
	}
	if ascii {
		return strings.ToLower(s)
	}
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(cases.Fold().String(s)))
}

// foldedWords are a text's words as they stand.
func foldedWords(text string) (all []string) {
	for _, w := range wordsOf(text) {
		if !slices.Contains(all, w.folded) {
			all = append(all, w.folded)
		}
	}
	return all
}

// set is a text's words in order, each once.
func set(text string) []string {
	var all []string
	for _, w := range wordsOf(text) {
		all = append(all, w.folded)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// snippet is the stretch of a text that holds the most of the wanted words, or
// its beginning where it holds none.
func snippet(text string, wanted []string) []Piece {
	words := wordsOf(text)
	if len(words) == 0 {
		return nil
	}
	which := make([]int, len(words)) // the wanted word that each one is, or -1
	for i, w := range words {
		which[i] = slices.IndexFunc(wanted, func(want string) bool { return strings.HasPrefix(w.folded, want) })
	}
	best := densest(words, which)
	first := best
	for first > 0 && words[first-1].start >= words[best].start-snippetLead {
		first--
	}
	if first > 0 && first < best && strings.HasSuffix(text[:words[first].start], "'") {
		first++ // not with the "s" of "it's"
	}
	last := best
	for last < len(words)-1 && words[last+1].end <= words[first].start+snippetLength {
		last++
	}
	from, to := words[first].start, words[last].end
	var pieces []Piece
	add := func(s string, match bool) {
		if s != "" {
			pieces = append(pieces, Piece{s, match})
		}
	}
	if first == 0 {
		from = 0
	} else {
		add("… ", false)
	}
	for i := first; i <= last; i++ {
		if which[i] >= 0 {
			add(text[from:words[i].start], false)
			add(text[words[i].start:words[i].end], true)
			from = words[i].end
		}
	}
	if last == len(words)-1 {
		add(text[from:], false)
	} else {
		add(text[from:to]+" …", false)
	}
	return pieces
}

// densest is the word from which on the most of the wanted ones stand in one
// snippet, or the first where none does.
func densest(words []word, which []int) int {
	best, most := 0, 0
	for i := range words {
		if which[i] < 0 {
			continue
		}
		seen := map[int]bool{}
		for j := i; j < len(words) && words[j].end <= words[i].start+snippetLength-snippetLead; j++ {
			if which[j] >= 0 {
				seen[which[j]] = true
			}
		}
		if len(seen) > most {
			best, most = i, len(seen)
		}
	}
	return best
}
