package chart

import (
	"slices"
	"strconv"
)

// words are a text in a track. Where there is no room for it, it is left out;
// how much room there is depends on the width of the page.
type words struct {
	At   int64
	Text string
	Rank int // the lower, the sooner it gets its place
	Kind string
	Spot [len(widths)]string // its line ("0" or "1"), with "e" where it ends at its moment; "" for none
}

// widths are the three widths that a track may have, in characters of its
// texts. The style sheet chooses among them.
var widths = [...]int{75, 46, 36}

// arrange gives each text of a track its place at each width, the ones that
// matter most first.
func (t *track) arrange(c *chart) {
	lines := 1
	if t.Kind == actorTrack {
		lines = 2
	}
	order := slices.Clone(t.Texts)
	slices.SortStableFunc(order, func(a, b *words) int { return a.Rank - b.Rank })
	for i, columns := range widths {
		type taken struct{ from, to float64 }
		used := make([][]taken, lines)
		for _, w := range order {
			at, wide := float64(w.At)/float64(c.Length)*float64(columns), float64(cells(w.Text))
			for _, spot := range []struct {
				line int
				end  string
				from float64
			}{{0, "", at}, {1, "", at}, {0, "e", at - wide}, {1, "e", at - wide}} {
				if spot.line >= lines || spot.from < -0.5 || spot.from+wide > float64(columns)+0.5 {
					continue
				}
				free := !slices.ContainsFunc(used[spot.line], func(u taken) bool {
					return spot.from < u.to+1 && u.from < spot.from+wide+1
				})
				if !free {
					continue
				}
				used[spot.line] = append(used[spot.line], taken{spot.from, spot.from + wide})
				w.Spot[i] = strconv.Itoa(spot.line) + spot.end
				break
			}
		}
	}
}

// cells is how many places a text takes in a fixed-width font. Letters of the
// far east take two.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r >= 0x1100 {
			n++
		}
	}
	return n
}
