package card

import (
	"regexp"
	"slices"
	"strings"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/figures/expr"
)

// A box is something that the paths of a figure read after their steps and that is
// drawn beside the protected key: another key, or the rows of a table.
type box struct {
	Title    string
	Readings []string // what is read of it, by labels
	Columns  []string // of a table: what is read of its rows
}

// mostBoxes is how many boxes a drawing has room for; the table below has the rest.
const mostBoxes = 6

// boxesOf are the boxes of a figure, in the order in which its paths read them.
// What stands at the protected key itself is drawn there.
func boxesOf(f *figures.Figure) []box {
	var all []box
	for _, p := range f.Paths {
		for _, o := range p.Observe {
			title, label := readOf(o)
			if title == "" || title == f.Resource {
				continue
			}
			i := slices.IndexFunc(all, func(b box) bool { return b.Title == title })
			if i < 0 {
				i, all = len(all), append(all, box{Title: title})
			}
			if o.Target == "sql" {
				all[i].Columns = columnsOf(o.Command.Source)
			}
			if !slices.Contains(all[i].Readings, label) {
				all[i].Readings = append(all[i].Readings, label)
			}
		}
	}
	return all[:min(len(all), mostBoxes-1)]
}

// readOf says of what an observation is a reading, and what it reads there. It has
// no title where it is of the server as a whole.
func readOf(o figures.Observation) (title, label string) {
	if o.Target == "sql" {
		if from := fromTable.FindStringSubmatch(o.Command.Source); from != nil {
			return from[1], o.Name
		}
		return "", o.Name
	}
	words := strings.Fields(o.Command.Source)
	if o.Received != "" || len(words) < 2 {
		return "", o.Name
	}
	switch verb := strings.ToUpper(words[0]); {
	case verb == "GET":
		return words[1], "value"
	case verb == "PTTL", verb == "TTL":
		return words[1], "lease"
	case verb == "HGET" && len(words) == 3:
		return words[1], words[2]
	case verb == "ZSCORE" && len(words) == 3:
		return words[1], words[2]
	}
	return words[1], o.Name
}

// readings are what a run's path reads of the server as a whole.
func readings(f *figures.Figure) []string {
	var names []string
	for _, p := range f.Paths {
		for _, o := range p.Observe {
			if title, label := readOf(o); title == "" && !slices.Contains(names, label) {
				names = append(names, label)
			}
		}
	}
	return names
}

// readValue is what a run read of something under a label.
func readValue(p *figures.Path, r *figures.Result, title, label string) (any, bool) {
	if p == nil || r == nil {
		return nil, false
	}
	for _, o := range p.Observe {
		if of, as := readOf(o); of == title && as == label {
			v, ok := r.State[o.Name]
			return v, ok
		}
	}
	return nil, false
}

// words is a value that was read, in a reader's words.
func words(v any, label string, r *figures.Result) string {
	if ttl, ok := v.(int64); ok && label == "lease" {
		return lease(ttl)
	}
	return moments(say.Words(v), r)
}

var epoch = regexp.MustCompile(`\b1[5-9]\d{11}\b`)

// moments writes points of the server's time that stand in a text as time left,
// counted from the end of the run.
func moments(s string, r *figures.Result) string {
	if r == nil || r.Ended.IsZero() {
		return s
	}
	return epoch.ReplaceAllStringFunc(s, func(at string) string { return remaining(at, r.Ended) })
}

var (
	fromTable = regexp.MustCompile(`(?i)\bfrom\s+(\w+)`)
	selected  = regexp.MustCompile(`(?is)^\s*select\s+(.*?)\s+from\s`)
	inserted  = regexp.MustCompile(`(?is)^\s*insert\s+into\s+(\w+)\s*\(([^)]*)\)\s*values\s*\((.*)\)\s*$`)
	updated   = regexp.MustCompile(`(?is)^\s*update\s+(\w+)\s+set\s+(.*?)(?:\s+where\s.*)?$`)
	assigned  = regexp.MustCompile(`^\s*(\w+)\s*=\s*('(?:[^']|'')*'|-?\d+(?:\.\d+)?)\s*(?:,|$)`)
	literal   = regexp.MustCompile(`^\s*('(?:[^']|'')*'|-?\d+(?:\.\d+)?)\s*(?:,|$)`)
)

// columnsOf are the columns that a SELECT reads, where it names them.
func columnsOf(statement string) []string {
	list := selected.FindStringSubmatch(statement)
	if list == nil {
		return nil
	}
	columns := strings.Split(list[1], ",")
	for i, c := range columns {
		columns[i] = strings.TrimSpace(c)
	}
	return columns
}

// rowBefore is the one row of a table as the setup left it, by what the store
// answered to each statement. It is nil where they don't say.
func rowBefore(table string, columns []string, r *figures.Result) []string {
	row := map[string]string{}
	rows := 0
	for _, e := range r.Trace {
		if changed, _ := e.Reply.(int64); e.Phase != figures.PhaseSetup || e.Target != "sql" || changed == 0 {
			continue
		}
		if insert := inserted.FindStringSubmatch(e.Command); insert != nil && insert[1] == table {
			rows++
			rest := insert[3]
			for _, column := range strings.Split(insert[2], ",") {
				value := literal.FindStringSubmatch(rest)
				if value == nil {
					return nil
				}
				row[strings.TrimSpace(column)], rest = unquoted(value[1]), rest[len(value[0]):]
			}
		}
		if update := updated.FindStringSubmatch(e.Command); update != nil && update[1] == table {
			for rest := update[2]; rest != ""; {
				set := assigned.FindStringSubmatch(rest)
				if set == nil {
					return nil
				}
				row[set[1]], rest = unquoted(set[2]), rest[len(set[0]):]
			}
		}
	}
	if rows != 1 {
		return nil
	}
	before := make([]string, len(columns))
	for i, column := range columns {
		value, ok := row[column]
		if !ok {
			return nil
		}
		before[i] = value
	}
	return before
}

func unquoted(s string) string {
	if !strings.HasPrefix(s, "'") {
		return s
	}
	return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
}

// rowsAfter are the rows that a run read of a table.
func rowsAfter(p *figures.Path, r *figures.Result, b box) [][]string {
	v, _ := readValue(p, r, b.Title, b.Readings[0])
	list, _ := v.([]any)
	var rows [][]string
	for _, item := range list {
		cells, ok := item.([]any)
		if !ok || len(cells) != len(b.Columns) {
			return nil
		}
		row := make([]string, len(cells))
		for i, cell := range cells {
			row[i] = expr.Print(cell)
		}
		rows = append(rows, row)
	}
	return rows
}
