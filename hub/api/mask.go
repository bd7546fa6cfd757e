package api

import (
	"errors"
	"slices"
	"strings"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// masked copies the fields of change that a mask names into current, and returns it; without a
// mask it returns change. What the mask names and change does not have is cleared. fixed are
// fields that a mask may not name.
func masked[M proto.Message](current, change M, mask *fieldmaskpb.FieldMask, fixed ...string) (M, error) {
	if mask == nil || len(mask.GetPaths()) == 0 {
		return change, nil
	}
	to, from := current.ProtoReflect(), change.ProtoReflect()
	fields := from.Descriptor().Fields()
	for _, path := range mask.GetPaths() {
		f := fields.ByName(protoreflect.Name(path))
		if f == nil || slices.Contains(fixed, path) {
			return current, fault.New(fault.Invalid, "update_mask has %.100q, which is no field to change", path).WithFix("use %s", strings.Join(maskable(fields, fixed), ", "))
		}
		if from.Has(f) {
			to.Set(f, from.Get(f))
		} else {
			to.Clear(f)
		}
	}
	return current, nil
}

func maskable(fields protoreflect.FieldDescriptors, fixed []string) (out []string) {
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !slices.Contains(fixed, name) {
			out = append(out, name)
		}
	}
	return out
}

// alike sets the fields of a message that another one has with the same name and type.
func alike[M proto.Message](into M, from proto.Message) M {
	to, source := into.ProtoReflect(), from.ProtoReflect()
	source.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		own := to.Descriptor().Fields().ByName(f.Name())
		if own != nil && own.Kind() == f.Kind() && own.Cardinality() == f.Cardinality() && own.Message() == f.Message() {
			to.Set(own, v)
		}
		return true
	})
	return into
}

// validated checks a message that was put together from a request, as the interceptor checks
// requests.
func validated(m proto.Message) error {
	err := protovalidate.Validate(m)
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	out := connect.NewError(connect.CodeInvalidArgument, invalid)
	if detail, err := connect.NewErrorDetail(invalid.ToProto()); err == nil {
		out.AddDetail(detail)
	}
	return out
}
