package sandbox

import (
	"fmt"
	"strings"
)

// A ParseError says where a command line went wrong.
type ParseError struct {
	Message string
	Column  int // from 1, in bytes
}

func (e *ParseError) Error() string { return fmt.Sprintf("column %d: %s", e.Column, e.Message) }

// Parse splits a line into words as valkey-cli does: words end at white space;
// "…" knows \n \r \t \b \a \\ \" and \xHH, '…' knows \' alone; a quote may open
// within a word, and must close before white space or the end of the line (from
// 9.1 on valkey-cli takes text behind it, too). The error is a *ParseError.
func Parse(line string) ([]string, error) {
	words := []string{}
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return words, nil
		}
		var word strings.Builder
		for i < len(line) && !isSpace(line[i]) {
			quote := line[i]
			if quote != '"' && quote != '\'' {
				word.WriteByte(quote)
				i++
				continue
			}
			opened := i
			for i++; ; i++ {
				if i == len(line) {
					return nil, &ParseError{Message: fmt.Sprintf("the quote %c is not closed", quote), Column: opened + 1}
				}
				if line[i] == quote {
					i++
					break
				}
				if line[i] != '\\' {
					word.WriteByte(line[i])
					continue
				}
				c, length := unescape(line[i:], quote)
				word.WriteByte(c)
				i += length - 1
			}
			if i < len(line) && !isSpace(line[i]) {
				return nil, &ParseError{Message: fmt.Sprintf("white space is missing after the closing %c", quote), Column: i + 1}
			}
		}
		words = append(words, word.String())
	}
}

// unescape reads what stands for one byte at the start of s, which is a
// backslash, and how long that is.
func unescape(s string, quote byte) (c byte, length int) {
	if len(s) < 2 {
		return '\\', 1
	}
	if quote == '\'' {
		if s[1] == '\'' {
			return '\'', 2
		}
		return '\\', 1
	}
	if len(s) >= 4 && s[1] == 'x' && isHex(s[2]) && isHex(s[3]) {
		return hexValue(s[2])<<4 | hexValue(s[3]), 4
	}
	switch s[1] {
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'a':
		return '\a', 2
	}
	return s[1], 2
}

// Quote writes words as one line that Parse and valkey-cli read back as they
// were. Words that need no quotes get none.
func Quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quoteWord(word)
	}
	return strings.Join(quoted, " ")
}

func quoteWord(word string) string {
	bare := word != ""
	for i := range len(word) {
		if c := word[i]; c <= ' ' || c == '"' || c == '\'' || c == 0x7f {
			bare = false
		}
	}
	if bare {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(word) {
		switch c := word[i]; c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\b':
			b.WriteString(`\b`)
		case '\a':
			b.WriteString(`\a`)
		default:
			if c < ' ' || c == 0x7f {
				fmt.Fprintf(&b, `\x%02x`, c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

func isSpace(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r'
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func hexValue(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}
