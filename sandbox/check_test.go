package sandbox

import (
	"errors"
	"testing"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		line, message, hint string // no message: allowed
	}{
		{line: "SET k v NX PX 30000"},
		{line: "set k v"},
		{line: "EVAL release.lua 1 resource:lock abc"},
		{line: "CLIENT INFO"},
		{line: "OBJECT ENCODING k"},
		{line: "BLPOP q 0.5"},
		{line: "DELIFEQ k v"},
		{"", "the command is empty", ""},
		{"FLUSHALL", "command FLUSHALL is not allowed in a figure", "every run starts in an empty database"},
		{"select 3", "command SELECT is not allowed in a figure", "a run has one database, its own"},
		{"COPY a b DB 3", "command COPY is not allowed in a figure", "it could write to another run's database; SET the key anew"},
		{"GTE k", "command GTE is not allowed in a figure", "did you mean GET?"},
		{"PEXPIR k 10", "command PEXPIR is not allowed in a figure", "did you mean PEXPIRE?"},
		{"XYZZYPLUGH", "command XYZZYPLUGH is not allowed in a figure", ""},
		{"CLIENT KILL ID 3", "command CLIENT KILL is not allowed in a figure", "allowed: CLIENT INFO"},
		{"OBJECT", "command OBJECT is not allowed in a figure", "allowed: OBJECT ENCODING, FREQ, IDLETIME, REFCOUNT"},
		{`EVAL "return 1" 0`, "EVAL takes the name of a script, not its text", "EVAL name.lua numkeys key … arg …, with the script in lua/"},
		{"EVAL ../x.lua 0", "EVAL takes the name of a script, not its text", "EVAL name.lua numkeys key … arg …, with the script in lua/"},
		{"EVAL release.lua", "EVAL lacks the number of keys", "EVAL release.lua numkeys key … arg …"},
		{"EVALSHA abc 0", "command EVALSHA is not allowed in a figure", "name the script: EVAL name.lua numkeys key … arg …"},
		{"KEYS *", "command KEYS is not allowed in a figure", "it shows whatever is there; name the keys"},
	}
	for _, test := range tests {
		args, err := Parse(test.line)
		if err != nil {
			t.Fatal(err)
		}
		err = Check(args)
		if test.message == "" {
			if err != nil {
				t.Errorf("Check(%s) = %v, want nil", test.line, err)
			}
			continue
		}
		var refused *CommandError
		if !errors.As(err, &refused) {
			t.Errorf("Check(%s) = %v, want a CommandError", test.line, err)
			continue
		}
		if refused.Message != test.message || refused.Hint != test.hint {
			t.Errorf("Check(%s)\n got %q, %q\nwant %q, %q", test.line, refused.Message, refused.Hint, test.message, test.hint)
		}
	}
}

func TestScriptOf(t *testing.T) {
	tests := []struct {
		line, want string
	}{
		{"EVAL release.lua 1 k t", "release.lua"},
		{"eval emq_claim.lua 0", "emq_claim.lua"},
		{"EVAL", ""},
		{"GET release.lua", ""},
		{`EVAL "return redis.call('GET', 'a.lua')" 0`, ""},
	}
	for _, test := range tests {
		args, err := Parse(test.line)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ScriptOf(args); got != test.want || ok != (test.want != "") {
			t.Errorf("ScriptOf(%s) = %q, %v, want %q", test.line, got, ok, test.want)
		}
	}
}

func TestStateful(t *testing.T) {
	for line, want := range map[string]bool{
		"MULTI": true, "exec": true, "WATCH k": true, "BLPOP q 0": true, "WAIT 1 50": true, "XREAD BLOCK 5 STREAMS s $": true,
		"GET k": false, "EVAL release.lua 1 k t": false, "": false,
	} {
		args, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := Stateful(args); got != want {
			t.Errorf("Stateful(%s) = %v, want %v", line, got, want)
		}
	}
}
