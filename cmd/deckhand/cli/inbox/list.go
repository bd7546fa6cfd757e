package inbox

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func listCommand(e *env.Env) *cobra.Command {
	var kinds []string
	var all, snoozed bool
	var limit int
	request := &deckhandv1.ListInboxRequest{Order: deckhandv1.InboxOrder_INBOX_ORDER_TIME_LEFT}
	cmd := &cobra.Command{
		Use: "list", Short: "List what waits for a person, what expires first at the top",
		Example: `deckhand inbox list
deckhand inbox list --kind approval,unknown --task task_3q9
deckhand inbox list --dangerous --mine
# also what has been answered, has expired, or whose task has ended
deckhand inbox list --all`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range kinds {
				kind := deckhandv1.InboxKind(deckhandv1.InboxKind_value["INBOX_KIND_"+strings.ToUpper(name)])
				if kind == deckhandv1.InboxKind_INBOX_KIND_UNSPECIFIED {
					return env.Usage(cmd, "there is no kind of inbox item %q, the kinds are %s", name, strings.Join(kindNames(), ", "))
				}
				if !slices.Contains(request.Kinds, kind) {
					request.Kinds = append(request.Kinds, kind)
				}
			}
			if limit < 0 {
				return env.Usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			if snoozed {
				request.Snoozed = deckhandv1.InboxSnoozed_INBOX_SNOOZED_ONLY
			}
			if all {
				request.Snoozed = deckhandv1.InboxSnoozed_INBOX_SNOOZED_ANY
				for state := int32(1); state < int32(len(deckhandv1.InboxState_name)); state++ {
					request.States = append(request.States, deckhandv1.InboxState(state))
				}
			}
			return list(cmd.Context(), e, request, limit)
		},
	}
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only these kinds: "+strings.Join(kindNames(), ", "))
	cmd.Flags().StringVar(&request.TaskId, "task", "", "only items of this task")
	cmd.Flags().StringVar(&request.AgentId, "agent", "", "only items of this agent's tasks")
	cmd.Flags().BoolVar(&request.Dangerous, "dangerous", false, "only calls in which something dangerous was recognised, or whose tool is dangerous")
	cmd.Flags().BoolVar(&request.Mine, "mine", false, "only items of your own tasks and agents")
	cmd.Flags().StringVar(&request.Text, "text", "", "only items that contain this text")
	cmd.Flags().BoolVar(&all, "all", false, "include answered, expired and snoozed items")
	cmd.Flags().BoolVar(&snoozed, "snoozed", false, "only what you have snoozed")
	cmd.MarkFlagsMutuallyExclusive("all", "snoozed")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "continue from this page token")
	return cmd
}

// kindNames returns the kinds of items, in the order of the API.
func kindNames() []string {
	var out []string
	for kind := int32(1); kind < int32(len(deckhandv1.InboxKind_name)); kind++ { //nolint:gosec // few
		out = append(out, output.EnumName(deckhandv1.InboxKind(kind)))
	}
	return out
}

func list(ctx context.Context, e *env.Env, request *deckhandv1.ListInboxRequest, limit int) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	items, next, err := env.Newest(ctx, limit, request.GetPageToken(), client.Inbox.ListInbox, request,
		func(size int32, token string) { request.PageSize, request.PageToken = size, token }, (*deckhandv1.ListInboxResponse).GetItems)
	if err != nil {
		return err
	}
	if err := output.List(e.Printer(), noun(e), items); err != nil {
		return err
	}
	switch {
	case next != "":
		e.Notef("there are more: add --page %s, or --limit 0 for all", next)
	case len(items) == 0 && request.GetSnoozed() == deckhandv1.InboxSnoozed_INBOX_SNOOZED_ONLY:
		e.Notef("You have snoozed nothing.")
	case len(items) == 0 && len(request.States) == 0:
		e.Notef("Nothing to answer. Answered items: deckhand inbox list --all")
	case len(items) == 0:
		e.Notef("there are no such items")
	}
	return nil
}
