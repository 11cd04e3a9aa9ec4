package handlers

import (
	"context"
	"net/netip"
	"sync"

	"github.com/labstack/echo/v4"

	"lockstep/handlers/admission"
)

// visitorHeader holds a visitor's id. A page's script asks for one by sending
// "new" and sends it with every run of its tab; the answer holds one where one was
// given out. Without it, the visitor is the address.
const visitorHeader = "Lockstep-Visitor"

// admit waits until a visitor's run may begin; leave ends it.
func (s *Site) admit(ctx context.Context, c echo.Context, need admission.Run) (leave func(), err error) {
	who, issued, err := s.gate.Pass(c.RealIP(), c.Request().Header.Get(visitorHeader))
	if issued != "" {
		c.Response().Header().Set(visitorHeader, issued)
	}
	if len(s.settings.Proxies) == 0 && s.proxy.missing(c, who) {
		s.log.Warn("many visitors come by way of one address; if it is a proxy's, --proxy is missing, and they are held to one ceiling", "address", who.Address)
	}
	if err != nil {
		return nil, err
	}
	return s.queue.Enter(ctx, who, need)
}

// manyVisitors in a row by way of one address look like a proxy's.
const manyVisitors = 20

// A proxyWatch looks for a proxy that the operator has not named: one address
// after which nobody else comes, and which forwards for many.
type proxyWatch struct {
	mu      sync.Mutex
	address string
	through map[string]struct{} // whom it forwards for, or visitors
	told    bool
}

// missing tells, once, that a request is one of many that a proxy seems to have
// forwarded.
func (w *proxyWatch) missing(c echo.Context, who admission.Visitor) bool {
	mark := c.Request().Header.Get(echo.HeaderXForwardedFor)
	if mark == "" && local(c.RealIP()) {
		mark = who.ID // a proxy that forwards nothing; a public address may be a school's
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told {
		return false
	}
	if w.address != who.Address {
		w.address, w.through = who.Address, map[string]struct{}{}
	}
	if mark != "" {
		w.through[mark[:min(len(mark), 64)]] = struct{}{}
	}
	w.told = len(w.through) >= manyVisitors
	return w.told
}

// local tells whether an address is of this machine or of a private network.
func local(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && (ip.Unmap().IsLoopback() || ip.Unmap().IsPrivate())
}
