// Package egresslink is the protocol between the egress proxy of a node and its hub.
//
// The proxy opens streams in a yamux session that EgressService.Channel carries, and the
// hub serves HTTP on them: HTTP/1.1, or HTTP/2 with prior knowledge. The paths below take
// and return JSON. Requests to any other path are refused, except those with the header
// [HeaderJail]: they are requests of a jail's command into which the hub inserts a
// credential that never leaves it, and their URL's path and Host header are those of the
// command's request.
//
// An error has a status of 4xx or 5xx and a body of the type [Error].
package egresslink

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Paths.
const (
	// PathAuthority takes an AuthorityRequest and returns an Authority.
	PathAuthority = "/deckhand/authority"
	// PathToken takes a TokenRequest and returns a Token.
	PathToken = "/deckhand/token"
	// PathRecords takes Records, and returns nothing once they are stored. Records that
	// were stored before are ignored.
	PathRecords = "/deckhand/records"
)

// Headers of a request into which the hub inserts a credential. They are removed from it.
const (
	// HeaderJail, HeaderExec and HeaderCredential name the jail, the exec ("" if it is not
	// known) and the credential.
	HeaderJail       = "Deckhand-Jail"
	HeaderExec       = "Deckhand-Exec"
	HeaderCredential = "Deckhand-Credential" //nolint:gosec // the name of a header
	// HeaderTarget is the host and port that the request goes to.
	HeaderTarget = "Deckhand-Target"
	// HeaderRefused, in a response, says that it is the hub's and not the server's: its
	// value is the code of the Error in the body.
	HeaderRefused = "Deckhand-Refused"
)

// SessionConfig returns how both ends set up the session.
func SessionConfig() *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = io.Discard
	cfg.EnableKeepAlive = false // the link to the node has its own
	cfg.MaxStreamWindowSize = 1 << 20
	return cfg
}

// Windows returns how much of HTTP/2 connections is received before somebody reads it: what
// others make a process hold is bounded.
func Windows() *http.HTTP2Config {
	return &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReceiveBufferPerStream: 256 << 10, MaxReceiveBufferPerConnection: 1 << 20}
}

// AuthorityRequest asks for the key of an authority of a jail.
type AuthorityRequest struct {
	JailID string `json:"jail_id"`
	// Certificate is one of Egress.authorities, in PEM.
	Certificate string `json:"certificate"`
}

// Authority is the answer.
type Authority struct {
	// Key is the certificate's private key, in PEM (PKCS #8). It is kept in memory only.
	Key string `json:"key"`
}

// TokenRequest asks for a token that is inserted by the node.
type TokenRequest struct {
	JailID     string `json:"jail_id"`
	Credential string `json:"credential"`
	// Target is the host and port that the token is sent to; older nodes do not say it.
	Target string `json:"target,omitempty"`
}

// Token is what is inserted into a request. It is kept in memory only.
type Token struct {
	// Headers replace those of the request.
	Headers map[string]string `json:"headers,omitempty"`
	// GitHeaders replace those of a request to which GitPath applies, instead of Headers;
	// nil if there is no difference.
	GitHeaders map[string]string `json:"git_headers,omitempty"`
	// Secrets are the parts of it that are masked in responses.
	Secrets []string `json:"secrets"`
	// ExpiresAt is when another one is to be asked for.
	ExpiresAt time.Time `json:"expires_at"`
}

// Records are requests with a credential.
type Records struct {
	Records []Record `json:"records"`
}

// Record is one request with a credential, when it has ended or was refused.
type Record struct {
	// ID is unique.
	ID     string `json:"id"`
	JailID string `json:"jail_id"`
	// ExecID is the command that the request says it is from; empty if it says none.
	ExecID     string `json:"exec_id,omitempty"`
	Credential string `json:"credential"`
	Method     string `json:"method"`
	// Host is a name or an address with the port.
	Host string `json:"host"`
	// Path is escaped, with the values of its query masked; at most 2 KiB.
	Path string `json:"path"`
	// Status is the server's; 0 if it did not respond.
	Status int `json:"status"`
	// SentBytes and ReceivedBytes are those of the bodies.
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
	// At is when the request began, and Duration how long it took.
	At       time.Time     `json:"at"`
	Duration time.Duration `json:"duration_ns"`
	// Problem is why there is no response of the server, or none in full; mostly empty.
	Problem string `json:"problem,omitempty"`
}

// Error is the body of an error.
type Error struct {
	// Code is one of package fault, such as AGENT_025.
	Code string `json:"code"`
	// Message says what is wrong, and Fix what to do.
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

// Encode returns a value as JSON with a line break, as short as it can be: <, > and & stay as
// they are.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return out.Bytes(), err
}

// Fault returns the error as a fault; status is that of the response.
func (e Error) Fault(status int) error {
	kind := fault.Unavailable
	switch status {
	case http.StatusBadRequest:
		kind = fault.Invalid
	case http.StatusForbidden:
		kind = fault.Denied
	case http.StatusNotFound:
		kind = fault.NotFound
	case http.StatusPreconditionFailed:
		kind = fault.Precondition
	case http.StatusTooManyRequests:
		kind = fault.Exhausted
	}
	out := fault.New(kind, "%s", e.Message).WithCode(fault.Code(e.Code))
	if e.Fix != "" {
		out = out.WithFix("%s", e.Fix)
	}
	return out
}

// ErrorOf returns an error as it is sent, with the status of the response. Of an error that is
// no fault nothing is told.
func ErrorOf(err error) (status int, e Error) {
	f := fault.As(err)
	if f == nil {
		return http.StatusInternalServerError, Error{Message: "the hub could not do it; its log has the reason"}
	}
	status = http.StatusServiceUnavailable
	switch f.Kind { //nolint:exhaustive // the rest are problems of the hub
	case fault.Invalid:
		status = http.StatusBadRequest
	case fault.Denied, fault.Unauthenticated:
		status = http.StatusForbidden
	case fault.NotFound:
		status = http.StatusNotFound
	case fault.Precondition:
		status = http.StatusPreconditionFailed
	case fault.Exhausted:
		status = http.StatusTooManyRequests
	}
	return status, Error{Code: string(f.Code), Message: f.Message, Fix: f.Fix}
}
