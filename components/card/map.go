package card

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
)

// maxGroups is how many rows a map has at most; a row is all schedules that
// begin in the same way.
const maxGroups = 12

// leastRow is how many cells the rows have on average, at the least.
const leastRow = 5

// maxLinks is how many cells are written out as links for a reader without
// JavaScript. With it, cells come from a short code (see orderMap.code).
const maxLinks = 400

// An orderMap is what running every schedule showed, a cell for each schedule,
// or for each beginning that many share.
type orderMap struct {
	explored *figures.Explored
	moves    []string // all that can happen, in the order of the contract
	depth    int      // transitions that the schedules of a row share
	groups   []orderGroup
}

type orderGroup struct {
	Label string
	Room  int // how many cells the row has in any path of the figure
	Cells []orderCell
}

type orderCell struct {
	figures.Cell
	Number int // from 1, among all cells
	moves  []int
}

// newOrderMap lays the cells of an exploration out in rows. The other paths of
// the figure, as far as they are known, have the same rows, and rows as long:
// so going from one to the other moves no cell.
func newOrderMap(p *figures.Path, e *figures.Explored, known map[string]*figures.Explored) *orderMap {
	m := &orderMap{explored: e, moves: moveNames(p)}
	split := func(e *figures.Explored) [][]int {
		all := make([][]int, len(e.Cells))
		for i, c := range e.Cells {
			all[i] = m.indexes(c.Schedule)
		}
		return all
	}
	own := split(e)
	all := [][][]int{own}
	for id, other := range known {
		if id != p.ID {
			all = append(all, split(other))
		}
	}
	for i, cells := range all {
		if d := groupDepth(cells); i == 0 || d < m.depth {
			m.depth = d
		}
	}
	room := map[string]int{}
	begins := map[string][]int{}
	for _, cells := range all {
		counts := map[string]int{}
		for _, moves := range cells {
			begin := moves[:min(m.depth, len(moves))]
			label := m.label(begin)
			counts[label]++
			begins[label] = begin
		}
		for label, n := range counts {
			room[label] = max(room[label], n)
		}
	}
	at := map[string]int{}
	for label, n := range room {
		m.groups = append(m.groups, orderGroup{Label: label, Room: n})
	}
	slices.SortFunc(m.groups, func(a, b orderGroup) int { return slices.Compare(begins[a.Label], begins[b.Label]) })
	for i, g := range m.groups {
		at[g.Label] = i
	}
	for i, c := range e.Cells {
		g := &m.groups[at[m.label(own[i][:min(m.depth, len(own[i]))])]]
		g.Cells = append(g.Cells, orderCell{Cell: c, Number: i + 1, moves: own[i]})
	}
	return m
}

// groupDepth is the most transitions that the schedules of a row can share
// while rows are few and long.
func groupDepth(cells [][]int) int {
	depth := 1
	for ; depth < 4; depth++ {
		rows := 0
		for i, moves := range cells {
			next := depth + 1
			if i == 0 || !slices.Equal(moves[:min(next, len(moves))], cells[i-1][:min(next, len(cells[i-1]))]) {
				rows++
			}
		}
		if rows > maxGroups || rows*leastRow > len(cells) {
			break
		}
	}
	return depth
}

// moveNames are the transitions of a path as schedules write them, in the order
// of the contract: actors as written, then events.
func moveNames(p *figures.Path) []string {
	var names []string
	for _, g := range p.Programs {
		names = append(names, g.Actor)
	}
	for _, e := range p.Events {
		names = append(names, e.Name)
	}
	return names
}

// splitMoves takes a schedule apart. The key of a lapse may hold dots, so names
// are matched, the longest first.
func splitMoves(names []string, schedule string) []string {
	var all []string
	for schedule != "" {
		best := ""
		for _, name := range names {
			if rest, ok := strings.CutPrefix(schedule, name); ok && (rest == "" || rest[0] == '.') && len(name) > len(best) {
				best = name
			}
		}
		if best == "" {
			best, _, _ = strings.Cut(schedule, ".")
		}
		all = append(all, best)
		schedule = strings.TrimPrefix(strings.TrimPrefix(schedule, best), ".")
	}
	return all
}

// indexes are the transitions of a schedule as indexes into moves.
func (m *orderMap) indexes(schedule string) []int {
	names := splitMoves(m.moves, schedule)
	all := make([]int, len(names))
	for i, name := range names {
		if all[i] = slices.Index(m.moves, name); all[i] < 0 { // of another path of the figure
			m.moves = append(m.moves, name)
			all[i] = len(m.moves) - 1
		}
	}
	return all
}

func (m *orderMap) label(moves []int) string {
	names := make([]string, len(moves))
	for i, n := range moves {
		names[i] = m.moves[n]
	}
	return strings.Join(names, ".")
}

// shared tells whether a cell stands for all schedules with one beginning.
func (m *orderMap) shared() bool {
	return slices.ContainsFunc(m.explored.Cells, func(c figures.Cell) bool { return c.Schedules > 1 })
}

// linked tells whether the cells are few enough to be written out as links.
func (m *orderMap) linked() bool { return len(m.explored.Cells) <= maxLinks }

// code writes all cells in a few bytes each: how many transitions a cell shares
// with the one before, a letter for each further one, and after a colon the
// conditions that break, as bits in base 36. Cells that stand for many
// schedules go on with "/broken/schedules".
//
//	0aadbacbbcc:1 5bcbcc:0
func (m *orderMap) code() string {
	var b strings.Builder
	var last []int
	for _, g := range m.groups {
		for _, c := range g.Cells {
			if c.Number > 1 {
				b.WriteByte(' ')
			}
			same := 0
			for same < len(last) && same < len(c.moves) && last[same] == c.moves[same] {
				same++
			}
			b.WriteString(strconv.Itoa(same))
			for _, n := range c.moves[same:] {
				b.WriteRune(letter(n))
			}
			b.WriteByte(':')
			b.WriteString(strconv.FormatUint(uint64(c.Breaks), 36))
			if c.Schedules > 1 {
				b.WriteString("/" + strconv.Itoa(c.Broken) + "/" + strconv.Itoa(c.Schedules))
			}
			last = c.moves
		}
	}
	return b.String()
}

// letter stands for the n-th transition in a code.
func letter(n int) rune {
	if n < 26 {
		return 'a' + rune(n)
	}
	return 0x100 + rune(n)
}

// plan is what the code leaves out, as JSON for the page's script.
func (m *orderMap) plan() string {
	type group struct {
		Label string `json:"label"`
		Room  int    `json:"room"`
	}
	plan := struct {
		Moves      []string `json:"moves"`
		Conditions []string `json:"conditions"`
		Depth      int      `json:"depth"`
		Groups     []group  `json:"groups"`
		Cells      string   `json:"cells"`
	}{Moves: m.moves, Conditions: m.explored.Conditions, Depth: m.depth, Cells: m.code()}
	for _, g := range m.groups {
		plan.Groups = append(plan.Groups, group{g.Label, g.Room})
	}
	text, _ := json.Marshal(plan) // strings and numbers only: can't fail
	return string(text)
}

// name says what a cell is, in words that make sense alone. The script makes
// the same ones.
func (m *orderMap) name(c orderCell) string {
	of := strconv.Itoa(c.Number) + " of " + strconv.Itoa(len(m.explored.Cells)) + ", "
	breaks := joinAnd(broken(m.explored, c.Breaks))
	if c.Schedules > 1 {
		name := "Beginning " + of + c.Schedule + ", "
		if c.Broken == 0 {
			return name + "none of " + say.Number(int64(c.Schedules)) + " schedules breaks anything"
		}
		return name + say.Number(int64(c.Broken)) + " of " + say.Number(int64(c.Schedules)) + " schedules break " + breaks
	}
	name := "Schedule " + of + c.Schedule + ", "
	if c.Breaks == 0 {
		return name + "breaks nothing"
	}
	return name + "breaks " + breaks
}

// broken are the names of the conditions whose bits are set.
func broken(e *figures.Explored, bits uint32) []string {
	var names []string
	for i, name := range e.Conditions {
		if bits&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// marks is how a cell is marked: a class for each condition that it breaks, or
// one for the only condition that there is.
func marks(e *figures.Explored, bits uint32) string {
	if bits == 0 {
		return "cell-kept"
	}
	if len(e.Conditions) == 1 {
		return "cell-worst-0 cell-only"
	}
	var classes []string
	for i := range e.Conditions {
		if bits&(1<<i) == 0 {
			continue
		}
		if len(classes) == 0 {
			classes = append(classes, "cell-worst-"+strconv.Itoa(min(i, 3)))
		}
		classes = append(classes, "cell-mark-"+strconv.Itoa(min(i, 3)))
	}
	return strings.Join(classes, " ")
}

// explorationOf is what is known of all schedules of a result's path: what it
// showed itself, or, for a schedule run alone, what an earlier one did.
func explorationOf(r *figures.Result) *figures.Explored {
	switch {
	case r == nil:
		return nil
	case r.Explored != nil:
		return r.Explored
	case r.Schedule != nil:
		return r.Known[r.Path]
	}
	return nil
}

// brokenSchedules is how many schedules break any condition.
func brokenSchedules(e *figures.Explored) int {
	n := 0
	for _, c := range e.Cells {
		n += c.Broken
	}
	return n
}

// grain says what was run, and what wasn't.
func grain(p *figures.Path) string {
	for _, e := range p.Events {
		if what, _ := e.Words(); what == "lapse" {
			return "Time is moved by hand: a lapse is a step that makes the server expire the key now; nothing waits."
		}
	}
	return "Time is moved by hand; nothing waits."
}

// joinAnd joins words as a sentence does.
func joinAnd(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
