package fleet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A joint is a relay with a connection at either end.
type joint struct {
	relay            *relay
	replica, primary net.Conn
}

// join connects to a relay, as a replica does, and takes the connection at the
// other end.
func join(t *testing.T) joint {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay") // t.TempDir is too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r, err := newRelay(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	replica, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", r.port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = replica.Close() })
	primary, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Close() })
	for _, conn := range []net.Conn{replica, primary} {
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return joint{r, replica, primary}
}

// carries sends a line one way and waits for it at the other end.
func carries(t *testing.T, from, to net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(from, line+"\n"); err != nil {
		t.Fatal(err)
	}
	got, err := bufio.NewReader(to).ReadString('\n')
	if err != nil || got != line+"\n" {
		t.Fatalf("got %q, %v; want %q", got, err, line)
	}
}

func TestRelayCut(t *testing.T) {
	j := join(t)
	carries(t, j.primary, j.replica, "a write")
	carries(t, j.replica, j.primary, "an acknowledgement")
	j.relay.cut()
	// The writers see nothing of it, however much they send.
	much := bytes.Repeat([]byte("lost"), 1<<20)
	for _, conn := range []net.Conn{j.primary, j.replica} {
		if _, err := conn.Write(much); err != nil {
			t.Errorf("a write after the cut: %v", err)
		}
	}
	for _, conn := range []net.Conn{j.primary, j.replica} {
		_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := conn.Read(make([]byte, 10)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the cut came %d bytes, %v", n, err)
		}
	}
}

// TestRelayCutWhileFull cuts while a write waits for a reader that hangs.
func TestRelayCutWhileFull(t *testing.T) {
	j := join(t)
	much := bytes.Repeat([]byte("x"), 16<<20)
	sent := make(chan error, 1)
	go func() {
		_, err := j.primary.Write(much)
		sent <- err
	}()
	if _, err := io.ReadFull(j.replica, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cut := make(chan struct{})
	go func() {
		j.relay.cut()
		close(cut)
	}()
	select {
	case <-cut:
	case <-time.After(20 * time.Second):
		t.Fatal("the cut waits for a reader that hangs")
	}
	if err := <-sent; err != nil {
		t.Errorf("the writer saw the cut: %v", err)
	}
}

func TestRelayHangsUp(t *testing.T) {
	for _, replicaFirst := range []bool{false, true} {
		j := join(t)
		first, second := j.primary, j.replica
		if replicaFirst {
			first, second = second, first
		}
		// What was sent before still arrives.
		if _, err := io.WriteString(first, "last words"); err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
		got, err := io.ReadAll(second)
		if err != nil || string(got) != "last words" {
			t.Errorf("replicaFirst=%v: got %q, %v", replicaFirst, got, err)
		}
	}
}

func TestRelayClose(t *testing.T) {
	j := join(t)
	address := j.relay.listener.Addr().String()
	j.relay.close()
	for _, conn := range []net.Conn{j.primary, j.replica} {
		if n, err := conn.Read(make([]byte, 10)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after close: %d bytes, %v", n, err)
		}
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
	j.relay.close() // and once more
}

func TestRelayWithoutPrimary(t *testing.T) {
	r, err := newRelay(filepath.Join(t.TempDir(), "none"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	conn, err := net.Dial("tcp", r.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if n, err := conn.Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes, %v; want that it hangs up", n, err)
	}
}
