package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/httprule"
)

// inflight is a request that has been sent on.
type inflight struct {
	binding *binding // nil for one without a credential
	// by is the policy that allowed it, and still reports whether another one does. It must not
	// wait.
	by    *policy
	still func(*policy) bool
	end   context.CancelCauseFunc
}

var (
	// errEnded ends the requests with a credential that is no longer to be used, and
	// errChanged those that other rules do not allow.
	errEnded   = errors.New("the credential of this request may no longer be used")
	errChanged = errors.New("the rules have changed, and do not allow this request any more")
	errBusy    = errors.New("this jail has as many requests open as it may have; try again once some have ended")
)

// request serves a request whose TLS was terminated.
func (j *jail) request(w http.ResponseWriter, r *http.Request, t allowlist.Target, who asker) {
	named, err := allowlist.ParseTarget(r.Host, t.Port)
	switch {
	case j.isCut(w):
		return
	case r.Method == http.MethodConnect || r.URL.Host != "":
		say(w, http.StatusBadRequest, "there is no proxy inside of the tunnel")
		return
	case err != nil || named != t:
		say(w, http.StatusMisdirectedRequest, fmt.Sprintf("this connection is to %s and not to %.100q", t, r.Host))
		return
	}
	if err := httprule.Check(r); err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	p := j.policy()
	hold := j.newHold()
	defer hold.release()
	q, err := j.question(p, t, r, who, hold)
	if err != nil {
		say(w, http.StatusServiceUnavailable, holdText(err))
		return
	}
	b, refusal := p.decide(q)
	if refusal != nil {
		j.refuse(w, who, t.String(), r.Method, refusal)
		return
	}
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	one := &inflight{binding: b, end: end, by: p, still: func(p *policy) bool {
		now, refusal := p.decide(q)
		return refusal == nil && (b == nil) == (now == nil) && (b == nil || p.same(b))
	}}
	if err := j.begin(one); err != nil {
		if !j.isCut(w) {
			say(w, http.StatusServiceUnavailable, err.Error())
		}
		return
	}
	defer j.finish(one)
	f := &forwarded{j: j, t: t, who: who, count: who.counter(t), binding: b, q: q, hides: hidesOf(r), hold: hold}
	f.serve(w, r.WithContext(ctx))
}

// begin adds a request to those that are sent on, unless the rules do not allow it any more.
func (j *jail) begin(one *inflight) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.gone:
		return errGone
	case len(j.requests) >= j.p.cfg.MaxConns: // HTTP/2 has many in one connection
		return errBusy
	case j.pol != one.by && !one.still(j.pol):
		return errChanged
	}
	j.requests[one] = struct{}{}
	return nil
}

func (j *jail) finish(one *inflight) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.requests, one)
}

// endRequests ends some of the requests that were sent on.
func (j *jail) endRequests(why error, which func(*inflight) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for one := range j.requests {
		if which(one) {
			one.end(why)
		}
	}
}

// ForgetTokens forgets all tokens: the requests that come ask the hub for others. Those that
// are under way continue.
func (p *Proxy) ForgetTokens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jails {
		j.tokens.forget("")
	}
}

// EndCredential forgets what the proxy holds of a credential, with what servers issued for
// it, and ends the requests with it. Either may be empty, for all jails or all credentials.
func (p *Proxy) EndCredential(jailID, credential string) {
	p.mu.Lock()
	var all []*jail
	for id, j := range p.jails {
		if jailID == "" || id == jailID {
			all = append(all, j)
		}
	}
	p.mu.Unlock()
	for _, j := range all {
		j.tokens.forget(credential)
		j.issued.Forget() // it does not say of which; the others ask for new ones
		j.endRequests(errEnded, func(one *inflight) bool {
			return one.binding != nil && (credential == "" || one.binding.GetCredential() == credential)
		})
	}
}
