package sandbox

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// errTooLong says that a reply passed its bound.
var errTooLong = errors.New("the reply is too long")

// A wire is the socket under a link. It bounds what may be read, keeps its own
// deadline, and can be cut from another goroutine without being closed, so that
// it can still be drained.
type wire struct {
	net.Conn
	left int64 // bytes that may still be read

	mu       sync.Mutex
	off      bool // cut
	draining bool // being read to its end
}

// begin sets the bounds of one round trip.
func (w *wire) begin(deadline time.Time, most int64) {
	w.left = most
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.off {
		_ = w.Conn.SetDeadline(deadline)
	}
}

// cut ends a read or write that is under way, and any later one.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = true
	if !w.draining {
		_ = w.Conn.SetDeadline(time.Unix(1, 0))
	}
}

// wasCut tells whether the wire is good for nothing but draining.
func (w *wire) wasCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off
}

// drain says goodbye and reads until the other side has hung up.
func (w *wire) drain() {
	w.mu.Lock()
	w.off, w.draining = true, true
	_ = w.Conn.SetDeadline(time.Time{})
	w.mu.Unlock()
	if half, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, w.Conn)
}

// Read reads within the bounds. What passes them is withheld: io.ReadFull forgets
// an error that comes with the last of the bytes it wants.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.left -= int64(n); w.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// Close is left to the link: go-redis closes a socket as soon as a read fails,
// when the server may still be at work.
func (w *wire) Close() error { return nil }

// SetDeadline and its like are begin's business.
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// alive tells whether an idle connection is still there: nothing can be read
// from it, not even its end.
func (w *wire) alive() bool {
	sc, ok := w.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	idle := false
	// Not Read, which would first look at a deadline that is long past.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		idle = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && idle
}
