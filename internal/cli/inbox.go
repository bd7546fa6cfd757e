package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/cli/output"
	"github.com/deckhand-sh/deckhand/internal/cli/termsafe"
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
		a.inboxAnswerCommand(), a.inboxRetryCommand(), a.inboxSkipCommand(), a.inboxSuggestCommand(), a.inboxReplanCommand(), a.inboxAskCommand(), a.inboxMarkCommand(),
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
	cmd.Flags().BoolVar(&all, "all", false, "also what waits no more")
	cmd.Flags().IntVar(&limit, "limit", 20, "show at most so many; 0 for all")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "go on where an earlier list ended")
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
		a.notef("nothing waits for an answer; what did: deckhand inbox list --all")
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
			item, err := getItem(cmd.Context(), client, args[0])
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
			{Header: "preview", Value: func(x item) string { return termsafe.Line(x.GetPreview()) }, Max: 60},
			{Header: "task", Value: (item).GetTaskId, Wide: true},
			{Header: "title", Value: (item).GetTaskTitle, Wide: true},
			{Header: "by", Value: (item).GetSubmittedBy, Wide: true},
			{Header: "category", Value: func(x item) string { return enumName(x.GetCategory()) }, Wide: true},
			{Header: "until", Value: func(x item) string { return moment(x.GetExpiresAt()) }, Wide: true},
			{Header: "otherwise", Value: (item).GetOnExpiry, Wide: true},
			{Header: "why", Value: (item).GetWhy, Wide: true},
			{Header: "step", Value: stepOf, Alone: true},
			{Header: "node", Value: (item).GetNodeId, Alone: true},
			{Header: "command there", Value: (item).GetExecId, Alone: true},
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
			{Header: "what is asked", Value: func(x item) string { return indented(x.GetPreview()) }, Block: true},
			{Header: "arguments", Value: func(x item) string { return indented(lines(x.GetArguments())) }, Block: true},
			{Header: "reasoning", Value: func(x item) string { return indented(x.GetReasoning()) }, Block: true},
			{Header: "evidence", Value: func(x item) string { return indented(x.GetEvidence()) }, Block: true},
			{Header: "changed arguments", Value: func(x item) string { return indented(lines(x.GetChangedArguments())) }, Block: true},
			{Header: "reply", Value: func(x item) string { return indented(x.GetReply()) }, Block: true},
		},
	}
}

// stepOf names the step that an item is about; "" where it is about a task.
func stepOf(x *deckhandv1.InboxItem) string {
	if x.GetStepId() == "" {
		return ""
	}
	return fmt.Sprintf("%s, number %d", x.GetStepId(), x.GetStepNumber())
}

// reviewedHosts answers a line for each host that a run's commands connected to.
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
