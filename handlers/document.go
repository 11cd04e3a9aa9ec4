package handlers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math/bits"
	"net/http"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"
)

// A document is an answer that is the same for everybody, compressed once and
// served from memory.
type document struct {
	etag   string
	kept   http.Header // of a 304: what a visitor's copy is kept by
	plain  *body
	gzip   *body // nil where it would not be smaller
	brotli *body
}

// A body is a document in one coding, with the headers of its answer.
type body struct {
	header http.Header
	bytes  []byte
}

func newDocument(mediaType string, text []byte, cache string) *document {
	sum := sha256.Sum256(text)
	d := &document{etag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	d.kept = http.Header{"Cache-Control": {cache}, "Etag": {d.etag}, "Vary": {"Accept-Encoding"}}
	as := func(coding string, bytes []byte) *body {
		h := d.kept.Clone()
		h["Content-Type"] = []string{mediaType}
		h["Content-Length"] = []string{strconv.Itoa(len(bytes))}
		if coding != "" {
			if len(bytes) >= len(text) {
				return nil
			}
			h["Content-Encoding"] = []string{coding}
		}
		return &body{h, bytes}
	}
	d.plain = as("", text)
	d.gzip = as("gzip", gzipped(text, gzip.BestCompression))
	var b bytes.Buffer
	// Quality 11 takes thrice as long for two percent. A window that holds the
	// whole text is as good as the largest, whose tables take 37 MB.
	w := brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: 10, LGWin: min(max(bits.Len(uint(len(text)+16)), 10), 24)})
	w.Write(text)
	w.Close()
	d.brotli = as("br", b.Bytes())
	return d
}

// gzipped compresses; the level is one of the package's own.
func gzipped(text []byte, level int) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, level)
	w.Write(text)
	w.Close()
	return b.Bytes()
}

// serve answers with the document, or with 304 where the visitor has it.
func (d *document) serve(c echo.Context) error {
	w, r := c.Response(), c.Request()
	h := w.Header()
	if match := r.Header["If-None-Match"]; len(match) > 0 && strings.Contains(match[0], d.etag) {
		clear(h) // the visitor has the rest
		maps.Copy(h, d.kept)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := d.plain
	accept := r.Header.Get("Accept-Encoding")
	switch {
	case d.brotli != nil && accepts(accept, "br"):
		body = d.brotli
	case d.gzip != nil && accepts(accept, "gzip"):
		body = d.gzip
	}
	maps.Copy(h, body.header)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(body.bytes)
	return err
}

// worthwhile is how many bytes an answer of this moment must have for
// compressing it to take less time than it saves.
const worthwhile = 16 << 10

// send answers with a body that was made for this request.
func send(c echo.Context, status int, mediaType string, body []byte) error {
	h := c.Response().Header()
	if len(body) >= worthwhile {
		h.Add("Vary", "Accept-Encoding")
		if accepts(c.Request().Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = gzipped(body, gzip.BestSpeed)
		}
	}
	return c.Blob(status, mediaType, body)
}

// accepts tells whether an Accept-Encoding header takes a coding; "q=0" is a no.
func accepts(header, coding string) bool {
	for header != "" {
		var part string
		part, header, _ = strings.Cut(header, ",")
		name, q, weighted := strings.Cut(part, ";")
		if strings.TrimSpace(name) == coding {
			q = strings.ReplaceAll(q, " ", "")
			return !weighted || strings.Trim(strings.TrimPrefix(q, "q="), "0.") != ""
		}
	}
	return false
}
