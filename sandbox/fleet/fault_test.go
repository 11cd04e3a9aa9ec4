package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

// TestKilledFromOutside kills each server at each step of a failover. What then
// fails says so, and no process is left.
func TestKilledFromOutside(t *testing.T) {
	s := openClusters(t, server.Options{Answer: 5 * time.Second})
	type step struct {
		name string
		do   func(*Cluster) error
	}
	order := func(name string, do func(*Cluster, context.Context, string) error, node string) step {
		return step{name + " " + node, func(c *Cluster) error { return do(c, t.Context(), node) }}
	}
	send := func(node, text string) step {
		return step{text + " at " + node, func(c *Cluster) error {
			values, err := c.Do(t.Context(), "", node, lines(t, text))
			if err == nil && values[0] != "OK" && values[0] != nil && values[0] != down(node) {
				t.Errorf("%s at %s = %v", text, node, values[0])
			}
			return err
		}}
	}
	steps := []step{
		send("primary", aTakes),
		order("sync", (*Cluster).Sync, "replica"),
		order("cut", (*Cluster).Cut, "replica"),
		order("kill", (*Cluster).Kill, "primary"),
		order("promote", (*Cluster).Promote, "replica"),
		send("replica", bTakes),
		send("primary", bTakes),
		order("restart", (*Cluster).Restart, "primary"),
	}
	for _, victim := range []string{"primary", "replica"} {
		for at := range steps {
			var pids map[string]int
			err := s.Replicated(t.Context(), 1, func(c *Cluster) error {
				pids = c.set.pids()
				for i, step := range steps {
					if i == at && running(pids[victim]) {
						signal(t, pids[victim], syscall.SIGKILL)
					}
					if err := step.do(c); err != nil {
						return fmt.Errorf("%s: %w", step.name, err)
					}
				}
				for name, pid := range c.set.pids() {
					pids[name+" again"] = pid
				}
				return nil
			})
			var author *sandbox.CommandError
			if err != nil && !errors.Is(err, sandbox.ErrDown) && !errors.As(err, &author) {
				t.Errorf("%s dies before %q: %v, want ErrDown", victim, steps[at].name, err)
			}
			t.Logf("%s dies before %q: %v", victim, steps[at].name, err)
			ends(t, pids)
		}
	}
}

// TestHungServer stops a server that a run then asks.
func TestHungServer(t *testing.T) {
	s := openClusters(t, server.Options{Answer: 300 * time.Millisecond})
	var pids map[string]int
	err := s.Independent(t.Context(), 2, func(c *Cluster) error {
		pids = c.set.pids()
		signal(t, pids["n2"], syscall.SIGSTOP)
		_, err := c.Do(t.Context(), "", "n2", lines(t, "GET k"))
		return err
	})
	if !errors.Is(err, sandbox.ErrLate) {
		t.Errorf("err = %v, want ErrLate", err)
	}
	ends(t, pids)
}

// TestDeadAtRest kills servers that nobody has.
func TestDeadAtRest(t *testing.T) {
	s := openClusters(t, server.Options{})
	for _, victim := range []string{"primary", "replica"} {
		var pids map[string]int
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			pids = c.set.pids()
			return nil
		}))
		signal(t, pids[victim], syscall.SIGKILL)
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			ask(t, c, "primary", aTakes)
			return c.Sync(t.Context(), "replica")
		}))
		ends(t, pids)
	}
}

// TestReplacedInTheBackground: after a fault the next run finds others, and the
// old ones are gone.
func TestReplacedInTheBackground(t *testing.T) {
	s := openClusters(t, server.Options{})
	var old map[string]int
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		old = c.set.pids()
		return c.Cut(t.Context(), "replica")
	}))
	ends(t, old)
	fleet := s.replicated
	eventually(t, 20*time.Second, "another pair is at rest", func() bool {
		fleet.mu.Lock()
		defer fleet.mu.Unlock()
		return fleet.resting(shape{replicas: 1})
	})
	fleet.mu.Lock()
	waiting := fleet.rest[0]
	fleet.mu.Unlock()
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		if c.set != waiting {
			t.Error("the pair that is ready is not the one that is lent")
		}
		return nil
	}))
}

// TestCloseEndsServers closes with runs under way and sets at rest.
func TestCloseEndsServers(t *testing.T) {
	s := openClusters(t, server.Options{})
	pids := map[string]int{}
	must(t, s.Independent(t.Context(), 3, func(c *Cluster) error {
		for name, pid := range c.set.pids() {
			pids[name] = pid
		}
		return nil
	}))
	waits := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.Replicated(context.Background(), 1, func(c *Cluster) error {
			for name, pid := range c.set.pids() {
				pids[name] = pid
			}
			go func() {
				for len(c.set.members[0].client("").turn) == 0 {
					time.Sleep(time.Millisecond)
				}
				close(waits)
			}()
			_, err := c.Do(context.Background(), "", "primary", lines(t, "WAIT 2 0"))
			return err
		})
	}()
	<-waits
	dir := s.server.Dir()
	must(t, s.Close())
	if err := <-done; !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("the run ended with %v, want ErrDown", err)
	}
	if len(pids) != 5 {
		t.Errorf("processes: %v", pids)
	}
	for name, pid := range pids {
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			t.Errorf("%s (process %d) is left", name, pid)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	if err := s.Replicated(t.Context(), 1, nil); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("after Close: %v, want ErrDown", err)
	}
}

// TestCloseWhileStarting closes before the first set is there.
func TestCloseWhileStarting(t *testing.T) {
	s := openClusters(t, server.Options{})
	done := make(chan error)
	go func() {
		done <- s.Independent(context.Background(), 5, func(c *Cluster) error {
			_, err := c.Do(context.Background(), "", "n1", lines(t, "GET k"))
			return err
		})
	}()
	eventually(t, 20*time.Second, "a start is under way", func() bool {
		s.independent.mu.Lock()
		defer s.independent.mu.Unlock()
		return s.independent.start != nil
	})
	must(t, s.Close())
	if err := <-done; !errors.Is(err, sandbox.ErrDown) && err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// holdClusters opens a sandbox, has servers of every kind, says which processes
// they are, and waits to be killed.
func holdClusters() {
	beside, err := server.Open(context.Background(), server.Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	s := Open(beside, 2)
	hold := func(c *Cluster) error {
		said := []any{"ready"}
		for _, pid := range c.set.pids() {
			said = append(said, pid)
		}
		fmt.Println(said...) // in one write, for two sets do so
		select {}
	}
	go func() { fmt.Println("error", s.Replicated(context.Background(), 1, hold)) }()
	fmt.Println("error", s.Independent(context.Background(), 3, hold))
	os.Exit(1)
}

// TestSiteIsKilled kills a site that has servers with kill -9.
func TestSiteIsKilled(t *testing.T) {
	needServer(t)
	self, err := os.Executable()
	must(t, err)
	temp, err := os.MkdirTemp("", "site")
	must(t, err)
	defer os.RemoveAll(temp)
	cmd := exec.Command(self, "hold-clusters")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	pids := map[string]int{}
	output := bufio.NewScanner(out)
	for len(pids) < 5 && output.Scan() {
		words := strings.Fields(output.Text())
		if len(words) == 0 || words[0] != "ready" {
			t.Fatalf("the site says %q", output.Text())
		}
		for _, word := range words[1:] {
			pid, err := strconv.Atoi(word)
			must(t, err)
			pids[word] = pid
		}
	}
	if len(pids) != 5 {
		t.Fatalf("processes: %v", pids)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for name, pid := range pids {
		eventually(t, 20*time.Second, "process "+name+" ends", func() bool { return !running(pid) })
	}
	// The next site takes away what it left.
	t.Setenv("TMPDIR", temp)
	must(t, openClusters(t, server.Options{}).Close())
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
