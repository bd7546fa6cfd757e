package api

import (
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1/deckhandv1connect"
)

// Text refuses requests with a NUL character in a text, which PostgreSQL cannot store.
// The reports of workers quote commands and models and must not be lost: in them such
// characters are replaced, except in names of the hub's own objects.
func Text() connect.Interceptor { return text{} }

type text struct{}

func (text) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if err := withoutNUL(req.Any(), req.Spec().Procedure); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func (text) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (text) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, textConn{conn})
	}
}

// textConn is a stream whose requests are checked as they arrive.
type textConn struct{ connect.StreamingHandlerConn }

func (c textConn) Receive(m any) error {
	if err := c.StreamingHandlerConn.Receive(m); err != nil {
		return err
	}
	return withoutNUL(m, c.Spec().Procedure)
}

func withoutNUL(request any, procedure string) error {
	m, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	if strings.HasPrefix(procedure, "/"+deckhandv1connect.WorkerServiceName+"/") {
		if err := cleaned(m.ProtoReflect()); err != nil {
			return err
		}
	}
	return protorange.Range(m.ProtoReflect(), func(values protopath.Values) error {
		text, ok := values.Index(-1).Value.Interface().(string)
		if !ok || !strings.Contains(text, nul) {
			return nil
		}
		return refusedNUL(fieldOf(values.Path))
	})
}

const nul = "\x00"

func refusedNUL(field protoreflect.Name) error {
	return fault.New(fault.Invalid, "%s has a NUL character", field).WithFix("take it out")
}

// cleaned replaces NUL characters in a worker's message.
func cleaned(m protoreflect.Message) (err error) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			err = cleanedMap(f, v.Map())
		case f.IsList():
			for i := range v.List().Len() {
				var value protoreflect.Value
				if value, err = cleanedValue(f, v.List().Get(i)); err != nil {
					return false
				}
				v.List().Set(i, value)
			}
		default:
			var value protoreflect.Value
			if value, err = cleanedValue(f, v); err == nil && f.Kind() == protoreflect.StringKind {
				m.Set(f, value)
			}
		}
		return err == nil
	})
	return err
}

// cleanedMap does it to a map's values; its keys are names.
func cleanedMap(f protoreflect.FieldDescriptor, in protoreflect.Map) (err error) {
	in.Range(func(key protoreflect.MapKey, v protoreflect.Value) bool {
		var value protoreflect.Value
		if value, err = cleanedValue(f.MapValue(), v); err == nil {
			in.Set(key, value)
		}
		return err == nil
	})
	return err
}

func cleanedValue(f protoreflect.FieldDescriptor, v protoreflect.Value) (protoreflect.Value, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return v, cleaned(v.Message())
	case protoreflect.StringKind:
		if !strings.Contains(v.String(), nul) {
			return v, nil
		}
		if slices.Contains(named, f.Name()) || f.Parent().Name() == "RegisterWorkerRequest" {
			return v, refusedNUL(f.Name())
		}
		return protoreflect.ValueOfString(strings.ReplaceAll(v.String(), nul, "\uFFFD")), nil
	default:
		return v, nil
	}
}

// named are the fields of workers' requests that name something of the hub's.
var named = []protoreflect.Name{"worker_id", "task_id", "step_id", "token", "type"}

// fieldOf names the field that a path ends in.
func fieldOf(path protopath.Path) protoreflect.Name {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Kind() == protopath.FieldAccessStep {
			return path[i].FieldDescriptor().Name()
		}
	}
	return "the request"
}
