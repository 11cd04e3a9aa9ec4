package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"lockstep/sandbox"
	"lockstep/sandbox/server"

	"github.com/google/go-cmp/cmp"
)

// inARow is how often a claim about faults has to hold, one run after another.
func inARow() int {
	if testing.Short() {
		return 3
	}
	return 20
}

// openClusters opens a sandbox with generous bounds: these tests are about what
// happens, and other things may keep the machine busy.
func openClusters(t testing.TB, opt server.Options) *lent {
	t.Helper()
	if opt.Wait == 0 {
		opt.Wait = 20 * time.Second
	}
	if opt.Answer == 0 {
		opt.Answer = 20 * time.Second
	}
	return openSets(t, 2, opt)
}

// ask sends lines to one server.
func ask(t testing.TB, c *Cluster, node string, texts ...string) []sandbox.Value {
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
func down(node string) sandbox.Value { return sandbox.Error("DOWN " + node + " does not answer") }

// pids gives the processes of a set.
func (t *set) pids() map[string]int {
	all := map[string]int{}
	for _, m := range t.members {
		inst := m.now()
		if inst == nil {
			continue
		}
		info, err := inst.Admin.Info(context.Background(), "server").Result()
		if err != nil {
			continue
		}
		all[m.name], _ = strconv.Atoi(server.InfoField(info, "process_id"))
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
	s := openClusters(t, server.Options{})
	for run := range inARow() {
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			must(t, c.Cut(t.Context(), "replica"))
			a := ask(t, c, "primary", aTakes)
			must(t, c.Kill(t.Context(), "primary"))
			must(t, c.Promote(t.Context(), "replica"))
			b := ask(t, c, "replica", bTakes)
			late := ask(t, c, "primary", "GET lock", "PTTL lock")
			if diff := cmp.Diff([]sandbox.Value{"OK", "OK", down("primary"), down("primary")}, append(append(a, b...), late...)); diff != "" {
				t.Errorf("run %d: A, B, and A once more (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

func TestFailoverKeepsTheLock(t *testing.T) {
	s := openClusters(t, server.Options{})
	for run := range inARow() {
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			a := ask(t, c, "primary", aTakes)
			must(t, c.Sync(t.Context(), "replica"))
			must(t, c.Kill(t.Context(), "primary"))
			must(t, c.Promote(t.Context(), "replica"))
			b := ask(t, c, "replica", bTakes, "GET lock", "EVAL release.lua 1 lock b", "EVAL release.lua 1 lock a", bTakes)
			if diff := cmp.Diff([]sandbox.Value{"OK", nil, "a", int64(0), int64(1), "OK"}, append(a, b...)); diff != "" {
				t.Errorf("run %d: A, then B (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

// TestCutIsExact writes before and after the cut: all of the one is at the
// replica, and nothing of the other.
func TestCutIsExact(t *testing.T) {
	s := openClusters(t, server.Options{})
	for run := range inARow() {
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
			if diff := cmp.Diff([]sandbox.Value{"200", nil}, got); diff != "" {
				t.Errorf("run %d (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

func TestWait(t *testing.T) {
	s := openClusters(t, server.Options{})
	for run := range inARow() {
		must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
			got := ask(t, c, "primary", "SET k 1", "WAIT 1 20000")
			if diff := cmp.Diff([]sandbox.Value{"OK", int64(1)}, got); diff != "" {
				t.Errorf("run %d: acknowledged (-want +got):\n%s", run, diff)
			}
			must(t, c.Cut(t.Context(), "replica"))
			got = append(ask(t, c, "primary", "SET k 2"), ask(t, c, "primary", "WAIT 1 20")...)
			if diff := cmp.Diff([]sandbox.Value{"OK", int64(0)}, got); diff != "" {
				t.Errorf("run %d: cut off (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

// TestWaitDoesNotClose loses a lock that a replica has acknowledged: another one
// is promoted.
func TestWaitDoesNotClose(t *testing.T) {
	s := openClusters(t, server.Options{})
	for run := range inARow() {
		must(t, s.Replicated(t.Context(), 2, func(c *Cluster) error {
			must(t, c.Cut(t.Context(), "replica2"))
			got := ask(t, c, "primary", aTakes, "WAIT 1 20000")
			must(t, c.Kill(t.Context(), "primary"))
			must(t, c.Promote(t.Context(), "replica2"))
			got = append(got, ask(t, c, "replica2", bTakes)...)
			got = append(got, ask(t, c, "replica", "GET lock")...)
			if diff := cmp.Diff([]sandbox.Value{"OK", int64(1), "OK", "a"}, got); diff != "" {
				t.Errorf("run %d (-want +got):\n%s", run, diff)
			}
			return nil
		}))
	}
}

// TestLeaseSurvivesPromotion: the clock of a lease goes on.
func TestLeaseSurvivesPromotion(t *testing.T) {
	s := openClusters(t, server.Options{})
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
	s := openClusters(t, server.Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		ask(t, c, "primary", "SET k v PX 30000")
		must(t, c.Sync(t.Context(), "replica"))
		for range 3 { // wherever in a pipeline it stands
			got := ask(t, c, "replica", "SET k x", "GET k", "EVAL release.lua 1 k v", "GET k")
			for _, i := range []int{0, 2} {
				if e, ok := got[i].(sandbox.Error); !ok || e.Code() != "READONLY" {
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
		if e, ok := got[0].(sandbox.Error); !ok || e.Code() != "READONLY" || got[1] != "v" || got[3] != nil {
			t.Errorf("a script's refused write, GET k, the same, GET none = %v", got)
		}
		return nil
	}))
}

// TestOwnScriptsOnServers peeks, lapses and fingerprints on each server.
func TestOwnScriptsOnServers(t *testing.T) {
	s := openClusters(t, server.Options{})
	must(t, s.Replicated(t.Context(), 1, func(c *Cluster) error {
		ask(t, c, "primary", "SET k v PX 30000")
		must(t, c.Sync(t.Context(), "replica"))
		var states []sandbox.Value
		for _, node := range c.Nodes() {
			got, err := c.Do(t.Context(), "", node, []sandbox.Command{sandbox.Peek("k"), sandbox.Peek("none"), sandbox.State()})
			must(t, err)
			k := got[0].([]any)
			if lease, _ := k[2].(int64); k[0] != "string" || k[1] != "v" || lease < 1 || lease > 30000 {
				t.Errorf("%s: k = %v", node, k)
			}
			if diff := cmp.Diff(sandbox.Value([]any{"none", nil, int64(-2)}), got[1]); diff != "" {
				t.Errorf("%s: none (-want +got):\n%s", node, diff)
			}
			states = append(states, got[2].([]any)[1])
		}
		if diff := cmp.Diff([]sandbox.Value{int64(1), int64(1)}, states); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		got, err := c.Do(t.Context(), "", "primary", []sandbox.Command{sandbox.Lapse("k"), sandbox.Peek("k")})
		must(t, err)
		if diff := cmp.Diff([]sandbox.Value{int64(1), []any{"none", nil, int64(-2)}}, got); diff != "" {
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
	s := openClusters(t, server.Options{})
	for run := range inARow() {
		must(t, s.Independent(t.Context(), 5, func(c *Cluster) error {
			if diff := cmp.Diff([]string{"n1", "n2", "n3", "n4", "n5"}, c.Nodes()); diff != "" {
				t.Fatal(diff)
			}
			votes := func(command string) (granted int, heard []sandbox.Value) {
				for _, node := range c.Nodes() {
					v := ask(t, c, node, command)[0]
					if heard = append(heard, v); v == "OK" {
						granted++
					}
				}
				return granted, heard
			}
			must(t, c.Kill(t.Context(), "n4"))
			must(t, c.Kill(t.Context(), "n5"))
			if diff := cmp.Diff([]string{"n1", "n2", "n3"}, c.Up()); diff != "" {
				t.Errorf("up (-want +got):\n%s", diff)
			}
			if n, heard := votes(aTakes); n != 3 || heard[3] != down("n4") || heard[4] != down("n5") {
				t.Errorf("run %d: with two down A hears %v", run, heard)
			}
			if n, heard := votes(bTakes); n != 0 || heard[0] != nil {
				t.Errorf("run %d: B hears %v", run, heard)
			}
			must(t, c.Kill(t.Context(), "n3"))
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
	s := openClusters(t, server.Options{})
	refused := func(what string, err error) {
		t.Helper()
		var author *sandbox.CommandError
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
		if err := s.Independent(t.Context(), n, nil); !errors.Is(err, sandbox.ErrTooMuch) {
			t.Errorf("%d servers: %v", n, err)
		}
	}
	for _, n := range []int{0, 3} {
		if err := s.Replicated(t.Context(), n, nil); !errors.Is(err, sandbox.ErrTooMuch) {
			t.Errorf("%d replicas: %v", n, err)
		}
	}
}

// TestOldPrimaryComesBack: it has forgotten everything, and a replica that still
// follows it forgets as well.
func TestOldPrimaryComesBack(t *testing.T) {
	s := openClusters(t, server.Options{})
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

// BenchmarkClusters also tells how long what is lent takes by itself: a run that
// saw a fault waits for the next set to be started.
func BenchmarkClusters(b *testing.B) {
	s := openClusters(b, server.Options{Scripts: scripts})
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
		must(b, c.Kill(b.Context(), "n4"))
		must(b, c.Kill(b.Context(), "n5"))
		for _, node := range c.Nodes() {
			ask(b, c, node, aTakes)
		}
	})
	measure("restart", "restart", five, func(c *Cluster) {
		must(b, c.Kill(b.Context(), "n1"))
		must(b, c.Restart(b.Context(), "n1"))
	})
}
