package handlers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	header       http.Header // of every answer
	etag         string
	plain        []byte
	gzip, brotli []byte // nil where they would not be smaller
}

func newDocument(mediaType string, body []byte, cache string) *document {
	sum := sha256.Sum256(body)
	d := &document{etag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: body}
	d.header = http.Header{
		"Content-Type":  {mediaType},
		"Cache-Control": {cache},
		"Etag":          {d.etag},
		"Vary":          {"Accept-Encoding"},
	}
	var g bytes.Buffer
	w, _ := gzip.NewWriterLevel(&g, gzip.BestCompression) // the level is a valid one
	w.Write(body)
	w.Close()
	d.gzip = smaller(g.Bytes(), body)
	var b bytes.Buffer
	bw := brotli.NewWriterLevel(&b, 10) // 11 takes thrice as long for two percent
	bw.Write(body)
	bw.Close()
	d.brotli = smaller(b.Bytes(), body)
	return d
}

func smaller(compressed, body []byte) []byte {
	if len(compressed) < len(body) {
		return compressed
	}
	return nil
}

// serve answers with the document, or with 304 where the visitor has it.
func (d *document) serve(c echo.Context) error {
	w, r := c.Response(), c.Request()
	h := w.Header()
	for k, v := range d.header {
		h[k] = v
	}
	if match := r.Header.Get("If-None-Match"); match != "" && strings.Contains(match, d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	body := d.plain
	accept := r.Header.Get("Accept-Encoding")
	switch {
	case d.brotli != nil && accepts(accept, "br"):
		body = d.brotli
		h.Set("Content-Encoding", "br")
	case d.gzip != nil && accepts(accept, "gzip"):
		body = d.gzip
		h.Set("Content-Encoding", "gzip")
	}
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(body)
	return err
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
