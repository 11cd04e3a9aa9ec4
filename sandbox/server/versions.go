package server

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lockstep/sandbox"
)

// A release is the version with which commands, or options of one, came. Empty
// means that this server has no version with them.
type release struct {
	names         string // with commas between them
	valkey, redis string
}

// releases are the commands and options younger than Redis 6.2.
var releases = []release{
	{"DELIFEQ", "9.0", ""},
	{"DELEX", "", "8.4"},
	{"HEXPIRE, HPEXPIRE, HTTL, HPTTL, HPERSIST", "9.0", "7.4"},
	{"HGETEX, HSETEX", "9.0", "8.0"},
	{"HGETDEL", "9.1", "8.0"},
	{"LMPOP, BLMPOP, ZMPOP, BZMPOP, EXPIRETIME, PEXPIRETIME, SINTERCARD", "7.2", "7.0"},
	{"SET IFEQ", "8.1", "8.4"},
	{"SET IFNE", "", "8.4"},
	{"SET EX, SET PX, SET EXAT, SET PXAT, SET NX, SET XX, SET GET, SET KEEPTTL", "7.2", "6.2"},
	{"EXPIRE NX, EXPIRE XX, EXPIRE GT, EXPIRE LT, PEXPIRE NX, PEXPIRE XX, PEXPIRE GT, PEXPIRE LT", "7.2", "7.0"},
	{"ZADD NX, ZADD XX, ZADD GT, ZADD LT, ZADD CH", "7.2", "6.2"},
}

// releaseOf finds what is known of a command, or of an option of one.
func releaseOf(command string) (release, bool) {
	name := strings.ToUpper(strings.Join(strings.Fields(command), " "))
	i := slices.IndexFunc(releases, func(r release) bool { return slices.Contains(strings.Split(r.names, ", "), name) })
	if i < 0 {
		return release{}, false
	}
	return releases[i], true
}

// Since says which version a command came with: "Valkey 9.0", or "Redis 8.4"
// where Valkey has none. It is empty for what every server has.
func Since(command string) string {
	r, _ := releaseOf(command)
	switch {
	case r.valkey == "7.2": // the first Valkey: nothing to tell
		return ""
	case r.valkey != "":
		return "Valkey " + r.valkey
	case r.redis != "":
		return "Redis " + r.redis
	}
	return ""
}

// facts are what is known of the server that answered last.
type facts struct {
	engine    sandbox.Engine
	commands  map[string]bool // upper case, subcommands as OBJECT|ENCODING
	counts    bool            // commands by connection
	databases []int           // that may be lent
}

// has asks what the server said of its commands; of options it knows no more
// than its name and version tell.
func (f *facts) has(command string) bool {
	words := strings.Fields(strings.ToUpper(command))
	switch len(words) {
	case 1:
		return f.commands[words[0]]
	case 2:
		if f.commands[words[0]+"|"+words[1]] {
			return true
		}
	default:
		return false
	}
	r, ok := releaseOf(command)
	if !ok || !f.commands[words[0]] {
		return false
	}
	switch f.engine.Name {
	case "valkey":
		return r.valkey != "" && !older(f.engine.Version, r.valkey)
	case "redis":
		return r.redis != "" && !older(f.engine.Version, r.redis)
	}
	return r.valkey == "7.2" // what the simulated server is written after
}

// older compares versions such as 8.0.1 and 8.1.
func older(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if c := cmp.Compare(x, y); c != 0 {
			return c < 0
		}
	}
	return len(as) < len(bs)
}
