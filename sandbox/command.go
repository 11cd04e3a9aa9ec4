package sandbox

import (
	"regexp"
	"strings"
)

// A Command is one command, ready to be sent any number of times.
type Command struct {
	kind     kind
	stateful bool
	blocking bool
	words    []any // strings, as go-redis takes them
}

// kind says what is sent for a command.
type kind int

const (
	plain  kind = iota // the words as they stand
	script             // EVAL name …: EVALSHA of the script by that name
	own                // a script of the sandbox's
	flush              // whatever empties a database of that server fastest
)

// Cmd makes a command of its words, as Parse gives them. EVAL of a script's name
// calls the script of that name by its SHA1.
func Cmd(args ...string) Command {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	c := Command{words: words}
	if _, ok := ScriptOf(args); ok {
		c.kind = script
	} else if len(args) > 0 {
		known := allowed[strings.ToUpper(args[0])]
		c.stateful, c.blocking = known&stateful != 0, blocks(known, args)
	}
	return c
}

// Flush empties the lent database.
func Flush() Command { return Command{kind: flush} }

// Peek reads what a key holds: an array of its type ("none" if there is no such
// key), its content (a string, an array, or nil) and its lease in milliseconds
// (-1 for none, -2 for no such key). Long content is cut.
func Peek(key string) Command {
	return Command{kind: own, words: []any{"EVALSHA", ownScripts().peek, "1", key}}
}

// Lapse ends the lease of a key now: 1 done, 0 no such key, -1 no lease.
func Lapse(key string) Command {
	return Command{kind: own, words: []any{"EVALSHA", ownScripts().lapse, "1", key}}
}

// State fingerprints the whole database: an array of a text that is equal for
// equal states, the number of keys, and the shortest lease in milliseconds (-1
// where there is none). Leases and server times count in whole seconds from
// now.
func State() Command {
	return Command{kind: own, words: []any{"EVALSHA", ownScripts().state, "0"}}
}

// send gives the words that go to a server for the command; ok is false for a
// script that does not exist.
func (c *Command) send(cat *Catalogue, flushing []any) (words []any, ok bool) {
	switch c.kind {
	case flush:
		return flushing, true
	case script:
		sha, ok := cat.named[c.words[1].(string)]
		words = make([]any, len(c.words))
		copy(words, c.words)
		words[0], words[1] = "EVALSHA", sha
		return words, ok
	case own:
		if cat.functions {
			words = append([]any{"FCALL", functionName(c.words[1])}, c.words[2:]...)
			return words, true
		}
	case plain:
	}
	return c.words, len(c.words) > 0
}

// Scripted tells whether the server runs a script for the command, or the command
// is the sandbox's own.
func (c *Command) Scripted() bool { return c.kind != plain }

// scriptName is what tells the name of a script from its text.
var scriptName = regexp.MustCompile(`^[A-Za-z0-9_-]+\.lua$`)

// ScriptOf gives the name of the script that an EVAL calls.
func ScriptOf(args []string) (name string, ok bool) {
	if len(args) < 2 || !strings.EqualFold(args[0], "EVAL") || !scriptName.MatchString(args[1]) {
		return "", false
	}
	return args[1], true
}

// Stateful tells whether a command leaves something behind on its connection,
// or holds it: an actor that sends one needs a connection of its own.
func Stateful(args []string) bool {
	return len(args) > 0 && allowed[strings.ToUpper(args[0])]&stateful != 0
}

// blocks tells whether a command may wait for another client.
func blocks(known trait, args []string) bool {
	if known&blocking == 0 {
		return false
	}
	if known&ifBlock == 0 {
		return true
	}
	for _, arg := range args {
		if strings.EqualFold(arg, "BLOCK") {
			return true
		}
	}
	return false
}
