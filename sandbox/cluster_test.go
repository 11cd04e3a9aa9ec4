package sandbox

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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inARow is how often a claim about faults has to hold, one run after another.
const inARow = 20

// openClusters opens a sandbox with generous bounds: these tests are about what
// happens, and other things may keep the machine busy.
func openClusters(t testing.TB, opt Options) *Sandbox {
	t.Helper()
	if opt.Wait == 0 {
		opt.Wait = 20 * time.Second
	}
	if opt.Answer == 0 {
		opt.Answer = 20 * time.Second
	}
	return open(t, opt)
}

// ask sends lines to one server.
func ask(t testing.TB, c *Cluster, node string, texts ...string) []Value {
	t.Helper()
	values, err := c.Do(t.Context(), "", node, lines(t, texts...))
	if err != nil {
		t.Fatalf("%q to %s: %v", texts, node, err)
	}
	return values
}

// must fails the test where an order was not carried out.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// down is what a server that is down answers.
func down(node string) Value { return Error("DOWN " + node + " does not answer") }

// pids gives the processes of a set.
func (t *set) pids() map[string]int {
	all := map[string]int{}
	for _, m := range t.members {
		inst := m.now()
		if inst == nil {
			continue
		}
		info, err := inst.admin.Info(context.Background(), "server").Result()
		if err != nil {
			continue
		}
		all[m.name], _ = strconv.Atoi(infoField(info, "process_id"))
	}
	return all
}

// ends waits until none of the processes is left, not even as a zombie.
func ends(t testing.TB, pids map[string]int) {
	t.Helper()
	for name, pid := range pids {
		eventually(t, 20*time.Second, fmt.Sprintf("%s (process %d) ends", name, pid), func() bool {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		})
	}
}

// The lock of the failover tests, as two clients take it.
const (
	aTakes = "SET lock a NX PX 30000"
	bTakes = "SET lock b NX PX 30000"
)

func TestFailoverLosesTheLock(t *testing.T) {
	s := openClusters(t, Options{})
	for run := range inARow {
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			must(t, c.Cut(t.Context(), "replica"))
			a := ask(t, c, "primary", aTakes)
			must(t, c.Kill(t.Context(), "primary"))
			must(t, c.Promote(t.Context(), "replica"))
			b := ask(t, c, "replica", bTakes)
			late := ask(t, c, "primary", "GET lock", "PTTL lock")
			if diff := cmp.Diff([]Value{"OK", "OK", down("primary"), down("primary")}, append(append(a, b...), late...)); diff != "" {
				t.Errorf("run %d: A, B, and A once more (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

func TestFailoverKeepsTheLock(t *testing.T) {
	s := openClusters(t, Options{})
	for run := range inARow {
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			a := ask(t, c, "primary", aTakes)
			must(t, c.Sync(t.Context(), "replica"))
			must(t, c.Kill(t.Context(), "primary"))
			must(t, c.Promote(t.Context(), "replica"))
			b := ask(t, c, "replica", bTakes, "GET lock", "EVAL release.lua 1 lock b", "EVAL release.lua 1 lock a", bTakes)
			if diff := cmp.Diff([]Value{"OK", nil, "a", int64(0), int64(1), "OK"}, append(a, b...)); diff != "" {
				t.Errorf("run %d: A, then B (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

// TestCutIsExact writes before and after the cut: all of the one is at the
// replica, and nothing of the other.
func TestCutIsExact(t *testing.T) {
	s := openClusters(t, Options{})
	for run := range inARow {
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			var before []string
			for range 200 {
				before = append(before, "INCR before")
			}
			ask(t, c, "primary", before...)
			must(t, c.Cut(t.Context(), "replica"))
			must(t, c.Cut(t.Context(), "replica"))
			ask(t, c, "primary", "INCR before", "SET after x")
			got := ask(t, c, "replica", "GET before", "GET after")
			if diff := cmp.Diff([]Value{"200", nil}, got); diff != "" {
				t.Errorf("run %d (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

func TestWait(t *testing.T) {
	s := openClusters(t, Options{})
	for run := range inARow {
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			got := ask(t, c, "primary", "SET k 1", "WAIT 1 20000")
			if diff := cmp.Diff([]Value{"OK", int64(1)}, got); diff != "" {
				t.Errorf("run %d: acknowledged (-want +got):\n%s", run, diff)
			}
			must(t, c.Cut(t.Context(), "replica"))
			got = append(ask(t, c, "primary", "SET k 2"), ask(t, c, "primary", "WAIT 1 20")...)
			if diff := cmp.Diff([]Value{"OK", int64(0)}, got); diff != "" {
				t.Errorf("run %d: cut off (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

// TestWaitDoesNotClose loses a lock that a replica has acknowledged: another one
// is promoted.
func TestWaitDoesNotClose(t *testing.T) {
	s := openClusters(t, Options{})
	for run := range inARow {
		must(t, s.Replicated(t.Context(), 2, func(c *Cluster) error {
			must(t, c.Cut(t.Context(), "replica2"))
			got := ask(t, c, "primary", aTakes, "WAIT 1 20000")
			must(t, c.Kill(t.Context(), "primary"))
			must(t, c.Promote(t.Context(), "replica2"))
			got = append(got, ask(t, c, "replica2", bTakes)...)
			got = append(got, ask(t, c, "replica", "GET lock")...)
			if diff := cmp.Diff([]Value{"OK", int64(1), "OK", "a"}, got); diff != "" {
				t.Errorf("run %d (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

// TestLeaseSurvivesPromotion: the clock of a lease goes on.
func TestLeaseSurvivesPromotion(t *testing.T) {
	s := openClusters(t, Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		begun := time.Now()
		ask(t, c, "primary", "SET long a PX 60000", "SET short a PX 300")
		must(t, c.Sync(t.Context(), "replica"))
		must(t, c.Kill(t.Context(), "primary"))
		must(t, c.Promote(t.Context(), "replica"))
		left := ask(t, c, "replica", "PTTL long")[0].(int64)
		if most, least := int64(60000), 60000-time.Since(begun).Milliseconds()-1; left > most || left < least {
			t.Errorf("PTTL = %d, want %d to %d", left, least, most)
		}
		eventually(t, 20*time.Second, "the short lease runs out", func() bool {
			return ask(t, c, "replica", "GET short")[0] == nil
		})
		if took := time.Since(begun); took < 300*time.Millisecond {
			t.Errorf("a lease of 300 ms ran out after %v", took)
		}
		return nil
	}))
}

func TestReplicaTakesNoWrites(t *testing.T) {
	s := openClusters(t, Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		ask(t, c, "primary", "SET k v PX 30000")
		must(t, c.Sync(t.Context(), "replica"))
		for range 3 { // wherever in a pipeline it stands
			got := ask(t, c, "replica", "SET k x", "GET k", "EVAL release.lua 1 k v", "GET k")
			for _, i := range []int{0, 2} {
				if e, ok := got[i].(Error); !ok || e.Code() != "READONLY" {
					t.Errorf("a write at the replica = %v, want READONLY", got[i])
				}
			}
			if got[1] != "v" || got[3] != "v" {
				t.Errorf("GET k = %v, %v", got[1], got[3])
			}
			if got := ask(t, c, "replica", "GET k"); got[0] != "v" {
				t.Errorf("GET k = %v", got[0])
			}
		}
		// The refusal stands within an array here.
		got := ask(t, c, "replica", "EVAL both.lua 1 k", "GET k", "EVAL both.lua 1 k", "GET none")
		if e, ok := got[0].(Error); !ok || e.Code() != "READONLY" || got[1] != "v" || got[3] != nil {
			t.Errorf("a script's refused write, GET k, the same, GET none = %v", got)
		}
		return nil
	}))
}

// TestOwnScriptsOnServers peeks, lapses and fingerprints on each server.
func TestOwnScriptsOnServers(t *testing.T) {
	s := openClusters(t, Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		ask(t, c, "primary", "SET k v PX 30000")
		must(t, c.Sync(t.Context(), "replica"))
		var states []Value
		for _, node := range c.Nodes() {
			got, err := c.Do(t.Context(), "", node, []Command{Peek("k"), Peek("none"), State()})
			must(t, err)
			k := got[0].([]any)
			if lease, _ := k[2].(int64); k[0] != "string" || k[1] != "v" || lease < 1 || lease > 30000 {
				t.Errorf("%s: k = %v", node, k)
			}
			if diff := cmp.Diff(Value([]any{"none", nil, int64(-2)}), got[1]); diff != "" {
				t.Errorf("%s: none (-want +got):\n%s", node, diff)
			}
			states = append(states, got[2].([]any)[1])
		}
		if diff := cmp.Diff([]Value{int64(1), int64(1)}, states); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		got, err := c.Do(t.Context(), "", "primary", []Command{Lapse("k"), Peek("k")})
		must(t, err)
		if diff := cmp.Diff([]Value{int64(1), []any{"none", nil, int64(-2)}}, got); diff != "" {
			t.Errorf("lapsed (-want +got):\n%s", diff)
		}
		must(t, c.Sync(t.Context(), "replica"))
		if got := ask(t, c, "replica", "EXISTS k"); got[0] != int64(0) {
			t.Errorf("the replica still has k")
		}
		return nil
	}))
}

// TestMajority is the Redlock of five servers, run by hand.
func TestMajority(t *testing.T) {
	s := openClusters(t, Options{})
	for run := range inARow {
		must(t, s.Independent(t.Context(), 5, func(c *Cluster) error {
			if diff := cmp.Diff([]string{"n1", "n2", "n3", "n4", "n5"}, c.Nodes()); diff != "" {
				t.Fatal(diff)
			}
			votes := func(command string) (granted int, heard []Value) {
				for _, node := range c.Nodes() {
					v := ask(t, c, node, command)[0]
					if heard = append(heard, v); v == "OK" {
						granted++
					}
				}
				return granted, heard
			}
			must(t, c.Down(t.Context(), "n4"))
			must(t, c.Down(t.Context(), "n5"))
			if diff := cmp.Diff([]string{"n1", "n2", "n3"}, c.Up()); diff != "" {
				t.Errorf("up (-want +got):\n%s", diff)
			}
			if n, heard := votes(aTakes); n != 3 || heard[3] != down("n4") || heard[4] != down("n5") {
				t.Errorf("run %d: with two down A hears %v", run, heard)
			}
			if n, heard := votes(bTakes); n != 0 || heard[0] != nil {
				t.Errorf("run %d: B hears %v", run, heard)
			}
			must(t, c.Down(t.Context(), "n3"))
			for _, node := range []string{"n3", "n4", "n5"} {
				must(t, c.Restart(t.Context(), node))
			}
			if got := c.Up(); len(got) != 5 {
				t.Errorf("up: %v", got)
			}
			// n3 has forgotten A's vote.
			if n, heard := votes(bTakes); n != 3 || heard[0] != nil || heard[2] != "OK" {
				t.Errorf("run %d: after the restart B hears %v", run, heard)
			}
			if got := ask(t, c, "n3", "EVAL release.lua 1 lock b"); got[0] != int64(1) {
				t.Errorf("run %d: a script after the restart = %v", run, got[0])
			}
			return nil
		}))
	}
}

func TestClusterOrders(t *testing.T) {
	s := openClusters(t, Options{})
	refused := func(what string, err error) {
		t.Helper()
		var author *CommandError
		if !errors.As(err, &author) {
			t.Errorf("%s: %v, want an author's error", what, err)
		}
	}
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		_, err := c.Do(t.Context(), "", "replica2", lines(t, "GET k"))
		refused("a server that is not there", err)
		refused("kill n1", c.Kill(t.Context(), "n1"))
		refused("cut the primary", c.Cut(t.Context(), "primary"))
		refused("promote the primary", c.Promote(t.Context(), "primary"))
		refused("up while up", c.Restart(t.Context(), "primary"))
		must(t, c.Cut(t.Context(), "replica"))
		refused("sync after the cut", c.Sync(t.Context(), "replica"))
		must(t, c.Kill(t.Context(), "replica"))
		refused("kill twice", c.Kill(t.Context(), "replica"))
		refused("promote the dead", c.Promote(t.Context(), "replica"))
		return nil
	}))
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		must(t, c.Promote(t.Context(), "replica"))
		refused("sync after the promotion", c.Sync(t.Context(), "replica"))
		must(t, c.Kill(t.Context(), "primary"))
		refused("sync without a primary", c.Sync(t.Context(), "replica"))
		return nil
	}))
	must(t, s.Independent(t.Context(), 2, func(c *Cluster) error {
		refused("cut an independent server", c.Cut(t.Context(), "n1"))
		refused("sync an independent server", c.Sync(t.Context(), "n2"))
		return nil
	}))
	for _, n := range []int{0, 8} {
		if err := s.Independent(t.Context(), n, nil); !errors.Is(err, ErrTooMuch) {
			t.Errorf("%d servers: %v", n, err)
		}
	}
	for _, n := range []int{0, 3} {
		if err := s.Replicated(t.Context(), n, nil); !errors.Is(err, ErrTooMuch) {
			t.Errorf("%d replicas: %v", n, err)
		}
	}
}

// TestOldPrimaryComesBack: it has forgotten everything, and a replica that still
// follows it forgets as well.
func TestOldPrimaryComesBack(t *testing.T) {
	s := openClusters(t, Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		ask(t, c, "primary", aTakes)
		must(t, c.Sync(t.Context(), "replica"))
		must(t, c.Kill(t.Context(), "primary"))
		must(t, c.Restart(t.Context(), "primary"))
		if got := ask(t, c, "primary", "DBSIZE"); got[0] != int64(0) {
			t.Errorf("it comes back with %v keys", got[0])
		}
		eventually(t, 20*time.Second, "the replica follows the primary into oblivion", func() bool {
			return ask(t, c, "replica", "GET lock")[0] == nil
		})
		return nil
	}))
}

// TestServersAreLentEmpty reuses servers that saw no fault, whatever the run
// before left on them.
func TestServersAreLentEmpty(t *testing.T) {
	s := openClusters(t, Options{})
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
	s := openClusters(t, Options{Clusters: 1})
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
	s := openClusters(t, Options{})
	var kept *Cluster
	must(t, s.Independent(t.Context(), 2, func(c *Cluster) error {
		kept = c
		return nil
	}))
	if _, err := kept.Do(t.Context(), "", "n1", lines(t, "SET k v")); !errors.Is(err, ErrDown) {
		t.Errorf("Do: %v, want ErrDown", err)
	}
	if err := kept.Kill(t.Context(), "n1"); !errors.Is(err, ErrDown) {
		t.Errorf("Kill: %v, want ErrDown", err)
	}
}

// TestServersOfACancelledRun calls a run off that waits, and leaves one behind.
func TestServersOfACancelledRun(t *testing.T) {
	s := openClusters(t, Options{Clusters: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var left sync.WaitGroup
	err := s.Independent(ctx, 2, func(c *Cluster) error {
		left.Go(func() {
			if _, err := c.Do(context.Background(), "", "n2", lines(t, "BLPOP none 0")); !errors.Is(err, ErrDown) && !errors.Is(err, ErrLate) {
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
	s := openClusters(t, Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		for _, node := range c.Nodes() {
			for _, words := range []string{
				"SELECT 0", "EVAL 'return 1' 0", "SCRIPT FLUSH", "FLUSHALL", "CONFIG GET masterauth", "REPLICAOF NO ONE", "PSYNC ? -1", "REPLCONF ACK 0",
				"ACL WHOAMI", "CLIENT LIST", "INFO", "SHUTDOWN NOSAVE", "FAILOVER", "DEBUG SLEEP 0", "FUNCTION LIST", "PUBLISH c m", "MONITOR",
			} {
				if e, ok := ask(t, c, node, words)[0].(Error); !ok || e.Code() != "NOPERM" && e.Code() != "ERR" {
					t.Errorf("%s: %s = %v, want NOPERM", node, words, e)
				}
			}
		}
		// Nor does anybody get in by the relay.
		conn, err := (&instance{network: "tcp", addr: c.set.members[1].relay.listener.Addr().String()}).connect(t.Context())
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

// TestKilledFromOutside kills each server at each step of a failover. What then
// fails says so, and no process is left.
func TestKilledFromOutside(t *testing.T) {
	s := openClusters(t, Options{Answer: 5 * time.Second})
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
			var author *CommandError
			if err != nil && !errors.Is(err, ErrDown) && !errors.As(err, &author) {
				t.Errorf("%s dies before %q: %v, want ErrDown", victim, steps[at].name, err)
			}
			t.Logf("%s dies before %q: %v", victim, steps[at].name, err)
			ends(t, pids)
		}
	}
}

// TestHungServer stops a server that a run then asks.
func TestHungServer(t *testing.T) {
	s := openClusters(t, Options{Answer: 300 * time.Millisecond})
	var pids map[string]int
	err := s.Independent(t.Context(), 2, func(c *Cluster) error {
		pids = c.set.pids()
		signal(t, pids["n2"], syscall.SIGSTOP)
		_, err := c.Do(t.Context(), "", "n2", lines(t, "GET k"))
		return err
	})
	if !errors.Is(err, ErrLate) {
		t.Errorf("err = %v, want ErrLate", err)
	}
	ends(t, pids)
}

// TestDeadAtRest kills servers that nobody has.
func TestDeadAtRest(t *testing.T) {
	s := openClusters(t, Options{})
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

// TestFleetIsBounded has many ask at once, for servers of every shape.
func TestFleetIsBounded(t *testing.T) {
	const most = 2
	s := openClusters(t, Options{Clusters: most, Wait: time.Minute})
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
				fleet := s.clusters.fleet(c.set.what)
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
	for _, fleet := range []*fleet{s.clusters.replicated, s.clusters.independent} {
		eventually(t, 20*time.Second, "the fleet is at rest", func() bool {
			fleet.mu.Lock()
			defer fleet.mu.Unlock()
			return len(fleet.lent) == 0 && fleet.start == nil && len(fleet.all) == len(fleet.rest) && len(fleet.all) <= most
		})
	}
}

func TestBusyServers(t *testing.T) {
	s := openClusters(t, Options{Clusters: 1, Wait: 20 * time.Millisecond})
	must(t, s.Independent(t.Context(), 2, func(*Cluster) error {
		for range 3 { // a refusal must not make room
			if err := s.Independent(t.Context(), 2, nil); !errors.Is(err, ErrBusy) {
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

// TestReplacedInTheBackground: after a fault the next run finds others, and the
// old ones are gone.
func TestReplacedInTheBackground(t *testing.T) {
	s := openClusters(t, Options{})
	var old map[string]int
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		old = c.set.pids()
		return c.Cut(t.Context(), "replica")
	}))
	ends(t, old)
	fleet := s.clusters.replicated
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
	s := openClusters(t, Options{})
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
	dir := s.clusters.dir
	must(t, s.Close())
	if err := <-done; !errors.Is(err, ErrDown) {
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
	if err := s.Replicated(t.Context(), 1, nil); !errors.Is(err, ErrDown) {
		t.Errorf("after Close: %v, want ErrDown", err)
	}
}

// TestCloseWhileStarting closes before the first set is there.
func TestCloseWhileStarting(t *testing.T) {
	s := openClusters(t, Options{})
	done := make(chan error)
	go func() {
		done <- s.Independent(context.Background(), 5, func(c *Cluster) error {
			_, err := c.Do(context.Background(), "", "n1", lines(t, "GET k"))
			return err
		})
	}()
	eventually(t, 20*time.Second, "a start is under way", func() bool {
		s.clusters.independent.mu.Lock()
		defer s.clusters.independent.mu.Unlock()
		return s.clusters.independent.start != nil
	})
	must(t, s.Close())
	if err := <-done; !errors.Is(err, ErrDown) && err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestNoClusters(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	s := open(t, Options{Server: "embedded", EmbeddedCommand: []string{self, "embedded-server"}})
	if s.Clusters() {
		t.Error("the simulated server is several")
	}
	if err := s.Replicated(t.Context(), 1, nil); !errors.Is(err, ErrOneServer) {
		t.Errorf("Replicated: %v", err)
	}
	if err := s.Independent(t.Context(), 5, nil); !errors.Is(err, ErrOneServer) {
		t.Errorf("Independent: %v", err)
	}
	if !openClusters(t, Options{}).Clusters() {
		t.Error("a server of the sandbox's own is not several")
	}
}

// holdClusters opens a sandbox, has servers of every kind, says which processes
// they are, and waits to be killed.
func holdClusters() {
	s, err := Open(context.Background(), Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	hold := func(c *Cluster) error {
		fmt.Print("ready")
		for _, pid := range c.set.pids() {
			fmt.Print(" ", pid)
		}
		fmt.Println()
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
	must(t, open(t, Options{}).Close())
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// BenchmarkClusters also tells how long what is lent takes by itself: a run that
// saw a fault waits for the next set to be started.
func BenchmarkClusters(b *testing.B) {
	s := openClusters(b, Options{Scripts: scripts})
	measure := func(name, what string, lend func(f func(*Cluster) error) error, f func(*Cluster)) {
		b.Run(name, func(b *testing.B) {
			must(b, lend(func(*Cluster) error { return nil })) // the first are started
			var within time.Duration
			b.ResetTimer()
			for range b.N {
				must(b, lend(func(c *Cluster) error {
					begun := time.Now()
					f(c)
					within += time.Since(begun)
					return nil
				}))
			}
			b.ReportMetric(float64(within.Microseconds())/float64(b.N), "µs/"+what)
		})
	}
	pair := func(f func(*Cluster) error) error { return s.Replicated(b.Context(), 1, f) }
	five := func(f func(*Cluster) error) error { return s.Independent(b.Context(), 5, f) }
	measure("pair", "nothing", pair, func(*Cluster) {})
	measure("five", "nothing", five, func(*Cluster) {})
	measure("failover", "failover", pair, func(c *Cluster) {
		must(b, c.Cut(b.Context(), "replica"))
		ask(b, c, "primary", aTakes)
		must(b, c.Kill(b.Context(), "primary"))
		must(b, c.Promote(b.Context(), "replica"))
		ask(b, c, "replica", bTakes)
	})
	measure("majority", "majority", five, func(c *Cluster) {
		for _, node := range c.Nodes() {
			ask(b, c, node, aTakes)
		}
	})
	measure("two-down", "majority", five, func(c *Cluster) {
		must(b, c.Down(b.Context(), "n4"))
		must(b, c.Down(b.Context(), "n5"))
		for _, node := range c.Nodes() {
			ask(b, c, node, aTakes)
		}
	})
	measure("restart", "restart", five, func(c *Cluster) {
		must(b, c.Down(b.Context(), "n1"))
		must(b, c.Restart(b.Context(), "n1"))
	})
}
