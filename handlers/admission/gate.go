package admission

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// An id costs its address this many runs. It is the price of a turn of one's own.
	priceOfID = 25
	// hoursOfID is how long an id is good for.
	hoursOfID = 24
	// burst is for how many seconds an address may save up what its ceiling allows.
	burst = 2
	// sweeps is how often addresses that have saved up all they may are forgotten.
	sweeps = time.Minute
)

// A Gate tells visitors apart, and holds each address to its ceiling. The ids
// that it gives out are signed and dated, and good at the address that got them:
// nobody makes them up, and nobody gets thousands of them for nothing.
type Gate struct {
	key     []byte
	ceiling float64

	mu    sync.Mutex
	spent map[string]*rate.Limiter // by address
	swept time.Time
}

// NewGate makes a gate. Its ids are known to all gates with the same key; without
// one it makes one up. The ceiling is in runs a second of one address; 0 sets none.
func NewGate(key []byte, ceiling float64) *Gate {
	if len(key) == 0 {
		key = []byte(rand.Text())
	}
	return &Gate{key: key, ceiling: ceiling, spent: map[string]*rate.Limiter{}, swept: time.Now()}
}

// Pass tells who asks for a run, from the address and the id that was shown. It is
// refused where the address has reached its ceiling. Who shows anything but an
// id that is good gets one, issued, as long as the address can afford it; who
// shows nothing doesn't want one.
func (g *Gate) Pass(address, shown string) (who Visitor, issued string, err error) {
	who.Address = network(address)
	now := time.Now()
	spent := g.of(who.Address, now)
	switch {
	case !spent.AllowN(now, 1):
		return who, "", &Refused{Reason: Ceiling}
	case shown == "":
		return who, "", nil
	case g.good(shown, who.Address, now):
		who.ID = shown
	// Half is left for runs: an id must never be why one is refused.
	case spent.TokensAt(now) >= float64(spent.Burst()/2+priceOfID) && spent.AllowN(now, priceOfID):
		issued = g.issue(who.Address, now)
		who.ID = issued
	}
	return who, issued, nil
}

// network is what counts as one address: of IPv6, all that one customer has.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	if site, err := ip.WithZone("").Prefix(64); err == nil {
		return site.String()
	}
	return address
}

// of is what an address has spent of its ceiling.
func (g *Gate) of(address string, now time.Time) *rate.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.swept) > sweeps {
		g.swept = now
		for a, spent := range g.spent {
			if spent.TokensAt(now) >= float64(spent.Burst()) {
				delete(g.spent, a)
			}
		}
	}
	spent := g.spent[address]
	if spent == nil {
		spent = rate.NewLimiter(rate.Inf, 4*priceOfID)
		if g.ceiling > 0 {
			spent = rate.NewLimiter(rate.Limit(g.ceiling), max(1, int(burst*g.ceiling)))
		}
		g.spent[address] = spent
	}
	return spent
}

// An id is the hour it was issued in, what no other has, and a signature of both
// and of the address.
const (
	hourBytes   = 4
	randomBytes = 8
	signedBytes = 12
)

func (g *Gate) issue(address string, now time.Time) string {
	id := binary.BigEndian.AppendUint32(make([]byte, 0, hourBytes+randomBytes+signedBytes), hour(now))
	id = id[:hourBytes+randomBytes]
	rand.Read(id[hourBytes:]) // never fails
	return base64.RawURLEncoding.EncodeToString(append(id, g.sign(id, address)...))
}

func (g *Gate) good(shown, address string, now time.Time) bool {
	id, err := base64.RawURLEncoding.DecodeString(shown)
	if err != nil || len(id) != hourBytes+randomBytes+signedBytes {
		return false
	}
	dated := id[:hourBytes+randomBytes]
	// Another replica's clock may be a little ahead of this one's.
	age := int64(hour(now)) - int64(binary.BigEndian.Uint32(id))
	return age >= -1 && age <= hoursOfID && hmac.Equal(id[len(dated):], g.sign(dated, address))
}

func (g *Gate) sign(dated []byte, address string) []byte {
	mac := hmac.New(sha256.New, g.key)
	mac.Write(dated)
	mac.Write([]byte(address))
	return mac.Sum(nil)[:signedBytes]
}

func hour(t time.Time) uint32 { return uint32(t.Unix() / 3600) }
