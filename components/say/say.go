// Package say puts what figures showed into a reader's words and marks: a status,
// a command, a reply, an event, a count. It is what the drawings have in common.
package say

import (
	"strconv"
	"strings"

	"lockstep/sandbox"
)

// Number writes a number with its thousands apart.
func Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count writes a number of things: "1 command", "6 commands".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(int64(n)) + " " + thing + "s"
}

// Sentence gives a text its capital.
func Sentence(s string) string {
	for i, r := range s {
		return strings.ToUpper(string(r)) + s[i+len(string(r)):]
	}
	return s
}

// Engine is an engine as a reader knows it: "Valkey 8.0.1".
func Engine(e sandbox.Engine) string {
	name := e.Name
	switch {
	case name == "sqlite":
		name = "SQLite"
	case name == "postgresql":
		name = "PostgreSQL"
	case name != "":
		name = strings.ToUpper(name[:1]) + name[1:]
	}
	return strings.TrimSpace(name + " " + e.Version)
}

// Simulated is what every page and verdict says of the embedded server.
const simulated = "simulated, not Valkey"

// Server says which server answers: "Valkey 8.0.1", or that none does.
func Server(e sandbox.Engine) string {
	if e.Simulated() {
		return simulated
	}
	return Engine(e)
}
