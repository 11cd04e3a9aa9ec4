package contained

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// The bounds of one reply.
const (
	mostBytes    = 256 << 10
	mostDepth    = 32
	mostElements = 10_000
)

// errReply says that what came is no reply that is let in: it is over a bound,
// out of step with what was sent, or no RESP2.
var errReply = errors.New("the reply can't be taken")

// refusal is an error reply, as go-redis has it.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError tells go-redis's errors from others.
func (refusal) RedisError() {}

// A reader reads RESP2 from a server that may lie. It holds what has come, and
// nothing on the strength of what is announced.
type reader struct {
	from     *bufio.Reader
	bytes    int // that this reply may still take
	elements int // and values
}

// reply reads one reply: nil, int64, string, []any or refusal.
func (r *reader) reply() (any, error) {
	r.bytes, r.elements = mostBytes, mostElements
	return r.value(0)
}

func (r *reader) value(depth int) (any, error) {
	if depth > mostDepth {
		return nil, fmt.Errorf("%w: arrays lie more than %d deep", errReply, mostDepth)
	}
	if r.elements--; r.elements < 0 {
		return nil, fmt.Errorf("%w: more than %d values", errReply, mostElements)
	}
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	if line == "" {
		return nil, fmt.Errorf("%w: an empty line", errReply)
	}
	switch rest := line[1:]; line[0] {
	case '+':
		return rest, nil
	case '-':
		return refusal(rest), nil
	case ':':
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: a number that is none", errReply)
		}
		return n, nil
	case '$':
		return r.bulk(rest)
	case '*':
		return r.array(rest, depth)
	}
	return nil, fmt.Errorf("%w: no type of RESP2", errReply)
}

// line reads up to the end of a line.
func (r *reader) line() (string, error) {
	var line []byte
	for {
		part, err := r.from.ReadSlice('\n')
		if r.bytes -= len(part); r.bytes < 0 {
			return "", tooLong()
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
	if n := len(line); n < 2 || line[n-2] != '\r' {
		return "", fmt.Errorf("%w: a line that ends without \\r", errReply)
	}
	return string(line[:len(line)-2]), nil
}

// length reads what a string or an array announces; -1 is nil.
func length(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < -1 {
		return 0, fmt.Errorf("%w: a length that is none", errReply)
	}
	return int(n), nil
}

func (r *reader) bulk(announced string) (any, error) {
	n, err := length(announced)
	if err != nil || n < 0 {
		return nil, err
	}
	if r.bytes -= n + 2; r.bytes < 0 {
		return nil, tooLong()
	}
	var text []byte
	for left := n + 2; left > 0; {
		part, err := r.from.Peek(min(left, r.from.Size()))
		if err != nil {
			return nil, unfinished(err)
		}
		text = append(text, part...)
		left -= len(part)
		_, _ = r.from.Discard(len(part))
	}
	if text[n] != '\r' || text[n+1] != '\n' {
		return nil, fmt.Errorf("%w: a string longer than announced", errReply)
	}
	return string(text[:n]), nil
}

func (r *reader) array(announced string, depth int) (any, error) {
	n, err := length(announced)
	if err != nil || n < 0 {
		return nil, err
	}
	if n > r.elements {
		return nil, fmt.Errorf("%w: more than %d values", errReply, mostElements)
	}
	items := []any{}
	for range n {
		item, err := r.value(depth + 1)
		if err != nil {
			return nil, unfinished(err)
		}
		if refused, ok := item.(refusal); ok {
			item = error(refused)
		}
		items = append(items, item)
	}
	return items, nil
}

// unfinished is the end of a connection within a reply.
func unfinished(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func tooLong() error { return fmt.Errorf("%w: it is longer than %d bytes", errReply, mostBytes) }

// appendCommand writes words as RESP.
func appendCommand(b []byte, words []any) []byte {
	b = fmt.Appendf(b, "*%d\r\n", len(words))
	for _, word := range words {
		text := fmt.Sprint(word)
		b = fmt.Appendf(b, "$%d\r\n", len(text))
		b = append(append(b, text...), '\r', '\n')
	}
	return b
}

// take puts a reply where go-redis would have put it.
func take(into redis.Cmder, reply any) {
	cmd, ok := into.(*redis.Cmd)
	switch reply := reply.(type) {
	case refusal:
		into.SetErr(reply)
	case nil:
		into.SetErr(redis.Nil)
	default:
		if ok {
			cmd.SetVal(reply)
		}
	}
}
