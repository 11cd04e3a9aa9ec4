package server

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/sandbox"
)

// A foreignServer is one that somebody else runs.
type foreignServer struct {
	cmd    *exec.Cmd
	client *redis.Client
	socket string
	port   int
}

func startForeign(t *testing.T, args ...string) *foreignServer {
	t.Helper()
	path := needServer(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &foreignServer{socket: filepath.Join(t.TempDir(), "s"), port: listener.Addr().(*net.TCPAddr).Port}
	_ = listener.Close()
	f.start(t, path, args...)
	t.Cleanup(func() {
		_ = f.client.Close()
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
	})
	return f
}

func (f *foreignServer) start(t *testing.T, path string, args ...string) {
	t.Helper()
	args = append([]string{"--port", fmt.Sprint(f.port), "--bind", "127.0.0.1", "--unixsocket", f.socket, "--save", "", "--loglevel", "warning"}, args...)
	f.cmd = exec.Command(path, args...)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the server takes connections", func() bool {
		conn, err := net.Dial("unix", f.socket)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	f.client = (&sandbox.Access{Network: "unix", Addr: f.socket}).Client(sandbox.Login{})
}

func (f *foreignServer) mark(t *testing.T) {
	t.Helper()
	if err := f.client.Set(t.Context(), markKey, "yes", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// atRest waits until no database is lent.
func (f *foreignServer) atRest(t *testing.T) {
	t.Helper()
	eventually(t, 5*time.Second, "all databases are at rest", func() bool {
		n, err := f.client.Exists(t.Context(), lentKey).Result()
		return err == nil && n == 0
	})
}

// put writes a key into one of the server's databases, as somebody else.
func (f *foreignServer) put(t *testing.T, number int, key string) {
	t.Helper()
	conn := f.client.Conn()
	defer conn.Close()
	if err := conn.Select(t.Context(), number).Err(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Set(t.Context(), key, "precious", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Select(t.Context(), 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// has tells whether a database holds a key.
func (f *foreignServer) has(t *testing.T, number int, key string) bool {
	t.Helper()
	conn := f.client.Conn()
	defer conn.Close()
	if err := conn.Select(t.Context(), number).Err(); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Exists(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Select(t.Context(), 0).Err(); err != nil {
		t.Fatal(err)
	}
	return n == 1
}

func TestExternalUnmarked(t *testing.T) {
	f := startForeign(t)
	for url, command := range map[string]string{
		"unix://" + f.socket:                             "valkey-cli -s " + f.socket + " SET lockstep:sandbox yes",
		fmt.Sprintf("redis://127.0.0.1:%d", f.port):      fmt.Sprintf("valkey-cli -u redis://127.0.0.1:%d SET lockstep:sandbox yes", f.port),
		fmt.Sprintf("redis://:secret@[::1]:%d/", f.port): "",
	} {
		_, err := Open(t.Context(), Options{URL: url})
		if err == nil {
			t.Fatalf("%s: an unmarked server was taken", url)
		}
		if !strings.Contains(err.Error(), command) {
			t.Errorf("%s: %v\nlacks the command %s", url, err, command)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password stands in %v", url, err)
		}
	}
	if n := f.client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were written to an unmarked server", n)
	}
}

func TestExternal(t *testing.T) {
	f := startForeign(t)
	f.mark(t)
	f.put(t, 0, "theirs")
	f.put(t, 3, "theirs")
	f.put(t, 9, "theirs")
	for _, url := range []string{"unix://" + f.socket, fmt.Sprintf("redis://127.0.0.1:%d", f.port)} {
		s := open(t, Options{URL: url, Wait: 2 * time.Second})
		if mode := s.Engine().Mode; mode != sandbox.External {
			t.Errorf("mode = %v", mode)
		}
		for range 40 { // each database several times
			got := do(t, s, "DBSIZE", "SET lock me", "EVAL release.lua 1 lock me", "SET a 1", "MULTI")
			if got[0] != int64(0) || got[2] != int64(1) {
				t.Fatalf("got %v", got)
			}
		}
		err := s.Lend(t.Context(), 2, func(dbs []*sandbox.DB) error {
			got, err := dbs[1].Do(t.Context(), append(lines(t, "DBSIZE", "SET a 1"), sandbox.Flush(), sandbox.State()))
			if err == nil && (got[0] != int64(0) || got[3].([]any)[1] != int64(0)) {
				t.Errorf("an exploration saw %v", got)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := do(t, s, "EVAL call.lua 0 SELECT 3"); !forbidden(fmt.Sprint(got[0])) {
			t.Errorf("a script may SELECT: %v", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 3, 9} {
		if !f.has(t, n, "theirs") {
			t.Errorf("a key of database %d is gone", n)
		}
	}
	// The site leaves nothing behind.
	keys, err := f.client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 2 {
		t.Errorf("database 0 holds %q, %v", keys, err)
	}
	users, err := f.client.Do(t.Context(), "ACL", "USERS").StringSlice()
	if err != nil || len(users) != 1 {
		t.Errorf("users %q, %v", users, err)
	}
	if info := f.client.Info(t.Context(), "keyspace").Val(); strings.Count(info, "db") != 3 {
		t.Errorf("keyspace: %s", info)
	}
}

// TestExternalForeignKeys has somebody write to a database at rest: it is never
// lent, nor flushed, again.
func TestExternalForeignKeys(t *testing.T) {
	f := startForeign(t, "--databases", "3")
	f.mark(t)
	s := open(t, Options{URL: "unix://" + f.socket, Wait: time.Second})
	do(t, s, "SET a 1")
	f.atRest(t)
	f.put(t, 1, "theirs")
	for range 5 {
		if got := do(t, s, "DBSIZE", "SET a 1"); got[0] != int64(0) {
			t.Fatalf("a run saw %v keys", got[0])
		}
	}
	f.atRest(t)
	f.put(t, 2, "theirs")
	err := s.Use(t.Context(), func(*sandbox.DB) error { return nil })
	if !errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("no database is left: %v, want ErrBusy", err)
	}
	for n := 1; n <= 2; n++ {
		if !f.has(t, n, "theirs") {
			t.Errorf("the key of database %d is gone", n)
		}
	}
	if _, err := Open(t.Context(), Options{URL: "unix://" + f.socket}); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("a server without a free database: %v", err)
	}
}

// TestExternalLeftBehind opens where a site died in a run: what it left is its
// own, and flushed.
func TestExternalLeftBehind(t *testing.T) {
	f := startForeign(t, "--databases", "3")
	f.mark(t)
	f.put(t, 1, "left")
	f.put(t, 2, "theirs")
	if err := f.client.HSet(t.Context(), lentKey, "1", "DEADSITE").Err(); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{URL: "unix://" + f.socket})
	if got := do(t, s, "DBSIZE"); got[0] != int64(0) {
		t.Errorf("a run saw %v keys", got[0])
	}
	if f.has(t, 1, "left") || !f.has(t, 2, "theirs") {
		t.Error("the wrong database was flushed")
	}
}

// TestExternalTwoSites has two sites on one server: what one has lent, the other
// doesn't touch.
func TestExternalTwoSites(t *testing.T) {
	f := startForeign(t, "--databases", "3")
	f.mark(t)
	a := open(t, Options{URL: "unix://" + f.socket, Wait: time.Second})
	b := open(t, Options{URL: "unix://" + f.socket, Wait: 50 * time.Millisecond})
	err := a.Use(t.Context(), func(one *sandbox.DB) error {
		return a.Use(t.Context(), func(two *sandbox.DB) error {
			for _, db := range []*sandbox.DB{one, two} {
				if _, err := db.Do(t.Context(), lines(t, "SET a 1")); err != nil {
					return err
				}
			}
			if err := b.Use(t.Context(), func(*sandbox.DB) error { return nil }); !errors.Is(err, sandbox.ErrBusy) {
				t.Errorf("the other site: %v, want ErrBusy", err)
			}
			for _, db := range []*sandbox.DB{one, two} {
				if got, err := db.Do(t.Context(), lines(t, "GET a")); err != nil || got[0] != "1" {
					t.Errorf("GET a = %v, %v", got, err)
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Second, "the other site's turn", func() bool {
		return b.Use(t.Context(), func(db *sandbox.DB) error {
			got, err := db.Do(t.Context(), lines(t, "GET a"))
			if err == nil && got[0] != nil {
				t.Errorf("it saw the other's key")
			}
			return err
		}) == nil
	})
}

// TestExternalRights wants a clear word where the users can't be made.
func TestExternalRights(t *testing.T) {
	f := startForeign(t)
	f.mark(t)
	ctx := t.Context()
	if err := f.client.Do(ctx, "ACL", "SETUSER", "weak", "on", ">pw", "~*", "&*", "+@all", "-acl").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(ctx, Options{URL: fmt.Sprintf("redis://weak:pw@127.0.0.1:%d", f.port)})
	if err == nil || !strings.Contains(err.Error(), "ACL SETUSER") || strings.Contains(err.Error(), "pw@") {
		t.Errorf("err = %v", err)
	}
	for _, url := range []string{"http://x", "rediss://127.0.0.1:1", "redis://127.0.0.1:1/3", "redis://127.0.0.1:1"} {
		if _, err := Open(ctx, Options{URL: url}); err == nil {
			t.Errorf("%s was accepted", url)
		}
	}
}

// TestExternalRestart has the server go away and come back, without its mark at
// first.
func TestExternalRestart(t *testing.T) {
	f := startForeign(t)
	f.mark(t)
	s := open(t, Options{URL: "unix://" + f.socket})
	do(t, s, "GET a")
	path := f.cmd.Path
	if err := f.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = f.cmd.Wait()
	_ = f.client.Close()
	eventually(t, 5*time.Second, "Health tells", func() bool { return errors.Is(s.Health(), sandbox.ErrDown) })
	if err := s.Use(t.Context(), func(*sandbox.DB) error { return nil }); !errors.Is(err, sandbox.ErrDown) {
		t.Errorf("Use while it is away: %v, want ErrDown", err)
	}
	f.start(t, path)
	eventually(t, 5*time.Second, "the lack of a mark shows", func() bool {
		err := s.Health()
		return err != nil && strings.Contains(err.Error(), "not marked")
	})
	f.mark(t)
	eventually(t, 5*time.Second, "it is back", func() bool { return s.Health() == nil })
	works(t, s, 2*time.Second)
	// Its owner takes it away.
	if err := f.client.Del(t.Context(), markKey).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the sandbox leaves", func() bool { return s.Health() != nil })
}
