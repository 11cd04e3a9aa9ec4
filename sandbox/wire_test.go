package sandbox

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// atOnce is a connection on which a whole reply has arrived.
type atOnce struct {
	net.Conn
	reply io.Reader
}

func (c atOnce) Read(p []byte) (int, error) { return c.reply.Read(p) }

// TestReplyAtOnce reads replies with a single read of the socket, as large as
// their bound and larger.
func TestReplyAtOnce(t *testing.T) {
	for _, tt := range []struct {
		bytes int
		want  error
	}{{10, nil}, {11, errTooLong}, {1000, errTooLong}} {
		w := &wire{Conn: atOnce{reply: strings.NewReader(strings.Repeat("x", tt.bytes))}, left: 10}
		if _, err := io.ReadFull(w, make([]byte, tt.bytes)); !errors.Is(err, tt.want) {
			t.Errorf("%d bytes of 10: %v, want %v", tt.bytes, err, tt.want)
		}
	}
}
