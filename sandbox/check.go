package sandbox

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// A trait is what has to be known of an allowed command.
type trait uint8

const (
	yes      trait = 1 << iota // allowed
	stateful                   // changes or holds its connection
	blocking                   // may wait for another client
	ifBlock                    // waits only with BLOCK
)

// allowed are the commands that a figure may send, and the only ones that its
// scripts may call: the server's ACL is made of this table. What is missing
// reaches beyond the run's own database or connection (COPY, MOVE and SELECT
// other databases; PUBLISH, CLIENT and CONFIG the whole server).
var allowed = commandTable(map[trait]string{
	yes: `
		GET SET SETNX SETEX PSETEX GETSET GETDEL GETEX MGET MSET MSETNX APPEND STRLEN GETRANGE SETRANGE
		INCR DECR INCRBY DECRBY INCRBYFLOAT DELIFEQ DELEX
		DEL UNLINK EXISTS TYPE RENAME RENAMENX TOUCH DBSIZE RANDOMKEY
		EXPIRE PEXPIRE EXPIREAT PEXPIREAT TTL PTTL EXPIRETIME PEXPIRETIME PERSIST
		HSET HSETNX HGET HMSET HMGET HGETALL HDEL HLEN HEXISTS HKEYS HVALS HINCRBY HINCRBYFLOAT HSTRLEN
		HEXPIRE HPEXPIRE HTTL HPTTL HPERSIST HGETEX HSETEX HGETDEL
		LPUSH RPUSH LPUSHX RPUSHX LPOP RPOP LLEN LRANGE LINDEX LSET LREM LTRIM LINSERT LPOS LMOVE RPOPLPUSH LMPOP
		SADD SREM SMEMBERS SISMEMBER SMISMEMBER SCARD SPOP SRANDMEMBER SMOVE
		SINTER SUNION SDIFF SINTERSTORE SUNIONSTORE SDIFFSTORE SINTERCARD
		ZADD ZREM ZSCORE ZMSCORE ZINCRBY ZCARD ZCOUNT ZRANGE ZRANGESTORE ZRANGEBYSCORE ZREVRANGE ZREVRANGEBYSCORE
		ZRANK ZREVRANK ZPOPMIN ZPOPMAX ZMPOP ZREMRANGEBYSCORE ZREMRANGEBYRANK ZUNION ZINTER ZDIFF ZUNIONSTORE ZINTERSTORE
		SETBIT GETBIT BITCOUNT BITPOS
		XADD XLEN XRANGE XREVRANGE XDEL XTRIM XGROUP XACK XPENDING XCLAIM XAUTOCLAIM
		EVAL TIME PING ECHO OBJECT`,
	yes | stateful:                      `MULTI EXEC DISCARD WATCH UNWATCH CLIENT`,
	yes | stateful | blocking:           `BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT`,
	yes | stateful | blocking | ifBlock: `XREAD XREADGROUP`,
})

// subcommands are those of the allowed commands of which only a part is.
var subcommands = map[string][]string{
	"OBJECT": {"ENCODING", "FREQ", "IDLETIME", "REFCOUNT"},
	"CLIENT": {"INFO"},
	"XGROUP": {"CREATE", "DESTROY", "SETID", "CREATECONSUMER", "DELCONSUMER"},
}

// ownCommands are those that only the sandbox itself and its own scripts send.
const ownCommands = `evalsha keys flushdb`

// why says why commands that an author may well reach for are missing.
var why = map[string]string{
	"FLUSHALL":  "every run starts in an empty database",
	"FLUSHDB":   "every run starts in an empty database",
	"SELECT":    "a run has one database, its own",
	"SWAPDB":    "a run has one database, its own",
	"MOVE":      "it would write to another run's database",
	"COPY":      "it could write to another run's database; SET the key anew",
	"MIGRATE":   "a run has one server",
	"KEYS":      "it shows whatever is there; name the keys",
	"SCAN":      "it shows whatever is there; name the keys",
	"EVALSHA":   "name the script: EVAL name.lua numkeys key … arg …",
	"SCRIPT":    "scripts of lua/ are loaded at start; call one with EVAL name.lua",
	"FCALL":     "functions belong to the whole server; use a script of lua/",
	"FUNCTION":  "functions belong to the whole server; use a script of lua/",
	"PUBLISH":   "channels belong to the whole server, and other runs would hear it",
	"SUBSCRIBE": "channels belong to the whole server",
	"MONITOR":   "it would show the runs of others",
	"CONFIG":    "it changes the server for everybody",
	"INFO":      "it counts everybody's commands; CLIENT INFO counts one connection's",
	"DEBUG":     "it changes the server for everybody",
	"SHUTDOWN":  "it stops the server for everybody; crash: NAME cuts one actor's connection",
	"AUTH":      "the sandbox logs in by itself",
	"HELLO":     "the sandbox speaks RESP2",
	"RESET":     "it would log the connection out",
	"QUIT":      "crash: NAME cuts an actor's connection",
}

func commandTable(of map[trait]string) map[string]trait {
	table := map[string]trait{}
	for t, names := range of {
		for _, name := range strings.Fields(names) {
			table[name] = t
		}
	}
	return table
}

// A CommandError says that a figure may not send a command.
type CommandError struct {
	Message string
	Hint    string // what to do instead; may be empty
}

func (e *CommandError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " (" + e.Hint + ")"
}

// Check tells whether a figure may send a command, as a *CommandError.
func Check(args []string) error {
	if len(args) == 0 {
		return &CommandError{Message: "the command is empty"}
	}
	name := strings.ToUpper(args[0])
	if allowed[name] == 0 {
		return &CommandError{Message: "command " + name + " is not allowed in a figure", Hint: cmp.Or(why[name], Alike(name, maps.Keys(allowed)))}
	}
	if subs, ok := subcommands[name]; ok {
		if len(args) < 2 || !slices.Contains(subs, strings.ToUpper(args[1])) {
			return &CommandError{
				Message: fmt.Sprintf("command %s is not allowed in a figure", strings.ToUpper(strings.Join(args[:min(2, len(args))], " "))),
				Hint:    "allowed: " + name + " " + strings.Join(subs, ", "),
			}
		}
	}
	if name == "EVAL" {
		if _, ok := ScriptOf(args); !ok {
			return &CommandError{Message: "EVAL takes the name of a script, not its text", Hint: "EVAL name.lua numkeys key … arg …, with the script in lua/"}
		}
		if len(args) < 3 {
			return &CommandError{Message: "EVAL lacks the number of keys", Hint: "EVAL " + args[1] + " numkeys key … arg …"}
		}
	}
	return nil
}

// Alike asks whether the one of known that is most like name was meant; "" where
// none is like it.
func Alike(name string, known iter.Seq[string]) string {
	best, least := "", 3
	for k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < least || d == least && k < best {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// Allowed are the names of the commands that a run may send, in capitals.
func Allowed() []string { return slices.Sorted(maps.Keys(allowed)) }

// ACLCommands are what the runs' user may do, in the ACL's words.
func ACLCommands() []string {
	list := strings.Fields(ownCommands)
	for name := range allowed {
		name = strings.ToLower(name)
		subs := subcommands[strings.ToUpper(name)]
		if subs == nil && name != "eval" {
			list = append(list, name)
		}
		for _, sub := range subs {
			list = append(list, name+"|"+strings.ToLower(sub))
		}
	}
	slices.Sort(list)
	return list
}
