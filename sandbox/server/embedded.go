package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"lockstep/sandbox"
)

// The simulated server is miniredis, in a process of its own: an endless script
// holds its one lock for ever, and only a process can be killed.

// embedding is what the process reads from its standard input, which stays open
// for as long as the process is to live.
type embedding struct {
	Socket string
	Users  map[string]string // password by name
	Runner string            // the user that is held to the allow list
}

func embeddedConfig(socket string, runner sandbox.Login, others ...sandbox.Login) string {
	config := embedding{Socket: socket, Runner: runner.User, Users: map[string]string{runner.User: runner.Password}}
	for _, user := range others {
		config.Users[user.User] = user.Password
	}
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// RunEmbedded is the simulated server. The site calls it in a process that the
// Server starts with Options.EmbeddedCommand; it returns when its standard
// input ends or ctx does.
func RunEmbedded(ctx context.Context, stdin io.Reader) error {
	input := json.NewDecoder(stdin)
	var config embedding
	if err := input.Decode(&config); err != nil {
		return fmt.Errorf("read what to serve: %w", err)
	}
	m := miniredis.NewMiniRedis() // never closed: an endless script would hold that up
	m.ClockTTL(true)              // keys expire as the clock goes on
	for user, password := range config.Users {
		m.RequireUserAuth(user, password)
	}
	first, err := m.Dial() // starts it without a port
	if err != nil {
		return fmt.Errorf("start the simulated server: %w", err)
	}
	_ = first.Close()
	m.Server().SetPreHook(allowList(config.Runner))

	listener, err := net.Listen("unix", config.Socket)
	if err != nil {
		return fmt.Errorf("start the simulated server: %w", err)
	}
	if err := os.Chmod(config.Socket, 0o600); err != nil {
		return fmt.Errorf("start the simulated server: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, io.MultiReader(input.Buffered(), stdin))
		cancel() // whoever started this is gone
	}()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the simulated server: %w", err)
		}
		m.Server().ServeConn(conn)
	}
}

// allowList stands in for the ACL that miniredis lacks: the runner, and what its
// scripts call, are held to the commands of a figure.
func allowList(runner string) server.Hook {
	var peers sync.Map // *server.Peer -> whether it is the runner
	permitted := map[string]bool{"HELLO": true, "AUTH": true}
	for _, command := range sandbox.ACLCommands() {
		command, _, _ = strings.Cut(command, "|")
		permitted[strings.ToUpper(command)] = true
	}
	return func(c *server.Peer, cmd string, args ...string) bool {
		held, known := peers.Load(c)
		if !known && (cmd == "HELLO" || cmd == "AUTH") {
			c.OnDisconnect(func() { peers.Delete(c) })
			held, known = false, true
			peers.Store(c, false)
		}
		if cmd == "AUTH" && len(args) == 2 && args[0] == runner {
			peers.Store(c, true)
		}
		// A peer that never logged in is a script's.
		if (!known || held == true) && !permitted[cmd] {
			c.WriteError(fmt.Sprintf("NOPERM User %s has no permissions to run the '%s' command", runner, strings.ToLower(cmd)))
			return true
		}
		return false
	}
}

// prepareEmbedded makes the simulated server ready for runs.
func (inst *Process) prepareEmbedded(ctx context.Context) error {
	if err := inst.Admin.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("the simulated server: %w", err)
	}
	commands, err := embeddedCommands()
	if err != nil {
		return err
	}
	inst.facts = &facts{
		engine:   sandbox.Engine{Name: "miniredis", Version: embeddedVersion(), Mode: sandbox.Embedded},
		commands: commands,
	}
	return inst.Scripts.Load(ctx, inst.Admin)
}

// embeddedCommands asks miniredis, which has no command that tells, which of the
// allowed commands it knows.
func embeddedCommands() (map[string]bool, error) {
	m := miniredis.NewMiniRedis()
	conn, err := m.Dial()
	if err != nil {
		return nil, fmt.Errorf("the simulated server: %w", err)
	}
	defer m.Close()
	defer conn.Close()
	commands := map[string]bool{}
	for _, name := range sandbox.Allowed() {
		commands[name] = m.Server().IsRegisteredCommand(name)
	}
	return commands, nil
}

// embeddedVersion is that of the module in this binary.
func embeddedVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "v2"
	}
	for _, dep := range info.Deps {
		if dep.Path == "github.com/alicebob/miniredis/v2" {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return "v2"
}

// unfaithful are the commands that miniredis has not, or answers otherwise than
// Valkey in the cases that figures show: another order, another number, another
// text.
var unfaithful = strings.Fields(`
	OBJECT CLIENT WAIT ZRANGESTORE BITPOS
	HGETALL HKEYS HVALS SMEMBERS SINTER SUNION SDIFF RANDOMKEY
	INCRBYFLOAT HINCRBYFLOAT`)

// unfaithfulScript finds what a script can't do the same there: libraries that
// are missing, and raised errors, which lose their class.
var unfaithfulScript = regexp.MustCompile(`\b(cjson|cmsgpack|bit|struct)\s*\.|\berror\s*\(|\bpcall\s*\(`)

// calls finds the commands that a script calls.
var calls = regexp.MustCompile(`\b(?:redis|server)\.p?call\s*\(\s*['"](\w+)['"]`)

// faithful tells whether the simulated server answers a command as Valkey does.
func faithful(known *facts, args []string, scripts map[string]string) bool {
	if len(args) == 0 {
		return false
	}
	name, ok := sandbox.ScriptOf(args)
	if !ok {
		command := strings.ToUpper(args[0])
		return known.commands[command] && !slices.Contains(unfaithful, command)
	}
	source, ok := scripts[name]
	if !ok || unfaithfulScript.MatchString(source) {
		return false
	}
	for _, call := range calls.FindAllStringSubmatch(source, -1) {
		if command := strings.ToUpper(call[1]); !known.commands[command] || slices.Contains(unfaithful, command) {
			return false
		}
	}
	return true
}
