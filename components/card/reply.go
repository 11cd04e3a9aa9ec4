package card

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockstep/components/say"
	"lockstep/figures"
	"lockstep/sandbox"
)

// printReply writes a reply as valkey-cli prints it.
func printReply(v sandbox.Value) string {
	switch v := v.(type) {
	case nil:
		return "(nil)"
	case sandbox.Error:
		return "(error) " + string(v)
	case int64:
		return "(integer) " + strconv.FormatInt(v, 10)
	case string:
		// A status reply comes without quotes. The client library gives both
		// kinds as text, so they are told apart by the words that servers use.
		switch v {
		case "OK", "QUEUED", "PONG":
			return v
		}
		return strconv.Quote(v)
	case []any:
		return strings.TrimSuffix(printArray(v, ""), "\n")
	}
	return fmt.Sprint(v)
}

func printArray(items []any, indent string) string {
	if len(items) == 0 {
		return "(empty array)\n"
	}
	var b strings.Builder
	width := len(strconv.Itoa(len(items)))
	for i, item := range items {
		head := fmt.Sprintf("%*d) ", width, i+1)
		if i > 0 {
			b.WriteString(indent)
		}
		b.WriteString(head)
		if inner, ok := item.([]any); ok {
			b.WriteString(printArray(inner, indent+strings.Repeat(" ", len(head))))
			continue
		}
		b.WriteString(printReply(item) + "\n")
	}
	return b.String()
}

// ms writes microseconds as milliseconds, to a hundredth while that says something.
func ms(us int64) string {
	switch {
	case us < 10_000:
		return fmt.Sprintf("%.2f", float64(us)/1000)
	case us < 100_000:
		return fmt.Sprintf("%.1f", float64(us)/1000)
	}
	return say.Number((us + 500) / 1000)
}

// remaining says how long it is from now to a moment of the server's, in
// milliseconds since 1970. A moment of another day stands as it is.
func remaining(epoch string, now time.Time) string {
	at, err := strconv.ParseInt(epoch, 10, 64)
	ms := at - now.UnixMilli()
	switch {
	case err != nil || ms > dayMS || ms < -dayMS:
		return epoch
	case ms < 0:
		return "over for " + say.Number(-ms) + " ms"
	}
	return say.Number(ms) + " ms left"
}

const dayMS = 24 * 60 * 60 * 1000

// keyWords is what a key holds: of a sorted set each member with its score, and of
// a score that is a moment, the time that is left.
func keyWords(k figures.KeyState, r *figures.Result) string {
	if k.Type != "zset" {
		return moments(say.Key(k), r)
	}
	members := strings.Split(k.Text, ", ")
	for i, m := range members {
		if cut := strings.LastIndexByte(m, ' '); cut > 0 {
			score := moments(m[cut+1:], r)
			if score == m[cut+1:] {
				score = "score " + score
			}
			members[i] = m[:cut] + ": " + score
		}
	}
	return strings.Join(members, ", ")
}

// lease says how long a key has still to live.
func lease(ttl int64) string {
	switch {
	case ttl == -1:
		return "no expiry"
	case ttl < 0:
		return "no key"
	}
	return say.Number(ttl) + " ms left"
}
