package fault

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	errorv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/error/v1"
)

// This file is the one place where errors become RPC codes and come back.
// Connect and gRPC share their code numbers.

// CodeHeader and FixHeader carry an error's code and fix if the body is in a
// foreign format: the model relay responds in its provider's format.
const (
	CodeHeader = "Deckhand-Error-Code"
	FixHeader  = "Deckhand-Error-Fix"
	// OwnHeader is set where a call is refused for a budget that is the task's own.
	OwnHeader = "Deckhand-Error-Own"
)

var kindToCode = map[Kind]connect.Code{
	Internal:        connect.CodeInternal,
	Invalid:         connect.CodeInvalidArgument,
	Unauthenticated: connect.CodeUnauthenticated,
	Denied:          connect.CodePermissionDenied,
	NotFound:        connect.CodeNotFound,
	Exists:          connect.CodeAlreadyExists,
	Precondition:    connect.CodeFailedPrecondition,
	Aborted:         connect.CodeAborted,
	Exhausted:       connect.CodeResourceExhausted,
	Unavailable:     connect.CodeUnavailable,
	Deadline:        connect.CodeDeadlineExceeded,
	Canceled:        connect.CodeCanceled,
}

func kindOf(code connect.Code) Kind {
	for kind, c := range kindToCode {
		if c == code {
			return kind
		}
	}
	return Internal
}

// normal returns err as an Error whose message is safe to show: of an error
// that is not ours only the fact that it happened.
func normal(err error) *Error {
	if e := As(err); e != nil {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return New(Canceled, "the call was cancelled").WithCause(err)
	case errors.Is(err, context.DeadlineExceeded):
		return New(Deadline, "the call took longer than its deadline").WithCause(err)
	}
	return New(Internal, "internal error").WithFix("see the log of the process that answered").WithCause(err)
}

func (e *Error) info() *errorv1.ErrorInfo {
	info := &errorv1.ErrorInfo{Code: string(e.Code), Message: e.Message, Fix: e.Fix, ObjectId: e.ObjectID}
	if a, ok := ActionOf(e.Code, nil); ok {
		info.Action = &errorv1.Action{Label: a.Label, Path: a.Path, Command: a.Command}
	}
	return info
}

func fromInfo(code connect.Code, message string, info *errorv1.ErrorInfo, cause error) *Error {
	if info == nil {
		return &Error{Kind: kindOf(code), Message: message, Err: cause}
	}
	return &Error{
		Kind: kindOf(code), Code: Code(info.GetCode()), Message: info.GetMessage(),
		Fix: info.GetFix(), ObjectID: info.GetObjectId(), Err: cause,
	}
}

// ToConnect returns err as a Connect error with an ErrorInfo detail. A nil
// error stays nil; an error that is a Connect error already stays as it is.
func ToConnect(err error) error {
	if err == nil {
		return nil
	}
	var done *connect.Error
	if As(err) == nil && errors.As(err, &done) {
		return done
	}
	e := normal(err)
	out := connect.NewError(kindToCode[e.Kind], errors.New(e.Error()))
	if e.RetryAfter > 0 {
		out.Meta().Set("Retry-After", strconv.FormatFloat(math.Ceil(e.RetryAfter.Seconds()), 'f', 0, 64))
	}
	if detail, derr := connect.NewErrorDetail(e.info()); derr == nil {
		out.AddDetail(detail)
	}
	return out
}

// FromConnect converts a Connect client's error to an Error; nil for nil.
func FromConnect(err error) error {
	if err == nil || As(err) != nil {
		return err
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return normal(err)
	}
	for _, detail := range ce.Details() {
		if value, derr := detail.Value(); derr == nil {
			if info, ok := value.(*errorv1.ErrorInfo); ok {
				return fromInfo(ce.Code(), ce.Message(), info, err).WithRetryAfter(retryAfter(ce))
			}
		}
	}
	if ce.Code() == connect.CodeCanceled && !connect.IsWireError(err) && !errors.Is(err, context.Canceled) {
		// Connect takes a connection that was reset for the caller's own doing.
		return fromInfo(connect.CodeUnavailable, ce.Message(), nil, err)
	}
	return fromInfo(ce.Code(), ce.Message(), nil, err).WithRetryAfter(retryAfter(ce))
}

// retryAfter returns the seconds of the header Retry-After; 0 if there are none.
func retryAfter(e *connect.Error) time.Duration {
	seconds, err := strconv.ParseUint(e.Meta().Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second //nolint:gosec // 31 bits
}

// ToGRPC returns err as a gRPC status with an ErrorInfo detail; nil for nil.
func ToGRPC(err error) error {
	if err == nil {
		return nil
	}
	if As(err) == nil {
		if _, ok := status.FromError(err); ok {
			return err
		}
	}
	e := normal(err)
	st := status.New(codes.Code(kindToCode[e.Kind]), e.Error())
	if with, derr := st.WithDetails(protoadapt.MessageV1Of(e.info())); derr == nil {
		st = with
	}
	return st.Err()
}

// FromGRPC converts a gRPC client's error to an Error; nil for nil.
func FromGRPC(err error) error {
	if err == nil || As(err) != nil {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return normal(err)
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errorv1.ErrorInfo); ok {
			return fromInfo(connect.Code(st.Code()), st.Message(), info, err)
		}
	}
	return fromInfo(connect.Code(st.Code()), st.Message(), nil, err)
}
