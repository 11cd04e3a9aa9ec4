package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/sandbox"
)

func TestValues(t *testing.T) {
	s := open(t, Options{})
	got := do(t, s,
		"SET a x NX PX 30000", "SET a y NX", "INCR n", "LPUSH a 1", "MGET a none n", "GET none",
		"EVAL release.lua 1 a y", "EVAL release.lua 1 a x", "EVAL fail.lua 0", "LPUSH")
	want := []sandbox.Value{
		"OK", nil, int64(1), sandbox.Error("WRONGTYPE Operation against a key holding the wrong kind of value"),
		[]any{"x", nil, "1"}, nil, int64(0), int64(1), sandbox.Error("EMQSTALE token mismatch"),
		sandbox.Error("ERR wrong number of arguments for 'lpush' command"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if code := got[8].(sandbox.Error).Code(); code != "EMQSTALE" {
		t.Errorf("code = %q", code)
	}
}

func TestPeekLapseState(t *testing.T) {
	s := open(t, Options{})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		got, err := db.Do(t.Context(), append(lines(t,
			"SET s v PX 30000", "HSET h b 2 a 1", "RPUSH l y x", "SADD set b a", "ZADD z 2 b 1.5 a"),
			sandbox.Peek("s"), sandbox.Peek("h"), sandbox.Peek("l"), sandbox.Peek("set"), sandbox.Peek("z"), sandbox.Peek("none"),
			sandbox.Lapse("none"), sandbox.Lapse("h"), sandbox.Lapse("s"), sandbox.Peek("s")))
		if err != nil {
			return err
		}
		lease := got[5].([]any)[2].(int64)
		if lease < 29000 || lease > 30000 {
			t.Errorf("lease = %d", lease)
		}
		want := []sandbox.Value{
			[]any{"string", "v", lease},
			[]any{"hash", []any{"b", "2", "a", "1"}, int64(-1)},
			[]any{"list", []any{"y", "x"}, int64(-1)},
			[]any{"set", []any{"a", "b"}, int64(-1)},
			[]any{"zset", []any{"a", "1.5", "b", "2"}, int64(-1)},
			[]any{"none", nil, int64(-2)},
			int64(0), int64(-1), int64(1),
			[]any{"none", nil, int64(-2)},
		}
		if diff := cmp.Diff(want, got[5:]); diff != "" {
			t.Errorf("values (-want +got):\n%s", diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestState(t *testing.T) {
	s := open(t, Options{})
	soon := time.Now().Add(40 * time.Second).UnixMilli()
	state := func(texts ...string) (string, int64, int64) {
		t.Helper()
		var got []any
		err := s.Use(t.Context(), func(db *sandbox.DB) error {
			values, err := db.Do(t.Context(), append(lines(t, texts...), sandbox.State()))
			if err != nil {
				return err
			}
			for i, v := range values {
				if e, ok := v.(sandbox.Error); ok {
					return fmt.Errorf("command %d: %s", i, e)
				}
			}
			got = values[len(values)-1].([]any)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got[0].(string), got[1].(int64), got[2].(int64)
	}
	same := [][2][]string{
		{{"SET a 1", "SET b 2"}, {"SET b 2", "SET a 1"}},
		{{"HSET h x 1 y 2"}, {"HSET h y 2 x 1"}},
		{{"SADD s x y"}, {"SADD s y x"}},
		{{"SET a 1 PX 29999"}, {"SET a 1 PX 29500"}},
		{{fmt.Sprint("ZADD z ", soon, " m")}, {fmt.Sprint("ZADD z ", soon-5, " m")}},
		{{fmt.Sprint("HSET h at ", soon)}, {fmt.Sprint("HSET h at ", soon-5)}},
	}
	for _, pair := range same {
		a, _, _ := state(pair[0]...)
		b, _, _ := state(pair[1]...)
		if a != b {
			// A second may have begun between the two: then they agree next time.
			a, _, _ = state(pair[0]...)
			b, _, _ = state(pair[1]...)
		}
		if a != b {
			t.Errorf("%q and %q differ", pair[0], pair[1])
		}
	}
	different := [][2][]string{
		{{"SET a 1"}, {"SET a 2"}},
		{{"SET a 1"}, {"SET a 1 PX 30000"}},
		{{"SET a 1 PX 10000"}, {"SET a 1 PX 20000"}},
		{{"RPUSH l x y"}, {"RPUSH l y x"}},
		{{"RPUSH l xy"}, {"RPUSH l x y"}},
		{{"HSET h a b"}, {"RPUSH h a b"}},
		{{"ZADD z 1 a"}, {"ZADD z 2 a"}},
		{{fmt.Sprint("ZADD z ", soon, " m")}, {fmt.Sprint("ZADD z ", soon+20000, " m")}},
		{{"SET a 1"}, {"SET a 1", "SET b 1"}},
	}
	for _, pair := range different {
		a, _, _ := state(pair[0]...)
		b, _, _ := state(pair[1]...)
		if a == b {
			t.Errorf("%q and %q are one state", pair[0], pair[1])
		}
	}
	if _, keys, lease := state("SET a 1", "SET b 1 PX 30000", "SET c 1 PX 500"); keys != 3 || lease < 1 || lease > 500 {
		t.Errorf("keys = %d, shortest lease = %d", keys, lease)
	}
	if _, keys, lease := state(); keys != 0 || lease != -1 {
		t.Errorf("empty: keys = %d, shortest lease = %d", keys, lease)
	}
}

// TestIsolation runs 500 at once, each of which sees its own keys only.
func TestIsolation(t *testing.T) {
	s := open(t, Options{Wait: 30 * time.Second, Answer: 20 * time.Second})
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			err := s.Use(t.Context(), func(db *sandbox.DB) error {
				me := fmt.Sprint("run", i)
				got, err := db.Do(t.Context(), []sandbox.Command{
					sandbox.Cmd("DBSIZE"), sandbox.Cmd("SET", "lock", me, "NX", "PX", "30000"), sandbox.Cmd("EVAL", "release.lua", "1", "lock", "else"), sandbox.Cmd("GET", "lock"),
				})
				if err != nil {
					return err
				}
				if diff := cmp.Diff([]sandbox.Value{int64(0), "OK", int64(0), me}, got); diff != "" {
					t.Errorf("run %d (-want +got):\n%s", i, diff)
				}
				switch i % 5 {
				case 1: // dies in a transaction
					_, err = db.Do(t.Context(), lines(t, "MULTI", "SET lock half", "WATCH x"))
				case 2: // on a connection of its own
					conn, err := db.Conn(t.Context())
					if err != nil {
						return err
					}
					if got, err := conn.Do(t.Context(), lines(t, "GET lock", "MULTI", "SET lock half")); err != nil || got[0] != me {
						t.Errorf("run %d: its own connection sees %v, %v", i, got, err)
					}
				case 3: // is called off while it blocks
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Millisecond, cancel)
					_, err = db.Do(ctx, lines(t, "BLPOP none 0", "SET lock late"))
					if !errors.Is(err, context.Canceled) {
						t.Errorf("run %d: %v, want called off", i, err)
					}
					return nil
				case 4: // fails
					return errors.New("an error of the run's own")
				}
				return err
			})
			if i%5 == 4 && err != nil && err.Error() == "an error of the run's own" {
				err = nil
			}
			if err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func TestDiesInTransaction(t *testing.T) {
	s := open(t, Options{slots: 1})
	for range 3 {
		got := do(t, s, "GET a", "SET a 1", "MULTI", "SET a 2")
		if diff := cmp.Diff([]sandbox.Value{nil, "OK", "OK", "QUEUED"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestConnSeesEmptyDatabase opens a connection before anything was sent: what
// the last run left must be gone by then.
func TestConnSeesEmptyDatabase(t *testing.T) {
	s := open(t, Options{slots: 1})
	do(t, s, "SET a left")
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		got, err := conn.Do(t.Context(), lines(t, "GET a", "SET a own"))
		if err != nil {
			return err
		}
		if diff := cmp.Diff([]sandbox.Value{nil, "OK"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// And the shared connection doesn't empty it again.
		got, err = db.Do(t.Context(), lines(t, "GET a"))
		if err != nil || got[0] != "own" {
			t.Errorf("GET a = %v, %v", got, err)
		}
		got, err = db.Do(t.Context(), append(lines(t), sandbox.Flush(), line(t, "GET a")))
		if err != nil || got[1] != nil {
			t.Errorf("after Flush GET a = %v, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTransactionOnConn(t *testing.T) {
	s := open(t, Options{})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		if _, err := conn.Do(t.Context(), lines(t, "SET a 1", "WATCH a")); err != nil {
			return err
		}
		if _, err := db.Do(t.Context(), lines(t, "SET a 2")); err != nil {
			return err
		}
		got, err := conn.Do(t.Context(), lines(t, "MULTI", "SET a 3", "EXEC", "MULTI", "LPUSH a 1", "GET a", "EXEC", "MULTI", "NOSUCH", "EXEC"))
		if err != nil {
			return err
		}
		want := []sandbox.Value{
			"OK", "QUEUED", nil,
			"OK", "QUEUED", "QUEUED", []any{sandbox.Error("WRONGTYPE Operation against a key holding the wrong kind of value"), "2"},
			"OK", got[8], sandbox.Error("EXECABORT Transaction discarded because of previous errors."),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBusy(t *testing.T) {
	s := open(t, Options{slots: 1, Wait: 20 * time.Millisecond})
	err := s.Use(t.Context(), func(*sandbox.DB) error {
		for range 3 { // a refusal must not mint a slot
			if err := s.Use(t.Context(), func(*sandbox.DB) error { return nil }); !errors.Is(err, sandbox.ErrBusy) {
				t.Errorf("second run: %v, want ErrBusy", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Use(ctx, func(*sandbox.DB) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("called off: %v", err)
		}
		// Explorations have databases of their own.
		return s.Lend(t.Context(), 2, func(dbs []*sandbox.DB) error {
			_, err := dbs[1].Do(t.Context(), lines(t, "SET a 1"))
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	do(t, s, "GET a")
}

func TestLend(t *testing.T) {
	s := open(t, Options{explorations: 1, Wait: 20 * time.Millisecond})
	for round := range 2 {
		err := s.Lend(t.Context(), 3, func(dbs []*sandbox.DB) error {
			if err := s.Lend(t.Context(), 1, nil); !errors.Is(err, sandbox.ErrBusy) {
				t.Errorf("a second exploration: %v, want ErrBusy", err)
			}
			var history []sandbox.Command
			for range 3000 {
				history = append(history, sandbox.Flush(), sandbox.Cmd("INCR", "n"), sandbox.Cmd("SET", "lock", "a", "NX"))
			}
			var wg sync.WaitGroup
			for i, db := range dbs {
				wg.Go(func() {
					got, err := db.Do(t.Context(), []sandbox.Command{sandbox.Cmd("GET", "n")})
					if err != nil || got[0] != nil {
						t.Errorf("round %d, database %d: GET n = %v, %v", round, i, got, err)
					}
					got, err = db.Do(t.Context(), history)
					if err != nil {
						t.Errorf("database %d: %v", i, err)
						return
					}
					for j := 0; j < len(got); j += 3 {
						if got[j] != "OK" || got[j+1] != int64(1) || got[j+2] != "OK" {
							t.Fatalf("database %d at %d: %v", i, j, got[j:j+3])
						}
					}
				})
			}
			wg.Wait()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Lend(t.Context(), lanes+1, nil); !errors.Is(err, sandbox.ErrTooMuch) {
		t.Errorf("too many databases: %v", err)
	}
}

func TestDeadline(t *testing.T) {
	s := open(t, Options{slots: 1, Answer: 5 * time.Second, Wait: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := s.Use(ctx, func(db *sandbox.DB) error {
		_, err := db.Do(ctx, lines(t, "BLPOP none 3"))
		return err
	})
	if !errors.Is(err, sandbox.ErrLate) {
		t.Errorf("err = %v, want ErrLate", err)
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("took %v", took)
	}
	do(t, s, "GET a")
}

func TestCancelBlocked(t *testing.T) {
	s := open(t, Options{slots: 1, Wait: time.Second})
	for _, own := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		var called time.Time
		err := s.Use(ctx, func(db *sandbox.DB) error {
			send := db.Do
			if own {
				conn, err := db.Conn(ctx)
				if err != nil {
					return err
				}
				send = conn.Do
			}
			time.AfterFunc(20*time.Millisecond, func() {
				called = time.Now()
				cancel()
			})
			_, err := send(ctx, lines(t, "BLPOP none 0"))
			return err
		})
		if took := time.Since(called); took > 100*time.Millisecond {
			t.Errorf("own=%v: returned %v after it was called off", own, took)
		}
		if !errors.Is(err, context.Canceled) || errors.Is(err, sandbox.ErrLate) {
			t.Errorf("own=%v: err = %v, want called off", own, err)
		}
		// The one slot comes back, and nothing of the old run reaches it.
		do(t, s, "LPUSH none x", "GET a")
		if got := do(t, s, "LLEN none"); got[0] != int64(0) {
			t.Errorf("own=%v: LLEN none = %v", own, got[0])
		}
	}
}

// TestCrash cuts a connection that blocks: what comes after must not be given to
// the dead.
func TestCrash(t *testing.T) {
	s := open(t, Options{})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		gone := make(chan error)
		go func() {
			_, err := conn.Do(t.Context(), lines(t, "BLPOP q 0"))
			gone <- err
		}()
		eventually(t, 5*time.Second, "the actor blocks", func() bool {
			inst, err := s.keeper.current()
			if err != nil {
				t.Fatal(err)
			}
			info, err := inst.Admin.Info(t.Context(), "clients").Result()
			return err == nil && InfoField(info, "blocked_clients") == "1"
		})
		conn.Close()
		if err := <-gone; err == nil {
			t.Error("the blocked command succeeded")
		}
		got, err := db.Do(t.Context(), lines(t, "RPUSH q x", "LLEN q"))
		if err != nil {
			return err
		}
		if got[1] != int64(1) {
			t.Errorf("LLEN q = %v: the dead actor took the element", got[1])
		}
		if _, err := conn.Do(t.Context(), lines(t, "GET a")); !errors.Is(err, sandbox.ErrDown) {
			t.Errorf("a command on a closed connection: %v", err)
		}
		conn.Close()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSlotReturnedAfterPanic(t *testing.T) {
	s := open(t, Options{slots: 1})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = s.Use(t.Context(), func(db *sandbox.DB) error {
				if _, err := db.Do(t.Context(), lines(t, "SET a 1", "MULTI")); err != nil {
					t.Error(err)
				}
				panic("a run panics")
			})
		}()
		if got := do(t, s, "GET a"); got[0] != nil {
			t.Errorf("GET a = %v", got[0])
		}
	}
}

func TestUsedAfterReturn(t *testing.T) {
	s := open(t, Options{})
	var kept *sandbox.DB
	var conn *sandbox.Conn
	err := s.Use(t.Context(), func(db *sandbox.DB) (err error) {
		kept = db
		conn, err = db.Conn(t.Context())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Do(t.Context(), lines(t, "SET a 1")); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("DB.Do after Use: %v", err)
	}
	if _, err := kept.Conn(t.Context()); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("DB.Conn after Use: %v", err)
	}
	if _, err := conn.Do(t.Context(), lines(t, "SET a 1")); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("Conn.Do after Use: %v", err)
	}
}

func TestBounds(t *testing.T) {
	s := open(t, Options{slots: 1, replyBytes: 10_000, Commands: 5, Wait: time.Second})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		if _, err := db.Do(t.Context(), lines(t, "PING", "PING", "PING", "PING", "PING", "PING")); !errors.Is(err, sandbox.ErrTooMuch) {
			t.Errorf("six commands: %v, want ErrTooMuch", err)
		}
		if _, err := db.Do(t.Context(), lines(t, "EVAL long.lua 0 9000")); err != nil {
			t.Errorf("9,000 bytes: %v", err)
		}
		_, err := db.Do(t.Context(), lines(t, "EVAL long.lua 0 900000"))
		return err
	})
	if !errors.Is(err, sandbox.ErrTooMuch) {
		t.Errorf("900,000 bytes: %v, want ErrTooMuch", err)
	}
	do(t, s, "GET a")
}

// TestScriptStaysInItsDatabase tries what a script must not do.
func TestScriptStaysInItsDatabase(t *testing.T) {
	s := open(t, Options{})
	for _, words := range []string{
		"SELECT 3", "CONFIG GET maxmemory", "EVAL 'return 1' 0", "SCRIPT FLUSH", "FLUSHALL", "SWAPDB 0 1", "MOVE a 1",
		"COPY a b DB 3", "ACL WHOAMI", "CLIENT LIST", "PUBLISH c m", "INFO", "SHUTDOWN NOSAVE", "DEBUG SLEEP 1", "FUNCTION LIST",
		"MIGRATE 127.0.0.1 1 a 0 1", "SCAN 0", "MONITOR", "REPLICAOF NO ONE", "AUTH admin x",
	} {
		got := do(t, s, "SET a 1", "EVAL call.lua 0 "+words)
		if e, ok := got[1].(sandbox.Error); !ok {
			t.Errorf("redis.call of %s = %v, want an error", words, got[1])
		} else if !forbidden(string(e)) {
			t.Errorf("redis.call of %s = %s", words, e)
		}
		if strings.HasPrefix(words, "AUTH") {
			continue // anybody may, who has the password
		}
		direct := do(t, s, words)
		if e, ok := direct[0].(sandbox.Error); !ok || e.Code() != "NOPERM" && !strings.Contains(string(e), "not allowed") {
			t.Errorf("%s = %v, want NOPERM", words, direct[0])
		}
	}
	if got := do(t, s, "PING"); got[0] != "PONG" {
		t.Errorf("PING = %v", got[0])
	}
}

func TestDefaultUserIsOff(t *testing.T) {
	s := open(t, Options{})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		_, err = conn.Do(t.Context(), lines(t, "RESET", "FLUSHALL"))
		return err
	})
	if !errors.Is(err, sandbox.ErrDown) || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("after RESET: %v, want NOAUTH", err)
	}
	do(t, s, "GET a")
}

// TestScriptFlush loses the scripts; the run is done anew, so that its commands
// are not carried out twice in one database.
func TestScriptFlush(t *testing.T) {
	s := open(t, Options{slots: 1})
	inst, err := s.keeper.current()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := inst.Admin.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		got := do(t, s, "INCR n", "SET lock me", "EVAL release.lua 1 lock me", "INCR n")
		if diff := cmp.Diff([]sandbox.Value{int64(1), "OK", int64(1), int64(2)}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if err := inst.Admin.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	runs := 0
	err = s.Use(t.Context(), func(db *sandbox.DB) error {
		runs++
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		got, err := conn.Do(t.Context(), append(lines(t, "INCR n"), sandbox.State()))
		if err == nil && got[0] != int64(1) {
			t.Errorf("INCR n = %v", got[0])
		}
		return err
	})
	if err != nil || runs != 2 {
		t.Errorf("own connection: %v after %d runs", err, runs)
	}
}

func TestUnknownScript(t *testing.T) {
	s := open(t, Options{})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		_, err := db.Do(t.Context(), lines(t, "EVAL nosuch.lua 0"))
		return err
	})
	if err == nil || errors.Is(err, sandbox.ErrDown) || !strings.Contains(err.Error(), "nosuch.lua") {
		t.Errorf("err = %v", err)
	}
}

func TestBrokenScript(t *testing.T) {
	needServer(t)
	_, err := Open(t.Context(), Options{Scripts: map[string]string{"broken.lua": "this is no Lua"}})
	if err == nil || !strings.Contains(err.Error(), "broken.lua") {
		t.Errorf("err = %v, want broken.lua named", err)
	}
}

func TestReceived(t *testing.T) {
	s := open(t, Options{})
	if inst, err := s.keeper.current(); err != nil || !inst.Counts {
		t.Skip("this server does not count commands by connection")
	}
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		a, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		b, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		// Six timers, and one sweep that does five things inside.
		for range 6 {
			if _, err := a.Do(t.Context(), lines(t, "EVAL many.lua 1 k")); err != nil {
				return err
			}
		}
		if _, err := b.Do(t.Context(), append(lines(t, "EVAL many.lua 1 k"), sandbox.Peek("k"))); err != nil {
			return err
		}
		for _, actor := range []struct {
			conn *sandbox.Conn
			want int64
		}{{a, 6}, {b, 1}, {a, 6}} {
			if got, err := actor.conn.Received(t.Context()); got != actor.want || err != nil {
				t.Errorf("received %d, %v; want %d", got, err, actor.want)
			}
		}
		if _, err := a.Do(t.Context(), lines(t, "MULTI", "SET k 1", "EXEC", "GET k", "LPUSH k 1")); err != nil {
			return err
		}
		if got, err := a.Received(t.Context()); got != 11 || err != nil {
			t.Errorf("received %d, %v; want 11", got, err)
		}
		if _, err := a.Do(t.Context(), lines(t, "MULTI", "EVAL many.lua 1 k", "EXEC")); err != nil {
			return err
		}
		if _, err := a.Received(t.Context()); !errors.Is(err, sandbox.ErrUncounted) {
			t.Errorf("a script within a transaction: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEngine(t *testing.T) {
	s := open(t, Options{})
	e := s.Engine()
	if e.Name != "valkey" && e.Name != "redis" || e.Version == "" || e.Mode != sandbox.Managed || e.Simulated() {
		t.Errorf("engine = %+v", e)
	}
	text, err := json.Marshal(sandbox.Engine{Name: "valkey", Version: "8.0.1", Mode: sandbox.Managed})
	if err != nil || string(text) != `{"name":"valkey","version":"8.0.1","mode":"managed"}` {
		t.Errorf("JSON = %s, %v", text, err)
	}
	var back sandbox.Engine
	if err := json.Unmarshal([]byte(`{"name":"miniredis","version":"2","mode":"embedded"}`), &back); err != nil || back.Mode != sandbox.Embedded {
		t.Errorf("back = %+v, %v", back, err)
	}
	if !s.Has("SET") || !s.Has("object encoding") || s.Has("NOSUCH") || s.Has("SET NOSUCH") || s.Has("") {
		t.Error("Has is wrong")
	}
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	if !s.Faithful([]string{"HGETALL", "h"}) {
		t.Error("a real server is faithful")
	}
}

func TestAllowedCommandsExist(t *testing.T) {
	s := open(t, Options{})
	for _, name := range sandbox.Allowed() {
		if !s.Has(name) && Since(name) == "" {
			t.Errorf("%s: the server lacks it, and Since does not say why", name)
		}
	}
	for _, r := range releases {
		for name := range strings.SplitSeq(r.names, ", ") {
			if command, _, _ := strings.Cut(name, " "); !slices.Contains(sandbox.Allowed(), command) {
				t.Errorf("%s is not allowed", name)
			}
		}
	}
}

func TestCloseEndsRuns(t *testing.T) {
	s := open(t, Options{})
	blocked := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- s.Use(context.Background(), func(db *sandbox.DB) error {
			close(blocked)
			_, err := db.Do(context.Background(), lines(t, "BLPOP none 0"))
			return err
		})
	}()
	select {
	case <-blocked:
	case err := <-done:
		t.Fatalf("the run ended by itself: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("the run ended with %v, want ErrDown", err)
	}
	if err := s.Use(t.Context(), func(*sandbox.DB) error { return nil }); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("Use after Close: %v, want ErrDown", err)
	}
	if err := s.Health(); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("Health after Close: %v, want ErrDown", err)
	}
}

// TestParseAsTheServer has the server split lines: what comes down a socket as
// plain text goes through the very function that valkey-cli uses. From 9.1 on that
// takes text behind a closing quote, which Parse refuses as all others do.
func TestParseAsTheServer(t *testing.T) {
	s := open(t, Options{})
	inst, err := s.keeper.current()
	if err != nil {
		t.Fatal(err)
	}
	lenient := s.Engine().Name == "valkey" && !older(s.Engine().Version, "9.1")
	for _, line := range []string{
		`a`, `a b`, `  a	b  `, `"hello world"`, `"" ''`, `"\n\r\t\b\a\\\"\q"`, `"\x00\xfF\x4a"`, `"\xg0\x1"`, `'\n\'\\ '`,
		`'say "hi"' "it's"`, `a"b c"`, `a'b c'`, `\n a\b`, `"é😀" é`, `"open`, `'open`, `"a"b`, `'a'b`, `"open\"`, `"open\`, `{"a":1}`,
	} {
		want, wrong := sandbox.Parse(line)
		conn, err := net.Dial("unix", inst.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "AUTH %s %s\r\nDEL line\r\nRPUSH line %s\r\nQUIT\r\n", inst.root.User, inst.root.Password, line)
		said, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		if refused := strings.Contains(string(said), "unbalanced quotes"); refused != (wrong != nil) && (refused || !lenient) {
			t.Errorf("Parse(%q): %v; the server said %q", line, wrong, said)
		}
		if wrong != nil {
			continue
		}
		got, err := inst.Admin.LRange(t.Context(), "line", 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("Parse(%q) (-the server +Parse):\n%s", line, diff)
		}
	}
}
