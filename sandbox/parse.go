package sandbox

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse splits a line into words as valkey-cli does: words end at white space;
// "…" knows \n \r \t \b \a \\ \" and \xHH, '…' knows \' alone; a quote may open
// within a word, and must close before white space or the end of the line (from
// 9.1 on valkey-cli takes text behind it, too). The error says at which column, from
// 1 and in bytes, a line goes wrong.
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
					return nil, fmt.Errorf("column %d: the quote %c is not closed", opened+1, quote)
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
				return nil, fmt.Errorf("column %d: white space is missing after the closing %c", i+1, quote)
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
	if len(s) >= 4 && s[1] == 'x' {
		if c, err := strconv.ParseUint(s[2:4], 16, 8); err == nil {
			return byte(c), 4
		}
	}
	if i := strings.IndexByte("nrtba", s[1]); i >= 0 {
		return "\n\r\t\b\a"[i], 2
	}
	return s[1], 2
}

func isSpace(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r'
}
