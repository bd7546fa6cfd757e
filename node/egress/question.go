package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
	"github.com/deckhand-sh/deckhand/internal/httprule"
)

const (
	// maxQuestion bounds the body of a GraphQL request, which is read before it is decided.
	maxQuestion = 1 << 20
	// maxReading is how many bodies of a jail's requests are read at once to decide them.
	maxReading = 32
)

// question is what a request is decided by. All of it is read before the request is sent on,
// so that rules that come into force later can be applied to it as well.
type question struct {
	t      allowlist.Target
	method string
	// path is how the request must be sent: what is decided by is what the server gets.
	path httprule.Path
	// upgrade says that it is to become a WebSocket.
	upgrade bool
	// strict says that the request was checked for being read in one way only; err is why it
	// is not.
	strict bool
	err    error
	// operations are those of a GraphQL request; nil if they were not asked for.
	operations    []string
	operationsErr error
	who           asker
}

// tool returns the name of the tool whose call the request is of, as long as that runs; empty
// for none.
func (q *question) tool() string { return q.who.tool() }

// question reads of a request what a policy decides by. It may read the body, and puts it
// back; what is kept of it is counted in hold.
func (j *jail) question(p *policy, t allowlist.Target, r *http.Request, who asker, hold *hold) (*question, error) {
	q := &question{t: t, method: r.Method, who: who, upgrade: strings.EqualFold(r.Header.Get("Upgrade"), "websocket")}
	target := r.RequestURI
	if strings.HasPrefix(target, "http://") {
		var authority string
		if authority, target, q.err = httprule.OriginForm(target); q.err == nil {
			if named, err := allowlist.ParseTarget(authority, t.Port); err != nil || named != t {
				q.err = fmt.Errorf("it is for %.80q", authority)
			}
		}
	}
	if q.err == nil {
		q.path, q.err = httprule.Canonical(target)
	}
	if !p.byPath(t) {
		return q, nil
	}
	q.strict = true
	if q.err == nil {
		q.err = httprule.Check(r)
	}
	if q.err != nil || r.Body == nil || r.Body == http.NoBody {
		j.operations(p, q, r)
		return q, nil
	}
	// Others wait, so that a jail cannot have the proxy hold thousands of bodies.
	ctx, cancel := context.WithTimeout(r.Context(), j.p.cfg.Patience)
	defer cancel()
	select {
	case j.reading <- struct{}{}:
		defer func() { <-j.reading }()
	case <-ctx.Done():
		return nil, errors.New("this jail sends too many requests whose bodies must be read to decide them; try again in a moment")
	}
	body := &holding{ReadCloser: r.Body, hold: hold}
	r.Body = body
	q.err = httprule.OverrideForm(r)
	j.operations(p, q, r)
	body.let = true
	return q, body.full
}

// operations reads the operations of a GraphQL request, if a policy decides by them.
func (j *jail) operations(p *policy, q *question, r *http.Request) {
	if q.err == nil && httprule.NeedsOperations(p.rulesFor(q.t), q.method, q.path) {
		q.operations, q.operationsErr = operationsOf(r)
	}
}

// operationsOf reads the operations of a GraphQL request, and puts its body back.
func operationsOf(r *http.Request) ([]string, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxQuestion+1)); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		if len(body) > maxQuestion {
			return nil, fmt.Errorf("the GraphQL request is longer than %d bytes", maxQuestion)
		}
	}
	return httprule.Operations(r.Method, r.URL, r.Header, body)
}
