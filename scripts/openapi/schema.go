package main

import (
	"fmt"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// object is a JSON object of the document.
type object = map[string]any

// comment returns the comment of a declaration as one paragraph for each of its own.
func comment(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	var out []string
	for part := range strings.SplitSeq(text, "\n\n") {
		if part = strings.Join(strings.Fields(part), " "); part != "" {
			out = append(out, part)
		}
	}
	return strings.Join(out, "\n\n")
}

// nameOf returns the name of a type in the document.
func nameOf(d protoreflect.Descriptor) string {
	name := strings.TrimPrefix(string(d.FullName()), "deckhand.v1.")
	return strings.TrimPrefix(name, "deckhand.error.v1.")
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// wellKnown are the types that have a JSON form of their own.
var wellKnown = map[protoreflect.FullName]object{
	"google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
	"google.protobuf.Duration":  {"type": "string", "pattern": `^-?[0-9]+(\.[0-9]{1,9})?s$`, "examples": []any{"90s"}},
	"google.protobuf.Struct":    {"type": "object", "additionalProperties": true},
	"google.protobuf.Value":     {},
	"google.protobuf.ListValue": {"type": "array", "items": object{}},
	"google.protobuf.Empty":     {"type": "object"},
}

// message returns the schema of a message without some of its fields, and adds the types
// that it refers to.
func (d *document) message(m protoreflect.MessageDescriptor, without map[protoreflect.Name]bool) object {
	properties, required := object{}, []string{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if without[f.Name()] {
			continue
		}
		properties[f.JSONName()] = d.field(f)
		if needed(f) {
			required = append(required, f.JSONName())
		}
	}
	text := comment(m)
	for i := range m.Oneofs().Len() {
		if one := m.Oneofs().Get(i); !one.IsSynthetic() {
			text = strings.TrimSpace(text + "\n\n" + arms(one))
		}
	}
	out := object{"type": "object", "properties": properties}
	if text != "" {
		out["description"] = text
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// arms says which fields of a oneof may be set.
func arms(one protoreflect.OneofDescriptor) string {
	names := make([]string, one.Fields().Len())
	for i := range names {
		names[i] = "`" + one.Fields().Get(i).JSONName() + "`"
	}
	how := "At most"
	if rule, ok := proto.GetExtension(one.Options(), validate.E_Oneof).(*validate.OneofRules); ok && rule.GetRequired() {
		how = "Exactly"
	}
	return fmt.Sprintf("%s one of %s is set.", how, strings.Join(names, ", "))
}

func rulesOf(f protoreflect.FieldDescriptor) *validate.FieldRules {
	rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
	return rules
}

// needed reports whether a request without a field is refused.
func needed(f protoreflect.FieldDescriptor) bool {
	r := rulesOf(f)
	if f.ContainingOneof() != nil {
		return false
	}
	return r.GetRequired() || r.GetString().GetMinLen() > 0 || r.GetString().GetMinBytes() > 0 || r.GetRepeated().GetMinItems() > 0 || r.GetBytes().GetMinLen() > 0
}

// field returns the schema of a field.
func (d *document) field(f protoreflect.FieldDescriptor) object {
	rules := rulesOf(f)
	text := comment(f)
	var out object
	switch {
	case f.IsMap():
		out = object{"type": "object", "additionalProperties": d.one(f.MapValue(), rules.GetMap().GetValues(), &text)}
		if most := rules.GetMap().GetMaxPairs(); most > 0 {
			out["maxProperties"] = most
		}
	case f.IsList():
		items := rules.GetRepeated().GetItems()
		out = object{"type": "array", "items": d.one(f, items, &text)}
		if least := rules.GetRepeated().GetMinItems(); least > 0 {
			out["minItems"] = least
		}
		if most := rules.GetRepeated().GetMaxItems(); most > 0 {
			out["maxItems"] = most
		}
	default:
		out = d.one(f, rules, &text)
	}
	if text != "" {
		out["description"] = text
	}
	return out
}

// one returns the schema of one value. What cannot be said in a schema is added to the
// description.
func (d *document) one(f protoreflect.FieldDescriptor, rules *validate.FieldRules, text *string) object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return stringSchema(rules.GetString())
	case protoreflect.BytesKind:
		out := object{"type": "string", "contentEncoding": "base64"}
		if most := rules.GetBytes().GetMaxLen(); most > 0 {
			out["maxLength"] = (most + 2) / 3 * 4
		}
		return out
	case protoreflect.EnumKind:
		d.enum(f.Enum())
		return ref(nameOf(f.Enum()))
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return bounds(object{"type": "number", "format": "double"}, rules)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return bounds(object{"type": "integer", "format": "int32"}, rules)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return bounds(object{"type": "integer", "format": "int64", "minimum": 0}, rules)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		limits := bounds(object{}, rules)
		for _, l := range []struct{ key, words string }{
			{"minimum", "At least %v."}, {"maximum", "At most %v."}, {"exclusiveMinimum", "More than %v."}, {"exclusiveMaximum", "Less than %v."},
		} {
			if v, ok := limits[l.key]; ok {
				*text = strings.TrimSpace(*text + " " + fmt.Sprintf(l.words, v))
			}
		}
		return object{"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"}
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if known, ok := wellKnown[f.Message().FullName()]; ok {
			out := object{}
			for k, v := range known {
				out[k] = v
			}
			return out
		}
		d.add(f.Message())
		return ref(nameOf(f.Message()))
	}
	return object{}
}

func stringSchema(r *validate.StringRules) object {
	out := object{"type": "string"}
	if n := max(r.GetMinLen(), r.GetLen()); n > 0 {
		out["minLength"] = n
	}
	// A character has one byte or more.
	if n := r.GetMaxLen(); n > 0 {
		out["maxLength"] = n
	} else if n := max(r.GetMaxBytes(), r.GetLen()); n > 0 {
		out["maxLength"] = n
	}
	if p := r.GetPattern(); p != "" {
		out["pattern"] = p
	}
	if in := r.GetIn(); len(in) > 0 {
		out["enum"] = in
	}
	return out
}

// bounds adds the limits of a number.
func bounds(out object, rules *validate.FieldRules) object {
	if rules == nil {
		return out
	}
	r := rules.ProtoReflect()
	of := r.WhichOneof(r.Descriptor().Oneofs().ByName("type"))
	if of == nil || of.Message() == nil {
		return out
	}
	limits := r.Get(of).Message()
	limits.Range(func(l protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch l.Name() {
		case "gte":
			out["minimum"] = v.Interface()
		case "gt":
			out["exclusiveMinimum"] = v.Interface()
		case "lte":
			out["maximum"] = v.Interface()
		case "lt":
			out["exclusiveMaximum"] = v.Interface()
		}
		return true
	})
	return out
}

// add adds the schema of a message that another one refers to.
func (d *document) add(m protoreflect.MessageDescriptor) {
	name := nameOf(m)
	if _, ok := d.schemas[name]; ok {
		return
	}
	d.schemas[name] = object{} // it may refer to itself
	d.schemas[name] = d.message(m, nil)
}

// enum adds the schema of an enum, with what its values mean.
func (d *document) enum(e protoreflect.EnumDescriptor) {
	name := nameOf(e)
	if _, ok := d.schemas[name]; ok {
		return
	}
	var values []string
	lines := []string{comment(e)}
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		values = append(values, string(v.Name()))
		if text := comment(v); text != "" {
			lines = append(lines, fmt.Sprintf("- `%s`: %s", v.Name(), text))
		}
	}
	d.schemas[name] = object{"type": "string", "enum": values, "description": strings.TrimSpace(strings.Join(lines, "\n"))}
}
