package auth

import (
	"cmp"
	"net"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ttlcache"
)

const (
	// DefaultRate is how many calls a token may make a second in the long run.
	DefaultRate = 200
	// burst is for how many seconds' calls may come at once.
	burst = 5
	// ofAddress is what an address may more than one token.
	ofAddress = 2
	// failures is how many tokens, sessions, leases and webhooks that there are not
	// an address may ask for a second, and failuresAtOnce in one.
	failures       = 10
	failuresAtOnce = 200
	// Buckets expire after one minute, when they would be full again. A client that never
	// pauses therefore gets one extra burst per minute.
	rateKept    = time.Minute
	rateBuckets = 1 << 16
	// networkBits of an IPv6 address are a network's; the rest one host may choose.
	networkBits = 64
)

// Rates limits how many calls come from one token, and from one address with any token or
// none. Each hub counts its own. Workers' calls are not counted: their leases limit them,
// and a worker that had to wait would lose its leases.
type Rates struct {
	perSecond          int
	byToken, byNetwork *ttlcache.Cache[string, *rate.Limiter]
	// failed are what each address may still try that is not known.
	failed *ttlcache.Cache[string, *rate.Limiter]
}

// NewRates creates Rates; perSecond is 0 for DefaultRate, and negative for no
// bounds.
func NewRates(perSecond int) *Rates {
	if perSecond == 0 {
		perSecond = DefaultRate
	}
	buckets := func() *ttlcache.Cache[string, *rate.Limiter] {
		return ttlcache.New[string, *rate.Limiter](rateBuckets, rateKept)
	}
	return &Rates{perSecond: perSecond, byToken: buckets(), byNetwork: buckets(), failed: buckets()}
}

// token counts a call of a token or a session.
func (r *Rates) token(id string) error {
	return r.take(r.byToken, id, r.perSecond, "with this token")
}

// Jail counts a call by a program in a jail.
func (r *Rates) Jail(id string) error {
	return r.take(r.byToken, "jail "+id, r.perSecond, "from this jail")
}

// Left returns how many calls a second the caller may make in the long run, and how many
// it may make now; 0 and 0 without a limit.
func (r *Rates) Left(id Identity) (limit, left int) {
	if r == nil || r.perSecond < 0 || id.Kind != User && id.Kind != Program {
		return 0, 0
	}
	bucket, ok := r.byToken.Get(cmp.Or(id.SessionID, id.TokenID))
	if !ok {
		return r.perSecond, burst * r.perSecond
	}
	return r.perSecond, max(0, int(bucket.Tokens()))
}

// address counts a call from an address.
func (r *Rates) address(peer string) error {
	return r.take(r.byNetwork, RateKey(peer), ofAddress*r.perSecond, "from your address")
}

func (r *Rates) failuresOf(peer string) *rate.Limiter {
	network := RateKey(peer)
	bucket, ok := r.failed.Get(network)
	if !ok {
		bucket = rate.NewLimiter(failures, failuresAtOnce)
		r.failed.Add(network, bucket)
	}
	return bucket
}

// MayFail refuses an address that has sent too many unknown tokens or sessions. It is
// called before the database is queried; see Failed.
func (r *Rates) MayFail(peer string) error {
	if r == nil || r.perSecond < 0 || r.failuresOf(peer).Tokens() >= 1 {
		return nil
	}
	return fault.New(fault.Exhausted, "too many calls from your address name what there is not").WithCode(fault.RateLimited).
		WithFix("wait a second, and check the token or address that is called with").WithRetryAfter(time.Second)
}

// Failed counts an unknown token or session of an address.
func (r *Rates) Failed(peer string) {
	if r != nil && r.perSecond >= 0 {
		r.failuresOf(peer).Allow()
	}
}

func (r *Rates) take(of *ttlcache.Cache[string, *rate.Limiter], key string, perSecond int, what string) error {
	if r.perSecond < 0 {
		return nil
	}
	bucket, ok := of.Get(key)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(perSecond), burst*perSecond)
		of.Add(key, bucket)
	}
	if bucket.Allow() {
		return nil
	}
	return fault.New(fault.Exhausted, "more than %d calls a second come %s", perSecond, what).WithCode(fault.RateLimited).
		WithFix("wait a second, and call less often").WithRetryAfter(time.Second)
}

// AddressOf returns the address of a peer, without its port; invalid if the text is not
// an address.
func AddressOf(peer string) netip.Addr {
	if host, _, err := net.SplitHostPort(peer); err == nil {
		peer = host
	}
	addr, err := netip.ParseAddr(peer)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}

// RateKey returns the part of a peer's address that shares one rate limit.
func RateKey(peer string) string {
	addr := AddressOf(peer)
	if !addr.IsValid() {
		return peer
	}
	if addr.Is6() {
		if p, err := addr.Prefix(networkBits); err == nil {
			return p.String()
		}
	}
	return addr.String()
}
