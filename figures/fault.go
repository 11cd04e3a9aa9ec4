package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Fault is something wrong in a file that an instructor wrote.
type Fault struct {
	File    string // path within the content folder
	Line    int    // from 1; 0 where the fault is about the whole file
	Message string // what was found
	Hint    string // what to do about it; may be empty
}

// Error gives "file:line: message", then the hint in brackets.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": " + f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}

// Faults are all that is wrong, in the order of files and lines.
type Faults []Fault

// Error gives one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Sort puts faults in the order in which an author meets them.
func (fs Faults) Sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}
