package contained

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/sandbox"
)

// grade runs one script as a grading does: a clean database, the script, and a look at
// what is there. A machine that is too busy to tell is asked again.
func grade(t *testing.T, p *Pool, source string) (values []sandbox.Value, trouble *sandbox.Trouble, took time.Duration) {
	t.Helper()
	run, look := line(t, "EVAL mine.lua 1 k a"), line(t, "GET k")
	for {
		begun := time.Now()
		trouble, err := p.Use(t.Context(), map[string]string{"mine.lua": source}, func(db *sandbox.DB) (err error) {
			begun = time.Now()
			values, err = db.Do(t.Context(), []sandbox.Command{sandbox.Flush(), run, look, sandbox.State()})
			return err
		})
		took = time.Since(begun)
		if err == nil {
			return values, trouble, took
		}
		if !errors.Is(err, sandbox.ErrLate) && !errors.Is(err, sandbox.ErrBusy) {
			t.Fatalf("a failure and no verdict: %v", err)
		}
	}
}

const honest = `redis.call('SET', KEYS[1], ('ab'):upper()) return cjson.encode({ARGV[1], {1}})`

// sound runs an honest script and gives what came of it.
func sound(t *testing.T, p *Pool) []sandbox.Value {
	t.Helper()
	values, trouble, _ := grade(t, p, honest)
	if trouble != nil {
		t.Fatalf("an honest script: %v", trouble)
	}
	want := []sandbox.Value{"OK", `["a",[1]]`, "AB"}
	if diff := cmp.Diff(want, values[:3]); diff != "" {
		t.Fatalf("an honest script (-want +got):\n%s", diff)
	}
	return values
}

// hostile are the scripts of the contract, and what may come of each: kinds of
// trouble, or ok. many is for what one server answers otherwise than another.
var hostile = []struct {
	name, script, want string
}{
	{"1 loop", `while true do end`, "time"},
	{"2 write and loop", `redis.call('SET',KEYS[1],1) while true do end`, "time"},
	{"3 pcall loop", `while true do pcall(function() while true do end end) end`, "time"},
	{"4 xpcall loop", `while true do xpcall(function() error('x') end, function() while true do end end) end`, "time"},
	{"5 find", `return string.find(string.rep('a',5000), '.-.-.-.-b')`, "time"},
	{"6 gsub", `return string.gsub(string.rep('a',400000), '.-b', '')`, "time"},
	{"7 insert", `local t={} table.insert(t,2^31,1)`, "time"},
	{"8 gc", `local p=newproxy(true) getmetatable(p).__gc=function() while true do end end p=nil collectgarbage()`, "time script"},
	{"9 coroutines", `while true do local c=coroutine.create(function() while true do end end) coroutine.resume(c) end`, "time"},
	{"10 clock", `local s=redis.call('TIME')[1]+60 while redis.call('TIME')[1]+0 < s do end`, "time"},
	{"11 tables", `local t={} local i=0 while true do i=i+1 t[i]={i} end`, "memory crash time"},
	{"12 rep", `return #string.rep('x',2^30)`, "memory crash time"},
	{"13 double", `local s='x' while true do s=s..s end`, "memory crash time"},
	{"14 no gc", `collectgarbage('stop') for i=1,2e6 do local t={i} end`, "memory crash time"},
	{"15 keys", `for i=1,1e7 do redis.call('SET',KEYS[1]..i,string.rep('v',1000)) end`, "memory crash time"},
	{"16 setrange", `return redis.call('SETRANGE',KEYS[1],536870900,'x')`, "script"},
	{"16 setbit", `return redis.call('SETBIT',KEYS[1],4294967295,1)`, "script"},
	{"16 append", `local s=string.rep('x',10*1024*1024) for i=1,30 do redis.call('APPEND',KEYS[1],s) end`, "script memory crash time"},
	{"17 long", `return string.rep('x',64*1024*1024)`, "reply memory crash time"},
	{"18 many", `local t={} for i=1,200000 do t[i]='x' end return t`, "reply memory crash"},
	{"19 deep", `local t={} t[1]=t return t`, "reply memory crash"},
	{"20 encode", `local t={} t[1]=t return cjson.encode(t)`, "script"},
	{"20 decode", `return cjson.decode(string.rep('[',100000))`, "script"},
	{"21 recursion", `local function f(n) return 1+f(n+1) end return f(1)`, "script"},
	{"22 error table", `error({})`, "crash script"},
	{"23 unpack", `return unpack({1,2,3},-2,2147483647)`, "crash script memory"},
	{"24 inject", `error('a\r\n$8\r\nINJECTED\r\n')`, "reply script"},
	{"24 inject by return", `return {err='a\r\n$8\r\nINJECTED\r\n'}`, "reply ok"},
	{"25 inject a length", `error('a\r\n*2147483647\r\n')`, "reply script"},
	{"26 metatable", `getmetatable('').__index=function() return function() return 'PWN' end end`, "ok script"},
	{"27 cjson", `cjson.encode_max_depth(2)`, "ok script"},
	{"30 global", `x=1`, "script"},
	{"30 _G", `_G.x=1`, "script"},
	{"30 rawset", `rawset(_G,'x',1)`, "script"},
	{"30 string.rep", `string.rep=nil`, "script"},
	{"30 redis.call", `redis.call=nil`, "script"},
	{"30 setmetatable", `setmetatable(_G,nil)`, "script"},
	{"31 print", `print('x')`, "script"},
	{"31 io", `io.open('/etc/passwd')`, "script"},
	{"31 os", `os.execute('id')`, "script"},
	{"31 getenv", `os.getenv('HOME')`, "script"},
	{"31 require", `require('os')`, "script"},
	{"31 dofile", `dofile('/etc/passwd')`, "script"},
	{"31 loadfile", `loadfile('/etc/passwd')`, "script"},
	{"31 debug", `debug.getinfo(1)`, "script"},
	{"31 dump", `return loadstring(string.dump(function() end))()`, "script"}, // no bytecode is taken back in
	{"32 loadstring", `return tostring(loadstring('x='..string.rep('a+',2500000)..'a'))`, "ok script memory crash time reply"},
	{"32 parentheses", `return tostring(loadstring('return '..string.rep('(',5000)..'1'..string.rep(')',5000)))`, "ok script"},
	{"33 log", `for i=1,20000 do redis.log(redis.LOG_WARNING, string.rep('z',1000)) end`, "ok"},
	{"34 syntax", "return (\n1 +", "script"},
	{"34 bytes", "return 'a\x00\xff'", "ok script"},
	{"34 empty", "", "ok"},
}

// forbidden are the commands that no script may call.
var forbidden = strings.Fields(`FLUSHALL FLUSHDB CONFIG SHUTDOWN DEBUG ACL CLIENT MONITOR EVAL FUNCTION FCALL SCRIPT REPLICAOF MIGRATE
	KEYS SCAN PUBLISH SELECT INFO AUTH HELLO RESET MODULE SAVE BGSAVE COPY MOVE SORT`)

func TestHostile(t *testing.T) {
	p := available(t, Options{Deadline: 500 * time.Millisecond, Warm: 2, prompt: true})
	want := sound(t, p)
	tests := slices.Clone(hostile)
	for _, command := range forbidden {
		tests = append(tests, struct{ name, script, want string }{"28 " + command, `return redis.call('` + command + `','x','y')`, "script"})
	}
	goroutines := runtime.NumGoroutine()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, trouble, took := grade(t, p, test.script)
			got := "ok"
			if trouble != nil {
				got = string(trouble.Kind)
			}
			if !slices.Contains(strings.Fields(test.want), got) {
				t.Errorf("trouble = %v, want one of %s", trouble, test.want)
			}
			if most := p.opt.Deadline + 200*time.Millisecond; took > most && got != "time" {
				t.Errorf("it took %v, of %v", took, most)
			}
			if trouble != nil {
				for _, of := range []string{p.dir.Path, "/etc", "root:", "PATH", "\r", "\n$8"} {
					if strings.Contains(strings.ReplaceAll(trouble.Text, "'/etc/passwd'", ""), of) {
						t.Errorf("the host shows in %q", trouble.Text)
					}
				}
			}
			if diff := cmp.Diff(want, sound(t, p)); diff != "" {
				t.Errorf("the next script (-first +now):\n%s", diff)
			}
		})
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > 24<<20 {
		t.Errorf("the heap holds %d bytes", memory.HeapAlloc)
	}
	left := func() (what []string) {
		dirs, _ := filepath.Glob(filepath.Join(p.dir.Path, "*"))
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				what = append(what, dir)
			}
		}
		return what
	}
	eventually(t, 20*time.Second, "nothing is left but the servers that are warm", func() bool {
		return len(left()) <= p.opt.Warm && runtime.NumGoroutine() <= goroutines+4*p.opt.Warm
	})
}

func eventually(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(most)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", most, what)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestPoison holds what the sandbox itself reads against a script that has rewritten
// its interpreter.
func TestPoison(t *testing.T) {
	p := available(t, Options{Deadline: 5 * time.Second, prompt: true})
	state := func(source string) sandbox.Value {
		values, trouble, _ := grade(t, p, source)
		if trouble != nil {
			t.Fatal(trouble)
		}
		return values[3]
	}
	clean := state(`redis.call('SET', KEYS[1], 'v')`)
	poisoned := state(`pcall(function() getmetatable('').__index = function() return function() return 'PWN' end end end)
		pcall(function() collectgarbage('stop') end) redis.call('SET', KEYS[1], 'v')`)
	if diff := cmp.Diff(clean, poisoned); diff != "" {
		t.Errorf("the state that is read (-clean +poisoned):\n%s", diff)
	}
}

func TestScriptError(t *testing.T) {
	p := available(t, Options{Deadline: 5 * time.Second, prompt: true})
	for _, test := range []struct {
		source string
		want   *sandbox.Trouble
	}{
		{"return 1\n+", &sandbox.Trouble{Kind: sandbox.OfScript, Name: "mine.lua", Line: 2, Text: "unexpected symbol near '<eof>'"}},
		{"local a\n\nerror('mine')", &sandbox.Trouble{Kind: sandbox.OfScript, Name: "mine.lua", Line: 3, Text: "mine"}},
		{"local a\nreturn a.b", &sandbox.Trouble{Kind: sandbox.OfScript, Name: "mine.lua", Line: 2, Text: "attempt to index local 'a' (a nil value)"}},
		{"redis.call('SET', KEYS[1], 'x')\nredis.call('HGET', KEYS[1], 'f')", &sandbox.Trouble{Kind: sandbox.OfScript, Name: "mine.lua", Line: 2,
			Text: "WRONGTYPE Operation against a key holding the wrong kind of value"}},
		{"return redis.error_reply('EMQSTALE no')", nil},
		{"return redis.pcall('NOSUCH')", nil},
	} {
		_, got, _ := grade(t, p, test.source)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.source, diff)
		}
	}
}

// TestCalledOff holds a use that is given up to leaving nothing, at once.
func TestCalledOff(t *testing.T) {
	p := available(t, Options{Deadline: time.Minute, CPU: time.Minute, Slots: 1})
	ctx, cancel := context.WithCancel(t.Context())
	loop := line(t, "EVAL mine.lua 0")
	_, err := p.Use(ctx, map[string]string{"mine.lua": "while true do end"}, func(db *sandbox.DB) error {
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err := db.Do(ctx, []sandbox.Command{loop})
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want called off", err)
	}
	sound(t, p)
}

// TestUnavailable holds what can't be contained to saying so.
func TestUnavailable(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	if err := os.WriteFile(child, []byte("#!/bin/sh\nvalkey-server \"$@\"\nexit\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ server, want string }{
		{child, "must exec it"},
		{"/bin/true", "ended at once"},
	} {
		p := open(t, Options{Server: test.server})
		err := p.Available()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Available = %v, want %q", test.server, err, test.want)
		}
		if _, err := p.Use(t.Context(), nil, func(*sandbox.DB) error { return nil }); !errors.Is(err, sandbox.ErrDown) {
			t.Errorf("%s: Use = %v, want ErrDown", test.server, err)
		}
		eventually(t, 10*time.Second, test.server+" left no process", func() bool { return len(under(p.dir.Path)) == 0 })
	}
}

// TestWrapped starts the server by way of a script that execs it.
func TestWrapped(t *testing.T) {
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nexec valkey-server \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	sound(t, available(t, Options{Server: wrapper, Deadline: 5 * time.Second}))
}
