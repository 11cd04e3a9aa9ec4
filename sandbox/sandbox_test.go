package sandbox

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSmoke(t *testing.T) {
	s, err := Open(t.Context(), Options{Scripts: map[string]string{"release.lua": "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Log(s.Engine(), s.Has("DELIFEQ"), s.Has("SET IFEQ"), s.Has("SET PX"))
	err = s.Use(context.Background(), func(db *DB) error {
		v, err := db.Do(t.Context(), []Command{
			Cmd("SET", "a", "x", "NX", "PX", "30000"), Cmd("SET", "a", "y", "NX"), Cmd("LPUSH", "a", "1"),
			Cmd("EVAL", "release.lua", "1", "a", "y"), Peek("a"), State(), Lapse("a"), Peek("a"), State(),
			Cmd("ZADD", "z", "1", "m"), Peek("z"), Cmd("FLUSHALL"),
		})
		if err != nil {
			return err
		}
		t.Log(cmp.Diff(nil, v))
		c, err := db.Conn(t.Context())
		if err != nil {
			return err
		}
		v, err = c.Do(t.Context(), []Command{Cmd("GET", "a"), Cmd("EVAL", "release.lua", "1", "a", "y"), Cmd("MULTI"), Cmd("GET", "a"), Cmd("EXEC")})
		t.Log(v, err)
		n, err := c.Received(t.Context())
		t.Log(n, err)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
