package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) inboxCommand() *cobra.Command {
	cmd := group("inbox", "See what waits for a person, and answer it", `
The inbox has calls to approve, questions of agents, calls of which nobody knows
whether they took effect, runs in review mode to accept, and tasks that do not go
on by themselves. A task that waits holds no worker. The first answer counts; ids
may be shortened as long as they name one item.
`, `
deckhand inbox list
deckhand inbox show inbox_3q9
deckhand inbox approve inbox_3q9
deckhand inbox answer inbox_7bc "the one in Frankfurt"
deckhand inbox accept inbox_9xk
`)
	cmd.AddCommand(a.inboxListCommand(), a.inboxShowCommand(), a.inboxApproveCommand(), a.inboxRejectCommand(),
		a.inboxAnswerCommand(), a.inboxRetryCommand(), a.inboxSkipCommand(), a.inboxSuggestCommand(), a.inboxRequotaCommand(), a.inboxAskCommand(), a.inboxMarkCommand(),
		a.inboxAcceptCommand(), a.inboxChangesCommand(), a.inboxCloseCommand())
	return cmd
}

func (a *app) inboxListCommand() *cobra.Command {
	var kinds []string
	var all bool
	var limit int
	request := &deckhandv1.ListInboxRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what waits for a person, newest first",
		Example: `deckhand inbox list
deckhand inbox list --kind approval,unknown --task task_3q9
# also what has been answered, has expired, or whose task has ended
deckhand inbox list --all`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range kinds {
				kind := deckhandv1.InboxKind(deckhandv1.InboxKind_value["INBOX_KIND_"+strings.ToUpper(name)])
				if kind == deckhandv1.InboxKind_INBOX_KIND_UNSPECIFIED {
					return usage(cmd, "there is no kind of inbox item %q, the kinds are approval, question, unknown, review, escalation", name)
				}
				if !slices.Contains(request.Kinds, kind) {
					request.Kinds = append(request.Kinds, kind)
				}
			}
			if limit < 0 {
				return usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			if all {
				for state := int32(1); state < int32(len(deckhandv1.InboxState_name)); state++ {
					request.States = append(request.States, deckhandv1.InboxState(state))
				}
			}
			return a.inboxList(cmd.Context(), request, limit)
		},
	}
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only these kinds: approval, question, unknown, review, escalation")
	cmd.Flags().StringVar(&request.TaskId, "task", "", "only items of this task")
	cmd.Flags().StringVar(&request.AgentId, "agent", "", "only items of this agent's tasks")
	cmd.Flags().BoolVar(&all, "all", false, "include answered and expired items")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "continue from this page token")
	return cmd
}

func (a *app) inboxList(ctx context.Context, request *deckhandv1.ListInboxRequest, limit int) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var items []*deckhandv1.InboxItem
	for {
		request.PageSize = pageSize
		if limit > 0 {
			request.PageSize = int32(min(pageSize, limit-len(items)))
		}
		res, err := client.Inbox.ListInbox(ctx, connect.NewRequest(request))
		if err != nil {
			return err
		}
		items = append(items, res.Msg.GetItems()...)
		request.PageToken = res.Msg.GetNextPageToken()
		if request.PageToken == "" || limit > 0 && len(items) >= limit {
			break
		}
	}
	if err := output.List(a.printer(), a.inboxNoun(), items); err != nil {
		return err
	}
	switch {
	case request.PageToken != "":
		a.notef("there are more: add --page %s, or --limit 0 for all", request.PageToken)
	case len(items) == 0 && len(request.States) == 0:
		a.notef("Nothing to answer. Answered items: deckhand inbox list --all")
	case len(items) == 0:
		a.notef("there are no such items")
	}
	return nil
}

func (a *app) inboxShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show what is asked, with all that is needed to decide", Example: "deckhand inbox show inbox_3q9",
		Args: takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			item, err := wholeItem(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			if err := output.One(a.printer(), a.inboxNoun(), item); err != nil {
				return err
			}
			if a.format.ForPeople() && item.GetState() == deckhandv1.InboxState_INBOX_STATE_OPEN {
				if item.GetReview().GetFiles() > 0 {
					a.notef("see what changed: deckhand task diff %s", termsafe.Line(item.GetTaskId()))
				}
				if o := item.GetOffer(); o != nil {
					a.notef("%d calls like it were approved in 30 days, and none was rejected; to be asked no more: deckhand inbox approve %s --always shape",
						o.GetApprovals(), termsafe.Line(item.GetId()))
				}
				a.notef("answer it: %s", answers(enumName(item.GetKind()), item.GetId()))
			}
			return nil
		},
	}
}

func getItem(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.InboxItem, error) {
	res, err := client.Inbox.GetInboxItem(ctx, connect.NewRequest(&deckhandv1.GetInboxItemRequest{ItemId: id}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetItem(), nil
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
		res, err := client.Inbox.ReadInboxArgument(ctx, connect.NewRequest(&deckhandv1.ReadInboxArgumentRequest{
			ItemId: id, Pointer: long.GetPointer(), Offset: at, InDecision: inDecision,
		}))
		if err != nil {
			return "", err
		}
		if res.Msg.GetNextOffset() <= at {
			return "", fault.New(fault.Internal, "the hub sent nothing of %s after byte %d", termsafe.Line(long.GetPointer()), at)
		}
		whole.WriteString(res.Msg.GetText())
		at = res.Msg.GetNextOffset()
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

// answers names the commands that answer an item of that kind. It is safe to
// show: what is not of this program is escaped.
func answers(kind, id string) string {
	id = termsafe.Line(id)
	switch kind {
	case "approval":
		return fmt.Sprintf("deckhand inbox approve %s (or reject, skip)", id)
	case "question":
		return fmt.Sprintf("deckhand inbox answer %s TEXT (or reject)", id)
	case "unknown":
		return fmt.Sprintf("deckhand inbox retry %s (or skip; or mark it succeeded or failed)", id)
	case "review":
		return fmt.Sprintf("deckhand inbox accept %s (or changes, reject)", id)
	case "escalation":
		return fmt.Sprintf("deckhand inbox retry %s (or close)", id)
	}
	return "deckhand inbox show " + id
}

// maxWaiting is how many waiting tasks a list explains.
const maxWaiting = 5

// noteWaiting says below tasks why each of those that wait for a person does,
// and what to do. The hub's reason ends with the command.
func (a *app) noteWaiting(tasks ...*deckhandv1.Task) {
	if !a.format.ForPeople() {
		return
	}
	shown := 0
	for _, t := range tasks {
		switch t.GetState() {
		case deckhandv1.TaskState_TASK_STATE_AWAITING_APPROVAL, deckhandv1.TaskState_TASK_STATE_NEEDS_INPUT, deckhandv1.TaskState_TASK_STATE_REVIEW_NEEDED,
			deckhandv1.TaskState_TASK_STATE_ESCALATED:
		default:
			continue
		}
		if shown++; shown <= maxWaiting {
			a.notef("%s: %s", termsafe.Line(t.GetId()), termsafe.Line(t.GetReason()))
		}
	}
	if shown > maxWaiting {
		a.notef("%d more wait for a person: deckhand inbox list", shown-maxWaiting)
	}
}

func (a *app) inboxNoun() output.Noun[*deckhandv1.InboxItem] {
	type item = *deckhandv1.InboxItem
	return output.Noun[item]{
		Name: (item).GetId,
		Columns: []output.Column[item]{
			{Header: "id", Value: (item).GetId},
			{Header: "kind", Value: func(x item) string { return enumName(x.GetKind()) }},
			{Header: "state", Value: itemState},
			{Header: "agent", Value: (item).GetAgentName},
			{Header: "tool", Value: (item).GetTool},
			{Header: "age", Value: func(x item) string { return a.age(x.GetAskedAt()) }},
			{Header: "what", Value: func(x item) string { return literal.Line(itemTitle(x)) }, Max: 60},
			{Header: "dangers", Value: func(x item) string { return strings.Join(dangerKinds(x), ", ") }},
			{Header: "task", Value: (item).GetTaskId, Wide: true},
			{Header: "title", Value: (item).GetTaskTitle, Wide: true},
			{Header: "by", Value: (item).GetSubmittedBy, Wide: true},
			{Header: "category", Value: func(x item) string { return enumName(x.GetCategory()) }, Wide: true},
			{Header: "expires", Value: func(x item) string { return moment(x.GetExpiresAt()) }, Wide: true},
			{Header: "on expiry", Value: (item).GetOnExpiry, Wide: true},
			{Header: "why", Value: (item).GetWhy, Wide: true},
			{Header: "step", Value: stepOf, Alone: true},
			{Header: "rule", Value: func(x item) string { return x.GetDecision().GetRule() }, Alone: true},
			{Header: "policy", Value: func(x item) string { return x.GetDecision().GetPolicyVersion() }, Alone: true},
			{Header: "node", Value: func(x item) string { return withReason(x.GetNodeId(), x.GetDecision().GetNodeName()) }, Alone: true},
			{Header: "folder", Value: func(x item) string { return literal.Line(x.GetDecision().GetFolder()) }, Alone: true},
			{Header: "user", Value: func(x item) string { return x.GetDecision().GetUser() }, Alone: true},
			{Header: "time-out", Value: itemTimeout, Alone: true},
			{Header: "may reach", Value: func(x item) string { return literal.Line(strings.Join(x.GetDecision().GetHosts(), ", ")) }, Alone: true},
			{Header: "cannot be undone", Value: func(x item) string { return x.GetDecision().GetIrreversible() }, Alone: true},
			{Header: "exec id", Value: (item).GetExecId, Alone: true},
			{Header: "asked", Value: func(x item) string { return moment(x.GetAskedAt()) }, Alone: true},
			{Header: "answered by", Value: (item).GetAnsweredBy, Alone: true},
			{Header: "closed", Value: func(x item) string { return moment(x.GetAnsweredAt()) }, Alone: true},
			{Header: "reason", Value: (item).GetReason, Alone: true},
			{Header: "choices", Value: func(x item) string { return indented(numbered(x.GetQuestion().GetChoices())) }, Block: true},
			{Header: "default", Value: func(x item) string { return indented(x.GetQuestion().GetDefaultAnswer()) }, Block: true},
			{Header: "summary", Value: func(x item) string { return indented(x.GetReview().GetSummary()) }, Block: true},
			{Header: "files", Value: func(x item) string { return indented(strings.Join(x.GetReview().GetPaths(), "\n")) }, Block: true},
			{Header: "hosts", Value: func(x item) string { return indented(reviewedHosts(x)) }, Block: true},
			{Header: "looks like", Value: func(x item) string { return indented(x.GetOffer().GetShape()) }, Block: true},
			{Header: "dangers", Value: func(x item) string { return indented(dangerLines(x)) }, Block: true},
			{Header: "not understood", Value: func(x item) string { return indented(strings.Join(literalLines(x.GetDecision().GetUnclear()), "\n")) }, Block: true},
			{Header: "definition", Value: func(x item) string { return indented(literal.Block(x.GetDecision().GetDefinition())) }, Block: true},
			{Header: "agreed definition", Value: func(x item) string { return indented(agreedDefinition(x)) }, Block: true},
			{Header: "commands", Value: func(x item) string { return indented(commandLines(x)) }, Block: true},
			{Header: "arguments", Value: func(x item) string { return indented(lines(x.GetArguments())) }, Block: true},
			{Header: "look closely", Value: func(x item) string { return indented(literal.Note(everyText(x.GetArguments()))) }, Block: true},
			{Header: "reasoning", Value: func(x item) string { return indented(x.GetReasoning()) }, Block: true},
			{Header: "evidence", Value: func(x item) string { return indented(x.GetEvidence()) }, Block: true},
			{Header: "changed arguments", Value: func(x item) string { return indented(lines(x.GetChangedArguments())) }, Block: true},
			{Header: "reply", Value: func(x item) string { return indented(x.GetReply()) }, Block: true},
		},
	}
}

// itemTitle says in a line what an item is about.
func itemTitle(x *deckhandv1.InboxItem) string { return cmp.Or(x.GetTitle(), x.GetPreview()) }

func itemTimeout(x *deckhandv1.InboxItem) string {
	if s := x.GetDecision().GetTimeoutSeconds(); s > 0 {
		return time.Duration(s * float64(time.Second)).String()
	}
	return ""
}

// dangerKinds returns the kinds of danger in a call, each once.
func dangerKinds(x *deckhandv1.InboxItem) []string {
	var out []string
	for _, d := range x.GetDecision().GetDangers() {
		if kind := strings.ReplaceAll(d.GetKind(), "_", " "); !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out
}

func dangerLines(x *deckhandv1.InboxItem) string {
	var out []string
	for _, d := range x.GetDecision().GetDangers() {
		out = append(out, fmt.Sprintf("line %d, %s: %s: %s", d.GetLine(), strings.ReplaceAll(d.GetKind(), "_", " "), literal.Line(d.GetWhat()), literal.Line(d.GetCommand())))
	}
	return strings.Join(out, "\n")
}

// commandLines lists the commands of a script; nothing where the script is one
// command by itself.
func commandLines(x *deckhandv1.InboxItem) string {
	commands := x.GetDecision().GetCommands()
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
	return withReason(enumName(x.GetState()), x.GetAnswer())
}

func numbered(choices []string) string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = fmt.Sprintf("%d. %s", i+1, termsafe.Line(c))
	}
	return strings.Join(out, "\n")
}
