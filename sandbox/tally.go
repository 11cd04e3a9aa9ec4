package sandbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A tally tells how many commands the server received down a connection. The
// server's own count also has what scripts call inside, so the tally reads it
// before and after each script, and takes off what was not received, nor asked
// by an actor.
type tally struct {
	other     int64 // of the server's count, what no actor sent
	multi     bool  // between MULTI and EXEC, where the count can't be read
	uncounted bool  // a script ran there
}

// clientInfo asks for the server's view of the connection.
var clientInfo = Cmd("CLIENT", "INFO")

// exec sends commands down the link, which is locked, with the questions that
// counting needs.
func (t *tally) exec(ctx context.Context, l *Link, commands []Command, patience time.Duration) ([]Value, error) {
	sent := make([]Command, 0, len(commands)+8)
	at := make([]int, len(commands)) // where each of the actor's commands stands
	around := make([]bool, len(commands))
	for i := range commands {
		c := &commands[i]
		if c.kind == plain && len(c.words) > 0 {
			switch strings.ToUpper(c.words[0].(string)) {
			case "MULTI":
				t.multi = true
			case "EXEC", "DISCARD":
				t.multi = false
			}
		}
		calls := c.kind == script || c.kind == own
		around[i] = calls && !t.multi
		if calls && t.multi {
			t.uncounted = true
		}
		if around[i] {
			sent = append(sent, clientInfo)
		}
		at[i] = len(sent)
		sent = append(sent, *c)
		if around[i] {
			sent = append(sent, clientInfo)
		}
	}
	replies, err := l.exec(ctx, sent, false, patience)
	if err != nil {
		return nil, err
	}
	values := make([]Value, len(commands))
	for i, j := range at {
		values[i] = replies[j]
		if !around[i] {
			continue
		}
		before, err := CountOf(replies[j-1])
		if err != nil {
			return nil, err
		}
		after, err := CountOf(replies[j+1])
		if err != nil {
			return nil, err
		}
		// Between the two stand the first question and the script with its
		// calls; then comes the second question.
		t.other += after - before
		if commands[i].kind == own {
			t.other++ // no actor sent it
		}
	}
	return values, nil
}

// received gives the server's count of what actors sent.
func (t *tally) received(ctx context.Context, l *Link) (int64, error) {
	values, err := l.Do(ctx, []Command{clientInfo}, false)
	if err != nil {
		return 0, err
	}
	n, err := CountOf(values[0])
	if err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.uncounted {
		return 0, fmt.Errorf("%w: a script ran within a transaction", ErrUncounted)
	}
	n -= t.other
	t.other++ // this question
	return n, nil
}

// CountOf reads the number of commands from what CLIENT INFO answered. The
// question itself isn't in it yet.
func CountOf(v Value) (int64, error) {
	text, _ := v.(string)
	for _, field := range strings.Fields(text) {
		if count, ok := strings.CutPrefix(field, "tot-cmds="); ok {
			return strconv.ParseInt(count, 10, 64)
		}
	}
	return 0, ErrUncounted
}
