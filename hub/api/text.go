package api

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Text refuses requests with a NUL character in a text, which a database does
// not take. What workers report is cleaned where it is stored: it quotes
// commands and models, and must not be lost.
func Text() connect.Interceptor {
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if m, ok := req.Any().(proto.Message); ok && !strings.Contains(req.Spec().Procedure, ".WorkerService/") {
				if err := withoutNUL(m); err != nil {
					return nil, err
				}
			}
			return next(ctx, req)
		}
	})
}

func withoutNUL(m proto.Message) error {
	return protorange.Range(m.ProtoReflect(), func(values protopath.Values) error {
		last := values.Index(-1)
		text, ok := last.Value.Interface().(string)
		if !ok || !strings.Contains(text, "\x00") {
			return nil
		}
		return fault.New(fault.Invalid, "%s has a NUL character", fieldOf(values.Path)).WithFix("take it out")
	})
}

// fieldOf names the field that a path ends in.
func fieldOf(path protopath.Path) protoreflect.Name {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Kind() == protopath.FieldAccessStep {
			return path[i].FieldDescriptor().Name()
		}
	}
	return "the request"
}
