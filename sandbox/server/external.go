package server

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/sandbox"
)

// The keys of a sandbox's own, all in database 0 of the server.
const (
	markKey  = "lockstep:sandbox" // set by whoever runs the server: it may be used
	lentKey  = "lockstep:lent"    // a hash: the site that a database is lent by
	siteKey  = "lockstep:site:"   // and the site's token: it lives, for a while
	siteLife = 30 * time.Second
)

var (
	//go:embed claim.lua
	claimSource string
	//go:embed release.lua
	releaseSource string
)

// errForeign says that a database at rest holds keys that the site did not put
// there. It is never lent again.
var errForeign = errors.New("the database holds keys that this site did not put there")

// external uses a server that somebody else runs, if it has been marked.
func (s *Server) external() (func(context.Context) (*Process, error), error) {
	opt, err := redis.ParseURL(s.opt.URL)
	if err != nil {
		return nil, fmt.Errorf("the server's address: %w", err)
	}
	if opt.TLSConfig != nil {
		return nil, errors.New("the server's address: only redis:// and unix:// are known")
	}
	if opt.DB != 0 {
		return nil, errors.New("the server's address: it names a database, but the sandbox uses them all")
	}
	network, addr, as := opt.Network, opt.Addr, sandbox.Login{User: opt.Username, Password: opt.Password}
	site := rand.Text()
	logged := false
	return func(ctx context.Context) (*Process, error) {
		ctx, cancel := context.WithTimeout(ctx, startWait)
		defer cancel()
		inst := &Process{
			Access: sandbox.Access{
				Network: network, Addr: addr,
				Lender:  sandbox.Login{User: "lockstep-lender-" + site, Password: rand.Text()},
				Runner:  sandbox.Login{User: "lockstep-runner-" + site, Password: rand.Text()},
				Scripts: &s.scripts, Answer: s.opt.Answer, ReplyBytes: s.opt.replyBytes,
				Flush: []any{"FLUSHDB", "SYNC"},
			},
		}
		inst.Admin, inst.pulse = inst.Client(as), inst.Client(as)
		e := &externalServer{inst: inst, site: site}
		inst.Stop, inst.claim, inst.release, inst.renew = e.leave, e.claim, e.release, e.renew
		err := e.enter(ctx, s.opt.URL)
		if err == nil {
			var foreign []int
			foreign, err = e.look(ctx)
			if len(foreign) > 0 && !logged {
				s.opt.Log.Warn("databases that hold keys this site did not put there are left alone", "databases", foreign)
			}
		}
		if err != nil {
			e.leave()
			return nil, err
		}
		logged = true
		return inst, nil
	}, nil
}

// An externalServer is the site's stay on a server of somebody else's.
type externalServer struct {
	inst *Process
	site string // this site's token

	mu      sync.Mutex
	renewed time.Time
}

// enter sees whether the server may be used, and says that the site is there.
func (e *externalServer) enter(ctx context.Context, address string) error {
	marked, err := e.inst.Admin.Exists(ctx, markKey).Result()
	if err != nil {
		return fmt.Errorf("the server at %s: %w", redacted(address), err)
	}
	if marked == 0 {
		return fmt.Errorf("the server at %s is not marked as a sandbox, and runs empty the databases they use; if it holds nothing that matters, mark it with: %s", redacted(address), markCommand(address))
	}
	if err := e.inst.prepare(ctx, sandbox.External); err != nil {
		return fmt.Errorf("the server at %s: %w", redacted(address), err)
	}
	return e.renew(ctx)
}

// look finds the databases that may be lent: those that are empty, or that a
// site which is dead left behind.
func (e *externalServer) look(ctx context.Context) (foreign []int, err error) {
	count := 16
	if set, err := e.inst.Admin.ConfigGet(ctx, "databases").Result(); err == nil {
		if n, err := strconv.Atoi(set["databases"]); err == nil {
			count = n
		}
	}
	for n := 1; n < count; n++ {
		err := e.claim(ctx, n)
		switch {
		case errors.Is(err, errForeign):
			foreign = append(foreign, n)
			continue
		case errors.Is(err, sandbox.ErrBusy): // lent by another site just now
		case err != nil:
			return nil, err
		case !e.release(ctx, n):
			return nil, fmt.Errorf("%w: database %d could not be given back", sandbox.ErrDown, n)
		}
		e.inst.facts.databases = append(e.inst.facts.databases, n)
	}
	if len(e.inst.facts.databases) == 0 {
		return nil, fmt.Errorf("none of the server's databases 1 to %d is free: each holds keys that this site did not put there, and they are left alone", count-1)
	}
	return foreign, nil
}

// claim takes a database for one run. It is empty then.
func (e *externalServer) claim(ctx context.Context, number int) error {
	claimed, err := e.inst.Admin.Eval(ctx, claimSource, []string{lentKey}, number, e.site).Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: claim database %d: %w", sandbox.ErrDown, number, err)
	case claimed == 0:
		return fmt.Errorf("%w: another site has database %d", sandbox.ErrBusy, number)
	case claimed < 0:
		return fmt.Errorf("%w: database %d", errForeign, number)
	}
	return nil
}

// release empties a database that was claimed and gives it back. It does not
// depend on the run's context, which may be what ended the run.
func (e *externalServer) release(ctx context.Context, number int) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	err := e.inst.Admin.Eval(ctx, releaseSource, []string{lentKey}, number, e.site).Err()
	return err == nil
}

// renew says, now and then, that the site is still there, and sees whether the
// server is still marked.
func (e *externalServer) renew(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.renewed) < siteLife/10 {
		return nil
	}
	pipe := e.inst.pulse.Pipeline()
	marked := pipe.Exists(ctx, markKey)
	pipe.Set(ctx, siteKey+e.site, "1", siteLife)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if marked.Val() == 0 {
		return fmt.Errorf("%w: its mark %s is gone", errLost, markKey)
	}
	e.renewed = time.Now()
	return nil
}

// leave takes the site's users and its sign of life away.
func (e *externalServer) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	pipe := e.inst.Admin.Pipeline()
	pipe.Del(ctx, siteKey+e.site)
	pipe.Do(ctx, "ACL", "DELUSER", e.inst.Lender.User, e.inst.Runner.User)
	_, _ = pipe.Exec(ctx)
	_ = e.inst.Admin.Close()
	_ = e.inst.pulse.Close()
}

// redacted is an address without its password.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "that address"
	}
	return u.Redacted()
}

// markCommand is what the one who runs the server types to mark it.
func markCommand(address string) string {
	mark := "SET " + markKey + " yes"
	u, err := url.Parse(address)
	if err != nil {
		return "valkey-cli " + mark
	}
	if u.Scheme == "unix" {
		return strings.Join([]string{"valkey-cli -s", u.Path, mark}, " ")
	}
	u.User = nil
	return strings.Join([]string{"valkey-cli -u", u.String(), mark}, " ")
}
