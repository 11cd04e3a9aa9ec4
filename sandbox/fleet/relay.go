package fleet

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A relay carries a replica's connection to its primary until it is cut. A
// replica can reach its primary by host and port only: the relay has the port,
// and the primary keeps to its socket, where nobody else gets at it.
type relay struct {
	listener net.Listener
	primary  string // the primary's socket
	off      atomic.Bool
	passing  sync.RWMutex   // held, shared, while bytes are passed on
	work     sync.WaitGroup // everything that it has under way

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

func newRelay(primary string) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, primary: primary, conns: map[net.Conn]bool{}}
	r.work.Go(r.accept)
	return r, nil
}

// port is where the replica finds its primary.
func (r *relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// cut lets no byte through any more, either way, once it has returned. What
// comes is read and dropped: both sides see a connection that is silent, as
// behind a broken network, and not one that was closed.
func (r *relay) cut() {
	r.off.Store(true)
	r.mu.Lock()
	for conn := range r.conns {
		_ = conn.SetWriteDeadline(time.Unix(1, 0)) // a write may be waiting for a hung reader
	}
	r.mu.Unlock()
	r.passing.Lock() // once nothing is being passed on
	defer r.passing.Unlock()
}

// close closes every connection, and returns when nothing is left.
func (r *relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}

func (r *relay) accept() {
	for {
		replica, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.carry(replica) })
	}
}

// carry joins a replica's connection with one to the primary.
func (r *relay) carry(replica net.Conn) {
	defer replica.Close()
	primary, err := net.Dial("unix", r.primary)
	if err != nil {
		return // the replica will try again
	}
	defer primary.Close()
	if !r.enter(replica, primary) {
		return
	}
	defer r.leave(replica, primary)
	var both sync.WaitGroup
	both.Go(func() { r.pump(primary, replica) })
	both.Go(func() { r.pump(replica, primary) })
	both.Wait()
}

func (r *relay) enter(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	for _, conn := range conns {
		r.conns[conn] = true
	}
	return true
}

func (r *relay) leave(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		delete(r.conns, conn)
	}
}

// pump passes on what comes from one side until that side hangs up. Then it
// hangs up on the other, gently: what is on its way still arrives.
func (r *relay) pump(from, to net.Conn) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !r.pass(to, buffer[:n]) || err != nil {
			break
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// pass writes what came, unless the relay has been cut. It is false where nobody
// is there to read it.
func (r *relay) pass(to net.Conn, p []byte) bool {
	r.passing.RLock()
	defer r.passing.RUnlock()
	if r.off.Load() {
		return true
	}
	_, err := to.Write(p)
	return err == nil || r.off.Load()
}
