package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/logging"
	errorv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/error/v1"
)

const problemType = "application/problem+json"

// Problem is an error as REST returns it (RFC 9457).
type Problem struct {
	// Type identifies the kind of the problem: a URN of its code.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is what happened.
	Detail string `json:"detail,omitempty"`
	// Code is a code of docs/errors.md or, for an error that has none, the RPC's, such as
	// "not_found".
	Code string `json:"code"`
	// Fix is what to do.
	Fix string `json:"fix,omitempty"`
	// ObjectID is the object at fault.
	ObjectID string `json:"object_id,omitempty"`
	// RequestID is the correlation id in the hub's log.
	RequestID string `json:"request_id,omitempty"`
	// Errors are the fields that are not valid.
	Errors []FieldError `json:"errors,omitempty"`
}

// FieldError is what is wrong with one field.
type FieldError struct {
	// Field is its path, such as "override.limits.iterations".
	Field   string `json:"field"`
	Message string `json:"message"`
}

// statuses are the HTTP statuses of the RPC codes.
var statuses = map[connect.Code]int{
	connect.CodeCanceled:           499, // the client closed the request
	connect.CodeUnknown:            http.StatusInternalServerError,
	connect.CodeInvalidArgument:    http.StatusBadRequest,
	connect.CodeDeadlineExceeded:   http.StatusGatewayTimeout,
	connect.CodeNotFound:           http.StatusNotFound,
	connect.CodeAlreadyExists:      http.StatusConflict,
	connect.CodePermissionDenied:   http.StatusForbidden,
	connect.CodeResourceExhausted:  http.StatusTooManyRequests,
	connect.CodeFailedPrecondition: http.StatusConflict,
	connect.CodeAborted:            http.StatusConflict,
	connect.CodeOutOfRange:         http.StatusBadRequest,
	connect.CodeUnimplemented:      http.StatusNotImplemented,
	connect.CodeInternal:           http.StatusInternalServerError,
	connect.CodeUnavailable:        http.StatusServiceUnavailable,
	connect.CodeDataLoss:           http.StatusInternalServerError,
	connect.CodeUnauthenticated:    http.StatusUnauthorized,
}

// problemOf describes an error that is ready to be shown.
func problemOf(err error, requestID string) Problem {
	code := connect.CodeOf(err)
	if errors.Is(err, context.Canceled) {
		code = connect.CodeCanceled
	}
	var details []proto.Message
	message := err.Error()
	var e *connect.Error
	if errors.As(err, &e) {
		message = e.Message()
		for _, d := range e.Details() {
			if value, err := d.Value(); err == nil {
				details = append(details, value)
			}
		}
	}
	return describe(code, message, details, requestID)
}

func describe(code connect.Code, message string, details []proto.Message, requestID string) Problem {
	p := Problem{Status: statuses[code], Code: code.String(), Detail: message, RequestID: requestID}
	known := false
	for _, d := range details {
		switch d := d.(type) {
		case *errorv1.ErrorInfo:
			known = true
			p.Detail, p.Fix, p.ObjectID = d.GetMessage(), d.GetFix(), d.GetObjectId()
			if d.GetCode() != "" {
				p.Code = d.GetCode()
			}
		case *validate.Violations:
			for _, v := range d.GetViolations() {
				p.Errors = append(p.Errors, FieldError{Field: protovalidate.FieldPathString(v.GetField()), Message: v.GetMessage()})
			}
			if len(p.Errors) > 0 {
				p.Fix = "correct the fields in errors: /openapi.json says what each may hold"
			}
		}
	}
	switch {
	case p.Status == 0:
		p.Status = http.StatusInternalServerError
	case p.Code == string(fault.IdempotencyKeyReused):
		p.Status = http.StatusUnprocessableEntity
	case code == connect.CodeResourceExhausted && !known:
		// The only one without a detail is that of a body that is too long.
		p.Status, p.Code, p.Fix = http.StatusRequestEntityTooLarge, "too_large", "send less at once"
	case (code == connect.CodeInternal || code == connect.CodeUnknown) && !known:
		// Errors of handlers have one. What is left is a request that vanguard cannot read.
		p.Status, p.Code, p.Fix = http.StatusBadRequest, connect.CodeInvalidArgument.String(), "correct the body or the parameter: /openapi.json says what there is"
	}
	p.finish()
	return p
}

// finish sets what follows from the code and the status.
func (p *Problem) finish() {
	p.Type = "urn:deckhand:error:" + strings.ToLower(p.Code)
	if p.Title = http.StatusText(p.Status); p.Title == "" {
		p.Title = "Client Closed Request"
	}
}

// problemFrom reads an error in the form in which vanguard writes it: as a Status in JSON,
// or as text if it has no call to go with.
func problemFrom(status int, body []byte, requestID string) Problem {
	var s spb.Status
	if protojson.Unmarshal(body, &s) == nil && s.GetCode() != 0 {
		var details []proto.Message
		for _, d := range s.GetDetails() {
			if value, err := d.UnmarshalNew(); err == nil {
				details = append(details, value)
			}
		}
		return describe(connect.Code(s.GetCode()), s.GetMessage(), details, requestID) //nolint:gosec // 1 to 16
	}
	p := Problem{Status: status, Code: codeOf(status), Detail: strings.TrimSpace(string(body)), RequestID: requestID}
	p.finish()
	return p
}

// codeOf returns the code of an error that is not of a call.
func codeOf(status int) string {
	return strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
}

// newProblem creates one for a request that reaches no procedure.
func newProblem(r *http.Request, status int, detail, fix string) Problem {
	p := Problem{Status: status, Code: codeOf(status), Detail: detail, Fix: fix, RequestID: r.Header.Get(logging.CorrelationHeader)}
	p.finish()
	return p
}

func (p Problem) write(w http.ResponseWriter) {
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag"} {
		h.Del(name)
	}
	h.Set("Content-Type", problemType)
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="deckhand"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // who does not read the refusal is refused as well
}
