package server

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/sandbox"
)

func embedded(t testing.TB, opt Options) *Server {
	t.Helper()
	opt.Server, opt.EmbeddedCommand = "embedded", []string{os.Args[0], "embedded-server"}
	return open(t, opt)
}

func TestEmbedded(t *testing.T) {
	s := embedded(t, Options{})
	e := s.Engine()
	if e.Name != "miniredis" || e.Version == "" || e.Mode != sandbox.Embedded || !e.Simulated() {
		t.Errorf("engine = %+v", e)
	}
	got := do(t, s, "SET lock a NX PX 30000", "SET lock b NX", "EVAL release.lua 1 lock b", "EVAL fail.lua 0", "INCR lock", "FLUSHALL")
	want := []sandbox.Value{
		"OK", nil, int64(0), sandbox.Error("EMQSTALE token mismatch"), sandbox.Error("ERR value is not an integer or out of range"),
		sandbox.Error("NOPERM User runner has no permissions to run the 'flushall' command"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if got := do(t, s, "EVAL call.lua 0 SELECT 3", "DBSIZE"); got[0] == "OK" || got[1] != int64(0) {
		t.Errorf("a script left its database: %v", got)
	}
}

func TestEmbeddedScripts(t *testing.T) {
	s := embedded(t, Options{})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		got, err := db.Do(t.Context(), append(lines(t, "SET s v PX 30000", "HSET h a 1", "RPUSH l x", "SADD set b a", "ZADD z 1.5 a"),
			sandbox.Peek("s"), sandbox.Peek("h"), sandbox.Peek("l"), sandbox.Peek("set"), sandbox.Peek("z"), sandbox.Peek("none"), sandbox.Lapse("none"), sandbox.Lapse("h"), sandbox.Lapse("s"), sandbox.Peek("s"), sandbox.State(), sandbox.Flush(), sandbox.State()))
		if err != nil {
			return err
		}
		got[5].([]any)[2] = int64(30000)
		want := []sandbox.Value{
			[]any{"string", "v", int64(30000)}, []any{"hash", []any{"a", "1"}, int64(-1)}, []any{"list", []any{"x"}, int64(-1)},
			[]any{"set", []any{"a", "b"}, int64(-1)}, []any{"zset", []any{"a", "1.5"}, int64(-1)}, []any{"none", nil, int64(-2)},
			int64(0), int64(-1), int64(1), []any{"none", nil, int64(-2)},
		}
		if diff := cmp.Diff(want, got[5:15]); diff != "" {
			t.Errorf("values (-want +got):\n%s", diff)
		}
		if full, empty := got[15].([]any), got[17].([]any); full[1] != int64(4) || empty[1] != int64(0) || full[0] == empty[0] {
			t.Errorf("states %v and %v", full, empty)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEmbeddedClock has a key expire by itself.
func TestEmbeddedClock(t *testing.T) {
	s := embedded(t, Options{})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		begun := time.Now()
		if _, err := db.Do(t.Context(), lines(t, "SET a 1 PX 30")); err != nil {
			return err
		}
		eventually(t, 5*time.Second, "the lease lapses", func() bool {
			got, err := db.Do(t.Context(), lines(t, "GET a"))
			return err == nil && got[0] == nil
		})
		if took := time.Since(begun); took < 29*time.Millisecond {
			t.Errorf("it lapsed after %v", took)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEmbeddedIsolation(t *testing.T) {
	s := embedded(t, Options{Wait: 30 * time.Second, slots: 8, Answer: 10 * time.Second})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			err := s.Use(t.Context(), func(db *sandbox.DB) error {
				got, err := db.Do(t.Context(), lines(t, "DBSIZE", "SET a 1 NX", "MULTI", "SET a 2"))
				if err == nil && (got[0] != int64(0) || got[1] != "OK") {
					t.Errorf("saw %v", got)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestEmbeddedEndlessScript hangs the simulated server for good; it is killed
// and started again.
func TestEmbeddedEndlessScript(t *testing.T) {
	s := embedded(t, Options{Answer: 300 * time.Millisecond})
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		_, err := db.Do(t.Context(), lines(t, "EVAL loop.lua 0"))
		return err
	})
	if !errors.Is(err, sandbox.ErrLate) {
		t.Errorf("err = %v, want ErrLate", err)
	}
	works(t, s, 10*time.Second)
}

func TestEmbeddedCancelBlocked(t *testing.T) {
	s := embedded(t, Options{slots: 1, Wait: 10 * time.Second})
	for _, seconds := range []string{"0.3", "0"} { // 0: it would wait for ever, and is killed
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		err := s.Use(ctx, func(db *sandbox.DB) error {
			_, err := db.Do(ctx, lines(t, "BLPOP none "+seconds))
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want called off", err)
		}
		do(t, s, "GET a")
	}
}

func TestFaithful(t *testing.T) {
	s := embedded(t, Options{Scripts: map[string]string{
		"good.lua":   "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.error_reply('EMQSTALE') end return 1",
		"raises.lua": "error('no')",
		"json.lua":   "return cjson.encode({1})",
		"object.lua": "return redis.call('OBJECT', 'ENCODING', KEYS[1])",
	}})
	for text, want := range map[string]bool{
		"GET k": true, "set k v NX": true, "EVAL good.lua 1 k t": true,
		"HGETALL h": false, "OBJECT ENCODING k": false, "DELIFEQ k v": false, "CLIENT INFO": false,
		"EVAL raises.lua 0": false, "EVAL json.lua 0": false, "EVAL object.lua 1 k": false, "EVAL nosuch.lua 0": false, "": false,
	} {
		args, err := sandbox.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Faithful(args); got != want {
			t.Errorf("Faithful(%s) = %v, want %v", text, got, want)
		}
	}
	if s.Has("DELIFEQ") || !s.Has("GET") || !s.Has("SET NX") || s.Has("CLIENT INFO") {
		t.Error("Has is wrong")
	}
	err := s.Use(t.Context(), func(db *sandbox.DB) error {
		conn, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		if _, err := conn.Received(t.Context()); !errors.Is(err, sandbox.ErrUncounted) {
			t.Errorf("Received: %v, want ErrUncounted", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
