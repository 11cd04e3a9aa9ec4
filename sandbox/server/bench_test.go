package server

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockstep/sandbox"
)

const benchRelease = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0"

func BenchmarkUse(b *testing.B) {
	s, err := Open(b.Context(), Options{Scripts: map[string]string{"release.lua": benchRelease}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	commands := []sandbox.Command{
		sandbox.Cmd("SET", "resource:lock", "abc", "NX", "PX", "30000"),
		sandbox.Cmd("SET", "resource:lock", "xyz", "NX", "PX", "30000"),
		sandbox.Cmd("EVAL", "release.lua", "1", "resource:lock", "xyz"),
		sandbox.Cmd("HSET", "resource", "highest", "34"),
		sandbox.Cmd("GET", "resource:lock"),
		sandbox.Cmd("PTTL", "resource:lock"),
	}
	use := func(ctx context.Context) error {
		return s.Use(ctx, func(db *sandbox.DB) error {
			_, err := db.Do(ctx, commands)
			return err
		})
	}
	b.Run("go-redis", func(b *testing.B) { // the floor: no lending, no flush
		inst, _ := s.keeper.current()
		client := inst.Client(inst.root)
		defer client.Close()
		conn := client.Conn()
		sha := redis.NewScript(benchRelease).Hash()
		b.ReportAllocs()
		for b.Loop() {
			pipe := conn.Pipeline()
			for _, words := range [][]any{
				{"SET", "resource:lock", "abc", "NX", "PX", "30000"}, {"SET", "resource:lock", "xyz", "NX", "PX", "30000"},
				{"EVALSHA", sha, "1", "resource:lock", "xyz"}, {"HSET", "resource", "highest", "34"}, {"GET", "resource:lock"}, {"PTTL", "resource:lock"},
			} {
				pipe.Do(b.Context(), words...)
			}
			if _, err := pipe.Exec(b.Context()); err != nil && err != redis.Nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("clients=1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := use(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("clients=16", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(8)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := use(context.Background()); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("conn", func(b *testing.B) {
		for b.Loop() {
			err := s.Use(b.Context(), func(db *sandbox.DB) error {
				c, err := db.Conn(b.Context())
				if err != nil {
					return err
				}
				_, err = c.Do(b.Context(), commands[:1])
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("study", func(b *testing.B) {
		var history []sandbox.Command
		for range 250 {
			history = append(history, sandbox.Flush(), commands[0], commands[1], sandbox.State())
		}
		b.ReportAllocs()
		for b.Loop() {
			err := s.Lend(b.Context(), 1, func(dbs []*sandbox.DB) error {
				_, err := dbs[0].Do(b.Context(), history)
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
