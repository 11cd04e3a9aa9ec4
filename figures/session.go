package figures

import (
	"fmt"
	"strings"

	"lockstep/figures/expr"
	"lockstep/sandbox"
)

// A Session is a transcript in a dive: commands, and under each the reply as
// valkey-cli prints it. It runs in a database of its own when a dive is checked.
type Session struct {
	Text      string
	Exchanges []Exchange
	File      string
	Line      int
}

// An Exchange is one command of a session and its reply.
type Exchange struct {
	Command expr.Command
	Reply   string // "..." stands for what may differ from run to run
	Line    int
}

// CLI writes a reply as valkey-cli prints it.
func CLI(v sandbox.Value) string {
	switch v := v.(type) {
	case nil:
		return "(nil)"
	case int64:
		return fmt.Sprintf("(integer) %d", v)
	case sandbox.Error:
		return "(error) " + string(v)
	case string:
		if v == "OK" || v == "QUEUED" || v == "PONG" {
			return v
		}
		return fmt.Sprintf("%q", v)
	case []any:
		if len(v) == 0 {
			return "(empty array)"
		}
		width := len(fmt.Sprint(len(v)))
		lines := make([]string, len(v))
		for i, item := range v {
			head := fmt.Sprintf("%*d) ", width, i+1)
			lines[i] = head + strings.ReplaceAll(CLI(item), "\n", "\n"+strings.Repeat(" ", len(head)))
		}
		return strings.Join(lines, "\n")
	}
	return expr.Print(v)
}
