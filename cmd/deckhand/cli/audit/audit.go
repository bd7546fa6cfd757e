// Package audit is the command "deckhand audit": it lists and exports the audit
// record, and verifies an export without a hub.
package audit

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand audit".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("audit", "Show who changed what", `
Every change that a person makes is on record with who, when, from where, and
what was before and after.
`, `
deckhand audit list --object task_3q9
deckhand audit export > audit.jsonl
deckhand audit verify audit.jsonl
`)
	cmd.AddCommand(listCommand(e), exportCommand(e), verifyCommand(e))
	return cmd
}

func list(e *env.Env, cmd *cobra.Command, request *deckhandv1.ListAuditEntriesRequest, limit int) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	entries, next, err := env.Newest(cmd.Context(), limit, request.GetPageToken(), client.Audit.ListAuditEntries, request, func(size int32, token string) {
		request.PageSize, request.PageToken = size, token
	}, (*deckhandv1.ListAuditEntriesResponse).GetEntries)
	if err != nil {
		return err
	}
	if err := output.List(e.Printer(), noun(), entries); err != nil {
		return err
	}
	switch {
	case next != "":
		env.NoteMore(e, len(entries), next)
	case len(entries) == 0:
		e.Notef("nothing of the kind is on record")
	}
	return nil
}

func noun() output.Noun[*deckhandv1.AuditEntry] {
	return output.Noun[*deckhandv1.AuditEntry]{
		Name: func(x *deckhandv1.AuditEntry) string { return fmt.Sprint(x.GetId()) },
		Columns: []output.Column[*deckhandv1.AuditEntry]{
			{Header: "time", Value: func(x *deckhandv1.AuditEntry) string { return output.Moment(x.GetTime()) }},
			{Header: "by", Value: (*deckhandv1.AuditEntry).GetActorId},
			{Header: "action", Value: (*deckhandv1.AuditEntry).GetAction},
			{Header: "object", Value: (*deckhandv1.AuditEntry).GetObjectId},
			{Header: "severity", Value: (*deckhandv1.AuditEntry).GetSeverity, Wide: true},
			{Header: "reason", Value: (*deckhandv1.AuditEntry).GetReason, Max: 60},
			{Header: "before", Value: func(x *deckhandv1.AuditEntry) string { return output.Arguments(x.GetBefore()) }, Wide: true},
			{Header: "after", Value: func(x *deckhandv1.AuditEntry) string { return output.Arguments(x.GetAfter()) }, Wide: true},
			{Header: "from", Value: (*deckhandv1.AuditEntry).GetAddress, Wide: true},
			{Header: "with", Value: (*deckhandv1.AuditEntry).GetUserAgent, Wide: true},
			{Header: "id", Value: func(x *deckhandv1.AuditEntry) string { return fmt.Sprint(x.GetId()) }, Wide: true},
		},
	}
}

func verify(e *env.Env, in io.Reader, key ed25519.PublicKey) error {
	report, err := auditlog.Verify(in, key)
	var broken *auditlog.Broken
	switch {
	case errors.As(err, &broken):
		return env.Failed(env.ExitFailed, fault.New(fault.Precondition, "Verification failed: %s", broken))
	case errors.Is(err, auditlog.ErrKey):
		return env.Failed(env.ExitFailed, fault.New(fault.Precondition, "%s: %s", err, report.Key))
	case err != nil:
		return err
	}
	fields := map[string]any{
		"organisation": report.Organisation, "key": report.Key, "made": report.Time.Format("2006-01-02T15:04:05Z07:00"),
		"entries": float64(report.Entries), "first": float64(report.First), "last": float64(report.Last), "heads": float64(report.Heads), "proofs": float64(report.Proofs), "task": "",
		"passkeys": passkeys(report),
	}
	if r := report.Receipt; r != nil {
		fields["task"], fields["entries"] = r.TaskID, float64(r.Events)
	}
	shown, err := structpb.NewStruct(fields)
	if err != nil {
		return err
	}
	if err := output.One(e.Printer(), proofNoun, shown); err != nil {
		return err
	}
	if key == nil {
		e.Notef("Verified. Compare this key with your hub's (deckhand vault show), or pass --key.")
	}
	return nil
}

// passkeys returns the passkeys whose registration an export has.
func passkeys(r auditlog.Report) []any {
	out := []any{}
	for _, p := range r.Passkeys {
		out = append(out, map[string]any{
			"id": p.ID, "user": p.User, "user_id": p.UserID, "key_sha256": p.KeySHA256, "position": float64(p.Position), "proved": p.Proved,
		})
	}
	return out
}

// registered says whose the passkeys are that were registered, and which keys.
func registered(s *structpb.Struct) string {
	var out []string
	for _, v := range s.GetFields()["passkeys"].GetListValue().GetValues() {
		f, how := v.GetStructValue().GetFields(), "after a sign-in"
		if f["proved"].GetBoolValue() {
			how = "with another passkey"
		}
		out = append(out, fmt.Sprintf("%s by %s %s, entry %v, key %s", f["id"].GetStringValue(), f["user"].GetStringValue(), how, f["position"].GetNumberValue(), f["key_sha256"].GetStringValue()))
	}
	return strings.Join(out, "; ")
}

var proofNoun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["organisation"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		proofColumn("organisation"), proofColumn("task"), proofColumn("entries"), proofColumn("first"), proofColumn("last"), proofColumn("heads"), proofColumn("proofs"),
		{Header: "passkeys", Value: registered}, proofColumn("made"), proofColumn("key"),
	},
}

func proofColumn(name string) output.Column[*structpb.Struct] {
	return output.Column[*structpb.Struct]{Header: name, Value: func(s *structpb.Struct) string {
		v := s.GetFields()[name]
		if _, ok := v.GetKind().(*structpb.Value_NumberValue); ok {
			return fmt.Sprintf("%.0f", v.GetNumberValue())
		}
		return v.GetStringValue()
	}}
}
