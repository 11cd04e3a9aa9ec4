package sandbox

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The sandbox's own scripts. They run as the run's user, in its database.
var (
	//go:embed peek.lua
	peekSource string
	//go:embed lapse.lua
	lapseSource string
	//go:embed state.lua
	stateSource string
)

// A Catalogue holds what the server is to know: the course's scripts by name,
// and the sandbox's own.
type Catalogue struct {
	sources map[string]string // by SHA1
	named   map[string]any    // the SHA1 by name, as go-redis takes it

	functions bool // the sandbox's own are called as functions
}

// Library is the sandbox's own scripts as a library of functions. Functions have
// an interpreter that scripts can't reach: what a hostile script does to its own
// (CVE-2025-46818) doesn't change what they answer.
func Library() string {
	var b strings.Builder
	b.WriteString("#!lua name=sandbox\n")
	for _, f := range []struct{ name, source string }{{"peek", peekSource}, {"lapse", lapseSource}, {"state", stateSource}} {
		fmt.Fprintf(&b, "redis.register_function('%s', function(KEYS, ARGV)\n%s\nend)\n", f.name, f.source)
	}
	return b.String()
}

// functionName is the name in Library of one of the sandbox's own scripts.
func functionName(sha any) string {
	switch own := ownScripts(); sha {
	case own.peek:
		return "peek"
	case own.lapse:
		return "lapse"
	}
	return "state"
}

// Foreign takes scripts that are not the course's own, by name, for a server that
// has Library.
func Foreign(scripts map[string]string) Catalogue {
	c := Catalogue{sources: map[string]string{}, named: map[string]any{}, functions: true}
	for name, source := range scripts {
		c.named[name] = c.add(source)
	}
	return c
}

// ownScripts are the SHA1s of the sandbox's own, as go-redis takes them.
var ownScripts = sync.OnceValue(func() (own struct{ peek, lapse, state any }) {
	own.peek, own.lapse, own.state = sha1Of(peekSource), sha1Of(lapseSource), sha1Of(stateSource)
	return own
})

// NewCatalogue takes the course's scripts, by name.
func NewCatalogue(scripts map[string]string) Catalogue {
	c := Catalogue{sources: map[string]string{}, named: map[string]any{}}
	for name, source := range scripts {
		c.named[name] = c.add(source)
	}
	for _, source := range []string{peekSource, lapseSource, stateSource} {
		c.add(source)
	}
	return c
}

func (c Catalogue) add(source string) string {
	sha := sha1Of(source)
	c.sources[sha] = source
	return sha
}

// sha1Of is how a server names a script.
func sha1Of(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// Load hands every script to the server. The admin user does it: the users
// that run them cannot.
func (c Catalogue) Load(ctx context.Context, admin *redis.Client) error {
	names := map[string]string{}
	for name, sha := range c.named {
		names[sha.(string)] = name
	}
	all := slices.Sorted(maps.Keys(c.sources))
	pipe := admin.Pipeline()
	replies := make([]*redis.StringCmd, len(all))
	for i, sha := range all {
		replies[i] = pipe.ScriptLoad(ctx, c.sources[sha])
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	for i, sha := range all {
		got, err := replies[i].Result()
		if err != nil {
			return fmt.Errorf("script %s: %w", names[sha], err)
		}
		if got != sha {
			return fmt.Errorf("script %s: the server says its SHA1 is %s, not %s", names[sha], got, sha)
		}
	}
	return nil
}
