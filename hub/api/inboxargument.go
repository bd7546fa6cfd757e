package api

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// longArgument is how much of a text an item has itself, in bytes.
	longArgument = 32 << 10
	// argumentPiece is how many bytes of it one call returns.
	argumentPiece = 256 << 10
)

// ReadInboxArgument returns a piece of a text among an item's arguments, or of its
// decision.
func (h *Inbox) ReadInboxArgument(ctx context.Context, req *deckhandv1.ReadInboxArgumentRequest) (*deckhandv1.ReadInboxArgumentResponse, error) {
	org, m := auth.From(ctx).OrgID, req
	id, err := h.Inbox.Find(ctx, viewer(ctx), m.GetItemId())
	if err != nil {
		return nil, err
	}
	row, err := h.Inbox.Get(ctx, org, id)
	if err != nil {
		return nil, err
	}
	var text string
	var found bool
	if m.GetInDecision() {
		var d inbox.CallDecision
		if d, err = inbox.DecisionOf(row.InboxItem); err != nil {
			return nil, err
		}
		text, found = longTexts(&d)[m.GetPointer()]
	} else {
		text, found = textAt(object(row.InboxItem.Arguments), m.GetPointer())
	}
	if !found {
		return nil, fault.New(fault.NotFound, "%s has no text at %q", id, m.GetPointer()).WithObject(id).
			WithFix("pointer is one of the item's long_arguments, such as /content, or with in_decision one of the decision's long_texts")
	}
	size := int64(len(text))
	if m.GetOffset() > size || m.GetOffset() < size && !utf8.RuneStart(text[m.GetOffset()]) {
		return nil, fault.New(fault.Invalid, "offset %d is not the beginning of a character among the %d bytes", m.GetOffset(), size).WithObject(id).
			WithFix("begin at 0, then go on at next_offset")
	}
	piece := textcut.WholeRunes(text[m.GetOffset():], argumentPiece)
	return &deckhandv1.ReadInboxArgumentResponse{Text: piece, NextOffset: m.GetOffset() + int64(len(piece)), SizeBytes: size}, nil
}

// beginnings returns arguments with the beginnings of long texts, and which those
// are.
func beginnings(arguments *structpb.Struct) (*structpb.Struct, []*deckhandv1.LongArgument) {
	var long []*deckhandv1.LongArgument
	if proto.Size(arguments) <= longArgument {
		return arguments, nil
	}
	var walk func(v *structpb.Value, pointer string)
	walk = func(v *structpb.Value, pointer string) {
		switch kind := v.GetKind().(type) {
		case *structpb.Value_StringValue:
			if text := kind.StringValue; len(text) > longArgument {
				long = append(long, longText(pointer, text))
				kind.StringValue = textcut.WholeRunes(text, longArgument)
			}
		case *structpb.Value_StructValue:
			for name, field := range kind.StructValue.GetFields() {
				walk(field, pointer+"/"+escapePointer.Replace(name))
			}
		case *structpb.Value_ListValue:
			for i, one := range kind.ListValue.GetValues() {
				walk(one, pointer+"/"+strconv.Itoa(i))
			}
		}
	}
	walk(structpb.NewStructValue(arguments), "")
	slices.SortFunc(long, func(a, b *deckhandv1.LongArgument) int { return strings.Compare(a.GetPointer(), b.GetPointer()) })
	return arguments, long
}

// longText describes a text that is sent in pieces.
func longText(pointer, text string) *deckhandv1.LongArgument {
	return &deckhandv1.LongArgument{
		Pointer: pointer, SizeBytes: int64(len(text)), Lines: int64(strings.Count(strings.TrimSuffix(text, "\n"), "\n")) + 1,
	}
}

// longTexts returns the texts of a decision that may be long, by their JSON
// Pointers.
func longTexts(d *inbox.CallDecision) map[string]string {
	return map[string]string{"/definition": d.Definition, "/agreed_definition": d.AgreedDefinition, "/program": d.Program}
}

// RFC 6901, section 3.
var (
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
)

func textAt(arguments *structpb.Struct, pointer string) (string, bool) {
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return "", false
	}
	v := structpb.NewStructValue(arguments)
	for _, part := range strings.Split(rest, "/") {
		switch kind := v.GetKind().(type) {
		case *structpb.Value_StructValue:
			v = kind.StructValue.GetFields()[unescapePointer.Replace(part)]
		case *structpb.Value_ListValue:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(kind.ListValue.GetValues()) {
				return "", false
			}
			v = kind.ListValue.GetValues()[i]
		default:
			return "", false
		}
	}
	text, ok := v.GetKind().(*structpb.Value_StringValue)
	if !ok {
		return "", false
	}
	return text.StringValue, true
}

// callDecision returns what an item shows of the decision about its call.
func callDecision(row db.GetInboxItemRow) *deckhandv1.CallDecision {
	d, err := inbox.DecisionOf(row.InboxItem)
	if err != nil {
		return nil
	}
	return decisionMessage(row, d)
}

// placed returns an item without its node if the call's arguments name the nodes that it is
// about: that of the task's workspace means nothing.
func placed(row db.GetInboxItemRow, d inbox.CallDecision) db.GetInboxItemRow {
	if d.OnMachine && d.User == "" {
		row.NodeID, row.NodeName = nil, ""
	}
	return row
}

func decisionMessage(row db.GetInboxItemRow, d inbox.CallDecision) *deckhandv1.CallDecision {
	row = placed(row, d)
	m := &deckhandv1.CallDecision{
		Source: d.Source, Policy: d.Policy, Effect: string(d.Effect), Passkey: d.Passkey, OnMachine: d.OnMachine, Reversible: d.Reversible,
		Rule: d.Rule, PolicyVersion: d.PolicyVersion, Why: d.Why, Unclear: d.Unclear, NodeId: store.Text(row.NodeID), NodeName: row.NodeName,
		Folder: d.Folder, User: d.User, TimeoutSeconds: d.TimeoutSeconds, Hosts: d.Hosts, Irreversible: d.Irreversible,
		Definition: textcut.WholeRunes(d.Definition, longArgument), AgreedDefinition: textcut.WholeRunes(d.AgreedDefinition, longArgument),
		Program: textcut.WholeRunes(d.Program, longArgument), Unsent: d.Unsent,
	}
	if r := d.Request; r != nil {
		m.Request = &deckhandv1.CallRequest{
			Method: r.Method, Host: r.Host, AsciiHost: r.ASCIIHost, MixedLabels: r.MixedLabels, Refused: r.Refused, Allow: r.Allow, Credentials: r.Credentials,
		}
	}
	for _, one := range d.Dangers {
		m.Dangers = append(m.Dangers, &deckhandv1.CallDanger{Kind: string(one.Kind), What: one.What, Command: one.Command, Line: int32(one.Line)}) //nolint:gosec // a line of a script
	}
	for _, one := range d.Commands {
		m.Commands = append(m.Commands, &deckhandv1.CallCommand{Text: one.Text, Line: int32(one.Line), Via: one.Via, Effect: string(one.Effect)}) //nolint:gosec // a line of a script
	}
	texts := longTexts(&d)
	for _, pointer := range slices.Sorted(maps.Keys(texts)) {
		if text := texts[pointer]; len(text) > longArgument {
			m.LongTexts = append(m.LongTexts, longText(pointer, text))
		}
	}
	return m
}
