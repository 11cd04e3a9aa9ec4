package contained

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// inFlight is how many commands are sent before their replies are read: the
// server may hold 1 MB of them.
const inFlight = 128

// mostTogether is how many bytes the replies to one pipeline may have.
const mostTogether = 4 << 20

// A speaker is one connection of a run. What the sandbox itself sends, it sends as
// another user than scripts run as, who may empty the database and list its keys.
// After each script the server must give back a word that the script can't know:
// bytes that a script smuggles in among the replies (CVE-2025-67733) are found out.
type speaker struct {
	to     *process
	wire   net.Conn
	read   reader
	secret string
	asked  int
	left   int  // bytes that the replies may still have
	keeper bool // who the connection is now
	multi  bool // between MULTI and EXEC, where nothing may be put in
}

func (p *process) speak(wire net.Conn) func([]redis.Cmder) error {
	s := &speaker{to: p, wire: wire, read: reader{from: bufio.NewReader(wire)}, secret: rand.Text()}
	return func(sent []redis.Cmder) error {
		s.left = mostTogether
		for len(sent) > 0 {
			n := min(inFlight, len(sent))
			if err := s.exchange(sent[:n], n == len(sent)); err != nil {
				p.note(err)
				return err
			}
			sent = sent[n:]
		}
		return nil
	}
}

// An expected reply is either a command's, or must be one text.
type expected struct {
	cmd  redis.Cmder
	text string
}

func (s *speaker) exchange(sent []redis.Cmder, last bool) error {
	var out []byte
	var all []expected
	add := func(words []any, e expected) {
		out = appendCommand(out, words)
		all = append(all, e)
	}
	become := func(keeper bool) {
		if keeper != s.keeper {
			as := s.to.reader
			if keeper {
				as = s.to.keeper
			}
			add([]any{"AUTH", as.User, as.Password}, expected{text: "OK"})
			s.keeper = keeper
		}
	}
	for _, cmd := range sent {
		name := strings.ToUpper(cmd.Name())
		become(name == "FCALL" || name == "FLUSHDB")
		add(cmd.Args(), expected{cmd: cmd})
		switch name {
		case "MULTI":
			s.multi = true
		case "EXEC", "DISCARD":
			s.multi = false
		}
		if (name == "EVALSHA" || name == "EXEC") && !s.multi {
			s.asked++
			word := s.secret + strconv.Itoa(s.asked)
			add([]any{"ECHO", word}, expected{text: word})
		}
	}
	if last {
		become(false)
	}
	if _, err := s.wire.Write(out); err != nil {
		return err
	}
	return s.replies(all)
}

func (s *speaker) replies(all []expected) error {
	for _, e := range all {
		reply, err := s.read.reply()
		if err != nil {
			return err
		}
		if s.left -= mostBytes - s.read.bytes; s.left < 0 {
			return fmt.Errorf("%w: all of them are longer than %d bytes", errReply, mostTogether)
		}
		if e.cmd != nil {
			s.to.noteReply(e.cmd, reply)
			take(e.cmd, reply)
		} else if reply != e.text {
			return fmt.Errorf("%w: it isn't what was asked for", errReply)
		}
	}
	if s.read.from.Buffered() > 0 {
		return fmt.Errorf("%w: more came than was asked for", errReply)
	}
	return nil
}

// ask sends one command as the sandbox's own, and gives its reply.
func ask(wire io.ReadWriter, words ...any) (any, error) {
	if _, err := wire.Write(appendCommand(nil, words)); err != nil {
		return nil, err
	}
	r := reader{from: bufio.NewReader(wire)}
	reply, err := r.reply()
	if refused, ok := reply.(refusal); ok {
		return nil, refused
	}
	return reply, err
}
