package figures

import "lockstep/figures/expr"

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
