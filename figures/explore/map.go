package explore

import (
	"math/bits"

	"lockstep/figures"
)

// maxCells is how many schedules the map shows one by one; where there are
// more, a cell is a beginning that many schedules share.
const maxCells = 1500

// cells gives the map: schedules in the order of the contract, so that
// neighbours share a beginning.
func (g *graph) cells() []figures.Cell {
	depth := -1 // all the way
	if g.root.schedules > maxCells {
		for depth = 1; g.beginnings(g.root, depth+1, map[countKey]int{}) <= maxCells; depth++ {
		}
	}
	m := &mapper{graph: g, depth: depth, groupAt: g.groupDepth(depth)}
	m.walk(g.root, nil, 0)
	return m.cells
}

// groupDepth is how many transitions the schedules of one group share: the
// most that still leaves few groups to tell apart.
func (g *graph) groupDepth(limit int) int {
	depth := 1
	for g.beginnings(g.root, depth+1, map[countKey]int{}) <= 24 && (limit < 0 || depth+1 < limit) && depth < 4 {
		depth++
	}
	return depth
}

type countKey struct {
	s     *state
	depth int
}

// beginnings counts the different beginnings of depth transitions; a schedule
// that ends earlier is one too.
func (g *graph) beginnings(s *state, depth int, known map[countKey]int) int {
	if depth == 0 || len(s.edges) == 0 {
		return 1
	}
	if n, ok := known[countKey{s, depth}]; ok {
		return n
	}
	n := 0
	if s.over {
		n = 1
	}
	for _, e := range s.edges {
		n += g.beginnings(e.to, depth-1, known)
	}
	known[countKey{s, depth}] = n
	return n
}

// mapper walks all schedules down to a depth.
type mapper struct {
	*graph
	depth   int // -1: to their ends
	groupAt int
	group   int
	cells   []figures.Cell
}

// walk visits the schedules that go on from s; broken has the conditions that
// their beginning already broke.
func (m *mapper) walk(s *state, moves []move, broken uint32) {
	if s != m.root {
		broken |= s.bad
	}
	if len(moves) == m.groupAt {
		m.group++
	}
	if len(moves) == m.depth {
		m.shared(s, moves, broken)
		return
	}
	if s.over {
		m.cell(figures.Cell{Schedule: schedule(moves), Schedules: 1}, broken|s.badEnd, len(moves))
	}
	for _, e := range s.edges {
		m.walk(e.to, append(moves, e.move), broken)
	}
}

// shared adds one cell for all schedules with one beginning.
func (m *mapper) shared(s *state, moves []move, broken uint32) {
	c := figures.Cell{Schedule: schedule(moves), Schedules: s.schedules, Broken: s.broken[len(m.names)], Condition: -1, Group: m.group}
	if broken != 0 {
		c.Broken = c.Schedules
	}
	for i := range m.names {
		if s.broken[i] > 0 {
			broken |= 1 << i
		}
	}
	c.Breaks = broken
	if broken != 0 {
		c.Condition = bits.TrailingZeros32(broken)
	}
	m.cells = append(m.cells, c)
}

func (m *mapper) cell(c figures.Cell, broken uint32, length int) {
	if length < m.groupAt {
		m.group++
	}
	c.Condition, c.Group, c.Breaks = -1, m.group, broken
	if broken != 0 {
		c.Condition, c.Broken = bits.TrailingZeros32(broken), 1
	}
	m.cells = append(m.cells, c)
}
