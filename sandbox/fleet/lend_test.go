package fleet

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/sandbox"
	"lockstep/sandbox/server"

	"github.com/google/go-cmp/cmp"
)

// TestServersAreLentEmpty reuses servers that saw no fault, whatever the run
// before left on them.
func TestServersAreLentEmpty(t *testing.T) {
	s := openClusters(t, server.Options{})
	lend := map[string]func(func(*Cluster) error) error{
		"replicated":  func(f func(*Cluster) error) error { return s.Replicated(t.Context(), 1, f) },
		"independent": func(f func(*Cluster) error) error { return s.Independent(t.Context(), 5, f) },
	}
	for name, lend := range lend {
		var first map[string]int
		for run := range 4 {
			must(t, lend(func(c *Cluster) error {
				pids := c.set.pids()
				if run == 0 {
					first = pids
				}
				if diff := cmp.Diff(first, pids); diff != "" {
					t.Errorf("%s, run %d: other servers (-want +got):\n%s", name, run, diff)
				}
				for _, node := range c.Nodes() {
					if got := ask(t, c, node, "DBSIZE", "GET k"); got[0] != int64(0) || got[1] != nil {
						t.Errorf("%s, run %d: %s holds %v", name, run, node, got)
					}
				}
				for _, node := range c.Nodes() {
					ask(t, c, node, "SET k v", "WAIT 0 1", "MULTI", "SET k half") // dies in a transaction
				}
				return nil
			}))
		}
	}
}

func TestServersOfARunThatPanics(t *testing.T) {
	s := openSets(t, 1, server.Options{Wait: 20 * time.Second, Answer: 20 * time.Second})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = s.Independent(t.Context(), 2, func(*Cluster) error { panic("a run panics") })
		}()
	}
}

func TestServersUsedAfterReturn(t *testing.T) {
	s := openClusters(t, server.Options{})
	var kept *Cluster
	must(t, s.Independent(t.Context(), 2, func(c *Cluster) error {
		kept = c
		return nil
	}))
	if _, err := kept.Do(t.Context(), "", "n1", lines(t, "SET k v")); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("Do: %v, want ErrDown", err)
	}
	if err := kept.Kill(t.Context(), "n1"); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("Kill: %v, want ErrDown", err)
	}
}

// TestServersOfACancelledRun calls a run off that waits, and leaves one behind.
func TestServersOfACancelledRun(t *testing.T) {
	s := openSets(t, 1, server.Options{Wait: 20 * time.Second, Answer: 20 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	var left sync.WaitGroup
	err := s.Independent(ctx, 2, func(c *Cluster) error {
		left.Go(func() {
			if _, err := c.Do(context.Background(), "", "n2", lines(t, "BLPOP none 0")); !errors.Is(err, sandbox.ErrDown) && !errors.Is(err, sandbox.ErrLate) {
				t.Errorf("left behind: %v", err)
			}
		})
		eventually(t, 20*time.Second, "a command is under way", func() bool { return len(c.set.members[1].client("").turn) == 1 })
		time.AfterFunc(time.Millisecond, cancel)
		_, err := c.Do(ctx, "", "n1", lines(t, "BLPOP none 0"))
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want called off", err)
	}
	left.Wait()
	must(t, s.Independent(t.Context(), 2, func(c *Cluster) error {
		ask(t, c, "n1", "GET k")
		return nil
	}))
}

func TestServersAllowWhatOneAllows(t *testing.T) {
	s := openClusters(t, server.Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		for _, node := range c.Nodes() {
			for _, words := range []string{
				"SELECT 0", "EVAL 'return 1' 0", "SCRIPT FLUSH", "FLUSHALL", "CONFIG GET masterauth", "REPLICAOF NO ONE", "PSYNC ? -1", "REPLCONF ACK 0",
				"ACL WHOAMI", "CLIENT LIST", "INFO", "SHUTDOWN NOSAVE", "FAILOVER", "DEBUG SLEEP 0", "FUNCTION LIST", "PUBLISH c m", "MONITOR",
			} {
				if e, ok := ask(t, c, node, words)[0].(sandbox.Error); !ok || e.Code() != "NOPERM" && e.Code() != "ERR" {
					t.Errorf("%s: %s = %v, want NOPERM", node, words, e)
				}
			}
		}
		// Nor does anybody get in by the relay.
		conn, err := net.Dial("tcp", c.set.members[1].relay.listener.Addr().String())
		must(t, err)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		if reply, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(reply, "-NOAUTH") {
			t.Errorf("the relay lets in: %q, %v", reply, err)
		}
		return nil
	}))
}

// TestFleetIsBounded has many ask at once, for servers of every shape.
func TestFleetIsBounded(t *testing.T) {
	const most = 2
	s := openSets(t, most, server.Options{Wait: time.Minute, Answer: 20 * time.Second})
	var mu sync.Mutex
	live := map[bool]int{} // sets that are lent, by whether they are replicated
	var all sync.WaitGroup
	for i := range 24 {
		replicated := i%2 == 0
		all.Go(func() {
			f := func(c *Cluster) error {
				mu.Lock()
				live[replicated]++
				now := live[replicated]
				mu.Unlock()
				fleet := s.pool(c.set.what)
				fleet.mu.Lock()
				there := len(fleet.all)
				fleet.mu.Unlock()
				if now > most || there > most {
					t.Errorf("%d sets are lent, and %d there; want %d at most", now, there, most)
				}
				if got := ask(t, c, c.Nodes()[0], "GET k", "SET k v"); got[0] != nil {
					t.Errorf("not empty: %v", got)
				}
				if i%3 == 0 {
					must(t, c.Kill(t.Context(), c.Nodes()[0]))
				}
				mu.Lock()
				live[replicated]--
				mu.Unlock()
				return nil
			}
			var err error
			if replicated {
				err = s.Replicated(t.Context(), 1+i/2%2, f)
			} else {
				err = s.Independent(t.Context(), []int{5, 3, 5}[i%3], f)
			}
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
	// At rest there is one set of a shape, within the same bound.
	for _, fleet := range []*pool{s.replicated, s.independent} {
		eventually(t, 20*time.Second, "the fleet is at rest", func() bool {
			fleet.mu.Lock()
			defer fleet.mu.Unlock()
			return len(fleet.lent) == 0 && fleet.start == nil && len(fleet.all) == len(fleet.rest) && len(fleet.all) <= most
		})
	}
}

func TestBusyServers(t *testing.T) {
	s := openSets(t, 1, server.Options{Wait: 20 * time.Millisecond, Answer: 20 * time.Second})
	must(t, s.Independent(t.Context(), 2, func(*Cluster) error {
		for range 3 { // a refusal must not make room
			if err := s.Independent(t.Context(), 2, nil); !errors.Is(err, sandbox.ErrBusy) {
				t.Errorf("a second run: %v, want ErrBusy", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Independent(ctx, 2, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("called off: %v", err)
		}
		return nil
	}))
}

// TestNoFleet opens one beside a server that has no process of its own kind.
func TestNoFleet(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	s := openSets(t, 2, server.Options{Server: "embedded", EmbeddedCommand: []string{self, "embedded-server"}})
	if s.Fleet != nil {
		t.Error("the simulated server is several")
	}
	if err := s.Replicated(t.Context(), 1, nil); !errors.Is(err, errOneServer) {
		t.Errorf("Replicated: %v", err)
	}
	if err := s.Independent(t.Context(), 5, nil); !errors.Is(err, errOneServer) {
		t.Errorf("Independent: %v", err)
	}
}
