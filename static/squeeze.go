package static

import (
	"bytes"
	"regexp"
)

var cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)

// squeeze leaves out what only those read who work on a file: comments that
// stand on lines of their own, indentation, empty lines. Lines stay lines, so
// that what a browser says about one can be found.
func squeeze(ext string, body []byte) []byte {
	switch ext {
	case ".css":
		body = cssComment.ReplaceAll(body, nil)
	case ".js":
	default:
		return body
	}
	var out bytes.Buffer
	for line := range bytes.Lines(body) {
		text := bytes.TrimSpace(line)
		if len(text) == 0 || ext == ".js" && bytes.HasPrefix(text, []byte("//")) {
			continue
		}
		out.Write(text)
		if bytes.HasSuffix(line, []byte("\n")) {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
