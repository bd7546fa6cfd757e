package egress

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// maxRecorded bounds the path of a record, in bytes.
const maxRecorded = 2 << 10

// record stores that a request with a credential is about to be made, and returns what to
// call when it has ended.
func (f forwarded) record(r *http.Request) (finish func(to *answered, sent int64), err error) {
	recorder := f.j.p.cfg.Recorder
	if recorder == nil {
		return nil, fault.New(fault.Unavailable, "requests with credentials cannot be recorded on this node")
	}
	rec := egresslink.Record{
		ID: ident.New("creq"), JailID: f.j.id, ExecID: f.who.exec(), Credential: f.binding.GetCredential(),
		Method: r.Method, Host: f.t.String(), Path: recordedPath(r), At: time.Now().UTC(),
	}
	if err := recorder.Begin(rec); err != nil {
		return nil, err
	}
	return func(to *answered, sent int64) {
		rec.Status, rec.Problem = to.status, to.problem
		rec.SentBytes, rec.ReceivedBytes, rec.Duration = sent, to.n, time.Since(rec.At)
		recorder.End(rec)
	}, nil
}

// recordedPath returns a request's path with the values of its query masked.
func recordedPath(r *http.Request) string {
	path := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		var names []string
		for part := range strings.SplitSeq(r.URL.RawQuery, "&") {
			name, _, _ := strings.Cut(part, "=")
			names = append(names, name+"=…")
		}
		path += "?" + strings.Join(names, "&")
	}
	return clean(path, maxRecorded)
}

// answered is a response to a command whose outcome is recorded.
type answered struct {
	http.ResponseWriter

	status  int
	n       int64
	problem string
}

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (a *answered) Write(b []byte) (int, error) {
	n, err := a.ResponseWriter.Write(b)
	a.n += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// hubRefusal returns the error of a hub that did not send a request on.
func hubRefusal(res *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close()
	var e egresslink.Error
	if err != nil || json.Unmarshal(raw, &e) != nil {
		return fault.New(fault.Unavailable, "the hub responded with HTTP %d", res.StatusCode)
	}
	return e.Fault(res.StatusCode)
}
