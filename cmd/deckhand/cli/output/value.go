package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// EnumName returns an enum's value as people write it: "running" for
// TASK_STATE_RUNNING.
func EnumName[E interface{ String() string }](value E) string {
	name := value.String()
	for _, prefix := range []string{
		"TASK_STATE_", "STEP_STATE_", "AGENT_STATUS_", "INBOX_KIND_", "INBOX_STATE_", "TOOL_CATEGORY_", "TRIGGER_KIND_", "TRIGGER_STATE_", "DELIVERY_STATE_", "SEARCH_KIND_", "MEMORY_TYPE_", "SCOPE_KIND_",
	} {
		name = strings.TrimPrefix(name, prefix)
	}
	return strings.ToLower(name)
}

// ModelName returns provider and model; a script is never shown as a model.
func ModelName(provider, model string) string {
	switch {
	case provider == "script":
		return "scripted (no model)"
	case provider == "" || model == "":
		return provider + model
	}
	return provider + "/" + model
}

// Cost returns what was spent, in dollars with four decimals.
func Cost(u *deckhandv1.Usage) string { return fmt.Sprintf("$%.4f", float64(u.GetCostMicros())/1e6) }

// Tokens returns all tokens that were used, cached ones included.
func Tokens(u *deckhandv1.Usage) int64 {
	return u.GetInputTokens() + u.GetOutputTokens() + u.GetCacheReadTokens() + u.GetCacheWriteTokens()
}

// Moment returns a time in the local time zone; empty for none.
func Moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.RFC3339)
}

// Took returns how long something took; empty while it has not ended.
func Took(from, to *timestamppb.Timestamp) string {
	if from == nil || to == nil {
		return ""
	}
	return Duration(to.AsTime().Sub(from.AsTime()))
}

// Size returns a number of bytes with its unit; empty for none.
func Size(bytes int64) string {
	if bytes <= 0 {
		return ""
	}
	return bytesize.Format(bytes)
}

// Labels returns labels as key=value, in order of their keys.
func Labels(m map[string]string) string {
	parts := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, key+"="+m[key])
	}
	return strings.Join(parts, ",")
}

// Arguments returns a tool call's arguments on one line: the only one's value,
// or name=value for each.
func Arguments(s *structpb.Struct) string {
	fields := s.GetFields()
	parts := make([]string, 0, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if len(fields) == 1 {
			return literal.Line(Text(fields[key]))
		}
		parts = append(parts, literal.Line(key)+"="+literal.Line(Text(fields[key])))
	}
	return strings.Join(parts, " ")
}

// Field returns a field of a JSON object as text; "" when it is not there.
func Field(s *structpb.Struct, name string) string { return Text(s.GetFields()[name]) }

// Text returns a JSON value as text: a string without its quotes, "" for null.
func Text(v *structpb.Value) string {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return kind.StringValue
	case *structpb.Value_NullValue, nil:
		return ""
	}
	raw, err := v.MarshalJSON()
	if err != nil {
		return ""
	}
	return string(raw)
}

// Final reports whether a task's state never changes again.
func Final(s deckhandv1.TaskState) bool {
	return s >= deckhandv1.TaskState_TASK_STATE_SUCCEEDED
}

// USD returns micro-dollars as dollars with two decimals.
func USD(micros int64) string { return fmt.Sprintf("$%.2f", float64(micros)/1e6) }

// LineWidth bounds what is shown of one argument list or payload, in cells.
const LineWidth = 160

// WithReason returns a word with its reason in brackets.
func WithReason(what, reason string) string {
	if reason == "" || what == "" {
		return what + reason
	}
	return what + " (" + reason + ")"
}

// Shorten cuts a safe line to a width in cells.
func Shorten(s string, width int) string { return ansi.Truncate(s, width, "…") }
