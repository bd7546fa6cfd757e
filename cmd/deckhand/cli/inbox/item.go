package inbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func getItem(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.InboxItem, error) {
	res, err := client.Inbox.GetInboxItem(ctx, &deckhandv1.GetInboxItemRequest{ItemId: id})
	if err != nil {
		return nil, err
	}
	return res.GetItem(), nil
}

// wholeItem returns an item with the whole of its arguments, however long they
// are.
func wholeItem(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.InboxItem, error) {
	item, err := getItem(ctx, client, id)
	if err != nil {
		return nil, err
	}
	for _, long := range item.GetLongArguments() {
		whole, err := wholeText(ctx, client, item.GetId(), long, false)
		if err != nil {
			return nil, err
		}
		if !setText(item.GetArguments(), long.GetPointer(), whole) {
			return nil, fault.New(fault.Internal, "the item has no argument %s", termsafe.Line(long.GetPointer()))
		}
	}
	for _, long := range item.GetDecision().GetLongTexts() {
		whole, err := wholeText(ctx, client, item.GetId(), long, true)
		if err != nil {
			return nil, err
		}
		switch long.GetPointer() {
		case "/definition":
			item.Decision.Definition = whole
		case "/agreed_definition":
			item.Decision.AgreedDefinition = whole
		case "/program":
			item.Decision.Program = whole
		default:
			return nil, fault.New(fault.Internal, "the decision has a text %s that this program does not know", termsafe.Line(long.GetPointer())).
				WithFix("install the hub's version of this program")
		}
	}
	item.LongArguments = nil
	if item.GetDecision() != nil {
		item.Decision.LongTexts = nil
	}
	return item, nil
}

// wholeText reads a text of an item, among its arguments or of its decision, to
// the end.
func wholeText(ctx context.Context, client *sdk.Client, id string, long *deckhandv1.LongArgument, inDecision bool) (string, error) {
	var whole strings.Builder
	for at := int64(0); at < long.GetSizeBytes(); {
		res, err := client.Inbox.ReadInboxArgument(ctx, &deckhandv1.ReadInboxArgumentRequest{
			ItemId: id, Pointer: long.GetPointer(), Offset: at, InDecision: inDecision,
		})
		if err != nil {
			return "", err
		}
		if res.GetNextOffset() <= at {
			return "", fault.New(fault.Internal, "the hub sent nothing of %s after byte %d", termsafe.Line(long.GetPointer()), at)
		}
		whole.WriteString(res.GetText())
		at = res.GetNextOffset()
	}
	return whole.String(), nil
}

// setText sets the text at a JSON Pointer (RFC 6901) within arguments.
func setText(arguments *structpb.Struct, pointer, text string) bool {
	v := structpb.NewStructValue(arguments)
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		switch kind := v.GetKind().(type) {
		case *structpb.Value_StructValue:
			v = kind.StructValue.GetFields()[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		case *structpb.Value_ListValue:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(kind.ListValue.GetValues()) {
				return false
			}
			v = kind.ListValue.GetValues()[i]
		default:
			return false
		}
	}
	one, ok := v.GetKind().(*structpb.Value_StringValue)
	if ok {
		one.StringValue = text
	}
	return ok
}

func noun(e *env.Env) output.Noun[*deckhandv1.InboxItem] {
	type item = *deckhandv1.InboxItem
	return output.Noun[item]{
		Name: (item).GetId,
		Columns: []output.Column[item]{
			{Header: "id", Value: (item).GetId},
			{Header: "kind", Value: func(x item) string { return output.EnumName(x.GetKind()) }},
			{Header: "state", Value: itemState},
			{Header: "agent", Value: (item).GetAgentName},
			{Header: "left", Value: func(x item) string { return timeLeft(e, x) }},
			{Header: "age", Value: func(x item) string { return e.Age(x.GetAskedAt()) }},
			{Header: "what", Value: func(x item) string { return literal.Line(itemTitle(x)) }, Max: 60},
			{Header: "risk", Value: risk},
			{Header: "why", Value: func(x item) string { return literal.Line(x.GetWhy()) }, Max: 60},
			{Header: "tool", Value: (item).GetTool, Wide: true},
			{Header: "task", Value: (item).GetTaskId, Wide: true},
			{Header: "title", Value: (item).GetTaskTitle, Wide: true},
			{Header: "by", Value: (item).GetSubmittedBy, Wide: true},
			{Header: "category", Value: func(x item) string { return output.EnumName(x.GetCategory()) }, Wide: true},
			{Header: "expires", Value: func(x item) string { return output.Moment(x.GetExpiresAt()) }, Wide: true},
			{Header: "on expiry", Value: (item).GetOnExpiry, Wide: true},
			{Header: "snoozed until", Value: func(x item) string { return output.Moment(x.GetSnoozedUntil()) }, Wide: true},
			{Header: "step", Value: stepOf, Alone: true},
			{Header: "rule", Value: func(x item) string { return x.GetDecision().GetRule() }, Alone: true},
			{Header: "policy", Value: func(x item) string { return x.GetDecision().GetPolicyVersion() }, Alone: true},
			{Header: "node", Value: func(x item) string { return output.WithReason(x.GetNodeId(), x.GetDecision().GetNodeName()) }, Alone: true},
			{Header: "folder", Value: func(x item) string { return literal.Line(x.GetDecision().GetFolder()) }, Alone: true},
			{Header: "user", Value: func(x item) string { return x.GetDecision().GetUser() }, Alone: true},
			{Header: "time-out", Value: itemTimeout, Alone: true},
			{Header: "may reach", Value: func(x item) string { return literal.Line(strings.Join(x.GetDecision().GetHosts(), ", ")) }, Alone: true},
			{Header: "cannot be undone", Value: func(x item) string { return x.GetDecision().GetIrreversible() }, Alone: true},
			{Header: "exec id", Value: (item).GetExecId, Alone: true},
			{Header: "asked", Value: func(x item) string { return output.Moment(x.GetAskedAt()) }, Alone: true},
			{Header: "answered by", Value: (item).GetAnsweredBy, Alone: true},
			{Header: "closed", Value: func(x item) string { return output.Moment(x.GetAnsweredAt()) }, Alone: true},
			{Header: "reason", Value: (item).GetReason, Alone: true},
			{Header: "options", Value: func(x item) string { return indented(optionLines(x)) }, Block: true},
			{Header: "attachments", Value: func(x item) string { return indented(attachmentLines(x)) }, Block: true},
			{Header: "default", Value: func(x item) string { return indented(x.GetQuestion().GetDefaultAnswer()) }, Block: true},
			{Header: "summary", Value: func(x item) string { return indented(x.GetReview().GetSummary()) }, Block: true},
			{Header: "files", Value: func(x item) string { return indented(strings.Join(x.GetReview().GetPaths(), "\n")) }, Block: true},
			{Header: "hosts", Value: func(x item) string { return indented(reviewedHosts(x)) }, Block: true},
			{Header: "looks like", Value: func(x item) string { return indented(x.GetOffer().GetShape()) }, Block: true},
			{Header: "not understood", Value: func(x item) string { return indented(strings.Join(literalLines(x.GetDecision().GetUnclear()), "\n")) }, Block: true},
			{Header: "definition", Value: func(x item) string { return indented(literal.Block(x.GetDecision().GetDefinition())) }, Block: true},
			{Header: "agreed definition", Value: func(x item) string { return indented(agreedDefinition(x)) }, Block: true},
			{Header: "commands", Value: func(x item) string { return indented(commandLines(x.GetDecision())) }, Block: true},
			{Header: "typed into", Value: func(x item) string { return indented(literal.Block(x.GetDecision().GetProgram())) }, Block: true},
			{Header: "typed behind", Value: func(x item) string { return indented(literal.Block(x.GetDecision().GetUnsent())) }, Block: true},
			{Header: "arguments", Value: func(x item) string { return indented(lines(x.GetArguments())) }, Block: true},
			{Header: "look closely", Value: func(x item) string { return indented(literal.Note(everyText(x.GetArguments()))) }, Block: true},
			{Header: "would change", Value: func(x item) string { return indented(changeLines(x.GetChanges(), x.GetChangesUnknown())) }, Block: true},
			{Header: "would push", Value: func(x item) string { return indented(literal.Block(pushPreview(x))) }, Block: true},
			{Header: "reasoning", Value: func(x item) string { return indented(x.GetReasoning()) }, Block: true},
			{Header: "stopped by", Value: func(x item) string { return indented(stopLines(x)) }, Block: true},
			{Header: "persona would change", Value: func(x item) string { return indented(literal.Block(x.GetStop().GetChange().GetDiff())) }, Block: true},
			{Header: "evidence", Value: func(x item) string { return indented(x.GetEvidence()) }, Block: true},
			{Header: "changed arguments", Value: func(x item) string { return indented(lines(x.GetChangedArguments())) }, Block: true},
			{Header: "reply", Value: func(x item) string { return indented(x.GetReply()) }, Block: true},
		},
	}
}

// pushPreview returns what a push would push: the arguments of the call do not say it.
func pushPreview(x *deckhandv1.InboxItem) string {
	if x.GetTool() != toolname.GitPush {
		return ""
	}
	return x.GetPreview()
}

// itemTitle says in a line what an item is about.
func itemTitle(x *deckhandv1.InboxItem) string { return cmp.Or(x.GetTitle(), x.GetPreview()) }

// timeLeft returns the time until an open item expires; "-" if it does not.
func timeLeft(e *env.Env, x *deckhandv1.InboxItem) string {
	if x.GetExpiresAt() == nil || x.GetState() != deckhandv1.InboxState_INBOX_STATE_OPEN {
		return "-"
	}
	return output.Age(x.GetExpiresAt().AsTime(), e.Now())
}

// risk says what is dangerous in a call, or that its tool is.
func risk(x *deckhandv1.InboxItem) string {
	if kinds := dangerKinds(x.GetDecision()); len(kinds) > 0 {
		return strings.Join(kinds, ", ")
	}
	if x.GetKind() == deckhandv1.InboxKind_INBOX_KIND_APPROVAL && x.GetCategory() == deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS {
		return "dangerous tool"
	}
	return "-"
}

// stopLines says what stopped work, with its figures.
func stopLines(x *deckhandv1.InboxItem) string {
	s := x.GetStop()
	if s == nil {
		return ""
	}
	out := []string{literal.Line(s.GetTitle())}
	if s.GetLimitName() != "" {
		out = append(out, fmt.Sprintf("limit: %s of %s", limitText(x, s.GetLimitMost()), s.GetLimitName()))
	}
	if s.GetScope() != "" {
		out = append(out, fmt.Sprintf("spent: %s of %s, and the next call may cost %s", limitText(x, s.GetSpentMicros()), limitText(x, s.GetLimitMicros()), limitText(x, s.GetAmountMicros())))
	}
	if offer := max(s.GetLimitOffer(), s.GetOfferMicros()); offer > 0 {
		out = append(out, "offered: "+limitText(x, offer))
	}
	if s.GetWaitingTasks() > 0 {
		out = append(out, fmt.Sprintf("paused tasks that wait: %d", s.GetWaitingTasks()))
	}
	if p := s.GetChange().GetProblem(); p != "" {
		out = append(out, literal.Line(p))
	}
	return strings.Join(out, "\n")
}

func itemTimeout(x *deckhandv1.InboxItem) string {
	if s := x.GetDecision().GetTimeoutSeconds(); s > 0 {
		return time.Duration(s * float64(time.Second)).String()
	}
	return ""
}

// dangerKinds returns the kinds of danger in a call, each once.
func dangerKinds(x *deckhandv1.CallDecision) []string {
	var out []string
	for _, d := range x.GetDangers() {
		if kind := strings.ReplaceAll(d.GetKind(), "_", " "); !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out
}

func dangerLines(x *deckhandv1.CallDecision) string {
	var out []string
	for _, d := range x.GetDangers() {
		out = append(out, fmt.Sprintf("line %d, %s: %s: %s", d.GetLine(), strings.ReplaceAll(d.GetKind(), "_", " "), literal.Line(d.GetWhat()), literal.Line(d.GetCommand())))
	}
	return strings.Join(out, "\n")
}

// commandLines lists the commands of a script; nothing where the script is one
// command by itself.
func commandLines(x *deckhandv1.CallDecision) string {
	commands := x.GetCommands()
	if len(commands) == 1 && len(commands[0].GetVia()) == 0 {
		return ""
	}
	var out []string
	for _, c := range commands {
		line := fmt.Sprintf("line %d: %s", c.GetLine(), literal.Line(c.GetText()))
		if len(c.GetVia()) > 0 {
			line += " (by " + literal.Line(strings.Join(c.GetVia(), ", ")) + ")"
		}
		if c.GetEffect() != "" {
			line += " [" + c.GetEffect() + "]"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func literalLines(texts []string) []string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = literal.Line(s)
	}
	return out
}

// stepOf names the step that an item is about; "" where it is about a task.
func stepOf(x *deckhandv1.InboxItem) string {
	if x.GetStepId() == "" {
		return ""
	}
	return fmt.Sprintf("%s, number %d", x.GetStepId(), x.GetStepNumber())
}

// reviewedHosts returns a line for each host that a run's commands connected to.
func reviewedHosts(x *deckhandv1.InboxItem) string {
	var out []string
	for _, h := range x.GetReview().GetHosts() {
		out = append(out, fmt.Sprintf("%s: %d requests, %d bytes sent, %d received", termsafe.Line(h.GetHost()), h.GetRequests(), h.GetSentBytes(), h.GetReceivedBytes()))
	}
	return strings.Join(out, "\n")
}

// indented keeps what an agent wrote from passing for a field or a heading of
// what a person decides by.
func indented(text string) string {
	if text = strings.TrimRight(termsafe.Text(text), "\n"); text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

// agreedDefinition returns what a tool of an MCP server was when it was agreed on,
// and says so where it is new.
func agreedDefinition(x *deckhandv1.InboxItem) string {
	d := x.GetDecision()
	if d.GetDefinition() != "" && d.GetAgreedDefinition() == "" {
		return "(none: the tool is new)"
	}
	return literal.Block(d.GetAgreedDefinition())
}

// itemState says where an item stands, and what the answer was.
func itemState(x *deckhandv1.InboxItem) string {
	return output.WithReason(output.EnumName(x.GetState()), x.GetAnswer())
}

// linesOf returns a line for each of a list.
func linesOf[T any](list []T, line func(T) string) string {
	out := make([]string, len(list))
	for i, one := range list {
		out[i] = line(one)
	}
	return strings.Join(out, "\n")
}

// lines returns a JSON object with a line for each field, exactly as it will be
// used; a value's further lines are indented, so that none passes for a field.
func lines(s *structpb.Struct) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.GetFields())) {
		out = append(out, literal.Line(key)+": "+strings.ReplaceAll(literal.Block(output.Text(s.GetFields()[key])), "\n", "\n  "))
	}
	return strings.Join(out, "\n")
}

// everyText returns the names and texts of a JSON object, one after another.
func everyText(s *structpb.Struct) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.GetFields())) {
		out = append(out, key, output.Text(s.GetFields()[key]))
	}
	return strings.Join(out, "\n")
}
