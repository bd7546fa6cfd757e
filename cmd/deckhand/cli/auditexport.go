package cli

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func (a *app) auditExportCommand() *cobra.Command {
	request := &deckhandv1.ExportAuditRequest{}
	cmd := &cobra.Command{
		Use: "export", Short: "Write the audit as JSON lines that prove themselves",
		Long: `Write the audit as JSON lines to standard output: the entries that are sealed, in
their order, with the signed heads of their chain. An entry is sealed within
seconds. deckhand audit verify needs no hub to tell whether any of it was changed.`,
		Example: `deckhand audit export > audit.jsonl
deckhand audit export --after 4200 > since.jsonl`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if request.GetAfter() < 0 {
				return usage(cmd, "--after is %d, give 0 for all or a position", request.GetAfter())
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			stream, err := client.Audit.ExportAudit(cmd.Context(), connect.NewRequest(request))
			if err != nil {
				return err
			}
			return pour(a.out, stream)
		},
	}
	cmd.Flags().Int64Var(&request.After, "after", 0, "only what is behind this position, or behind the nearest head below it")
	return cmd
}

func (a *app) taskReceiptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "receipt TASK", Short: "Write a signed line that says what a run was made of",
		Long: `Write a line of JSON to standard output, signed by the hub: the persona and policy
that a task ran under, its image, nodes and egress, who answered what it asked,
and a digest of its events. The task must have ended. deckhand audit verify needs
no hub to tell whether it was changed.`,
		Example: `deckhand task receipt task_3q9 > receipt.json
deckhand audit verify receipt.json`,
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Audit.GetReceipt(cmd.Context(), connect.NewRequest(&deckhandv1.GetReceiptRequest{TaskId: args[0]}))
			if err != nil {
				return err
			}
			_, err = a.out.Write(res.Msg.GetLine())
			return err
		},
	}
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify an export or receipt offline",
		Long: `Reads an export of deckhand audit export, or a receipt of deckhand task receipt,
from a file or standard input. Exit code 1 when a byte of it is not what its hub
has written, when anything is missing, or when it is signed with another key than
--key. Without --key, compare the key that is shown with the one that you noted
when you set the hub up.`,
		Example: `deckhand audit verify audit.jsonl
deckhand audit export | deckhand audit verify --key "$(cat audit-key)"`,
		Args: takes("[FILE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var public ed25519.PublicKey
			if key != "" {
				data, err := hex.DecodeString(strings.TrimSpace(key))
				if err != nil || len(data) != ed25519.PublicKeySize {
					return usage(cmd, "--key is not %d hexadecimal digits", 2*ed25519.PublicKeySize)
				}
				public = data
			}
			in := a.in
			if len(args) == 1 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return failed(exitNotFound, fault.New(fault.NotFound, "cannot read the export: %s", err))
				}
				defer f.Close()
				in = f
			}
			return a.auditVerify(in, public)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the public key that has to have signed it, in hexadecimal")
	return cmd
}

func (a *app) auditVerify(in io.Reader, key ed25519.PublicKey) error {
	report, err := auditlog.Verify(in, key)
	var broken *auditlog.Broken
	switch {
	case errors.As(err, &broken):
		return failed(exitFailed, fault.New(fault.Precondition, "Verification failed: %s", broken))
	case errors.Is(err, auditlog.ErrKey):
		return failed(exitFailed, fault.New(fault.Precondition, "%s: %s", err, report.Key))
	case err != nil:
		return err
	}
	fields := map[string]any{
		"organisation": report.Organisation, "key": report.Key, "made": report.Time.Format("2006-01-02T15:04:05Z07:00"),
		"entries": float64(report.Entries), "first": float64(report.First), "last": float64(report.Last), "heads": float64(report.Heads), "task": "",
	}
	if r := report.Receipt; r != nil {
		fields["task"], fields["entries"] = r.TaskID, float64(r.Events)
	}
	shown, err := structpb.NewStruct(fields)
	if err != nil {
		return err
	}
	if err := output.One(a.printer(), proofNoun, shown); err != nil {
		return err
	}
	if key == nil {
		a.notef("Verified. Compare this key with your hub's (deckhand vault show), or pass --key.")
	}
	return nil
}

var proofNoun = output.Noun[*structpb.Struct]{
	Name: func(s *structpb.Struct) string { return s.GetFields()["organisation"].GetStringValue() },
	Columns: []output.Column[*structpb.Struct]{
		proofColumn("organisation"), proofColumn("task"), proofColumn("entries"), proofColumn("first"), proofColumn("last"), proofColumn("heads"), proofColumn("made"), proofColumn("key"),
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
