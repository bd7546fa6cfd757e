package cli

import (
	"fmt"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := group("audit", "See who changed what", `
Every change that a person makes is on record with who, when, from where, and
what was before and after.
`, `
deckhand audit list --object task_3q9
deckhand audit export > audit.jsonl
deckhand audit verify audit.jsonl
`)
	cmd.AddCommand(a.auditListCommand(), a.auditExportCommand(), a.auditVerifyCommand())
	return cmd
}

func (a *app) auditListCommand() *cobra.Command {
	var limit int
	request := &deckhandv1.ListAuditEntriesRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List what was changed, newest first",
		Example: `deckhand audit list --by alice
deckhand audit list --action hold.made -o wide`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage(cmd, "--limit is %d, give 0 for all or a positive number", limit)
			}
			return a.auditList(cmd, request, limit)
		},
	}
	cmd.Flags().StringVar(&request.ObjectId, "object", "", "only changes of this task, hold or other object, by its whole id")
	cmd.Flags().StringVar(&request.ActorId, "by", "", "only changes by this user")
	cmd.Flags().StringVar(&request.Action, "action", "", "only changes of this kind, for example task.paused")
	cmd.Flags().StringVar(&request.Severity, "severity", "", "only of this severity: low, medium or high")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of items (0 = all)")
	cmd.Flags().StringVar(&request.PageToken, "page", "", "continue from this page token")
	return cmd
}

func (a *app) auditList(cmd *cobra.Command, request *deckhandv1.ListAuditEntriesRequest, limit int) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	var entries []*deckhandv1.AuditEntry
	for {
		request.PageSize = pageSize
		if limit > 0 {
			request.PageSize = int32(min(pageSize, limit-len(entries)))
		}
		res, err := client.Audit.ListAuditEntries(cmd.Context(), connect.NewRequest(request))
		if err != nil {
			return err
		}
		entries = append(entries, res.Msg.GetEntries()...)
		request.PageToken = res.Msg.GetNextPageToken()
		if request.PageToken == "" || limit > 0 && len(entries) >= limit {
			break
		}
	}
	if err := output.List(a.printer(), a.auditNoun(), entries); err != nil {
		return err
	}
	switch {
	case request.PageToken != "":
		a.notef("there are more: add --page %s, or --limit 0 for all", request.PageToken)
	case len(entries) == 0:
		a.notef("nothing of the kind is on record")
	}
	return nil
}

func (a *app) auditNoun() output.Noun[*deckhandv1.AuditEntry] {
	return output.Noun[*deckhandv1.AuditEntry]{
		Name: func(x *deckhandv1.AuditEntry) string { return fmt.Sprint(x.GetId()) },
		Columns: []output.Column[*deckhandv1.AuditEntry]{
			{Header: "time", Value: func(x *deckhandv1.AuditEntry) string { return moment(x.GetTime()) }},
			{Header: "by", Value: (*deckhandv1.AuditEntry).GetActorId},
			{Header: "action", Value: (*deckhandv1.AuditEntry).GetAction},
			{Header: "object", Value: (*deckhandv1.AuditEntry).GetObjectId},
			{Header: "severity", Value: (*deckhandv1.AuditEntry).GetSeverity, Wide: true},
			{Header: "reason", Value: (*deckhandv1.AuditEntry).GetReason, Max: 60},
			{Header: "before", Value: func(x *deckhandv1.AuditEntry) string { return arguments(x.GetBefore()) }, Wide: true},
			{Header: "after", Value: func(x *deckhandv1.AuditEntry) string { return arguments(x.GetAfter()) }, Wide: true},
			{Header: "from", Value: (*deckhandv1.AuditEntry).GetAddress, Wide: true},
			{Header: "with", Value: (*deckhandv1.AuditEntry).GetUserAgent, Wide: true},
			{Header: "id", Value: func(x *deckhandv1.AuditEntry) string { return fmt.Sprint(x.GetId()) }, Wide: true},
		},
	}
}
