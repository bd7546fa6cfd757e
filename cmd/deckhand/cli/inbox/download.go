package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func downloadCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "download ID NUMBER FILE", Short: "Save a file that an agent attached to its question",
		Long: `NUMBER is the position among the attachments that inbox show lists. The file is as it was
when the agent asked. An existing FILE is not overwritten; - writes to standard output.`,
		Example: `deckhand inbox download inbox_3q9 1 report.csv`,
		Args:    env.Args("ID", "NUMBER", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || number < 1 {
				return env.Usage(cmd, "NUMBER %q is no position, give one from inbox show", args[1])
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			request := &deckhandv1.ReadInboxAttachmentRequest{ItemId: args[0], Number: int32(number)}
			if args[2] == "-" {
				return copyAttachment(cmd.Context(), client, request, e.Out)
			}
			file, err := os.OpenFile(args[2], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
			if errors.Is(err, fs.ErrExist) {
				return fault.New(fault.Invalid, "%s exists already", args[2]).WithFix("give another name, or move it away")
			}
			if err != nil {
				return fault.New(fault.Invalid, "cannot write %s: %v", args[2], err)
			}
			if err := errors.Join(copyAttachment(cmd.Context(), client, request, file), file.Close()); err != nil {
				return errors.Join(err, os.Remove(args[2]))
			}
			return nil
		},
	}
}

// copyAttachment writes a whole attachment, and returns an error if it is not what its digest
// says.
func copyAttachment(ctx context.Context, client *sdk.Client, request *deckhandv1.ReadInboxAttachmentRequest, to io.Writer) error {
	sum := sha256.New()
	for {
		res, err := client.Inbox.ReadInboxAttachment(ctx, request)
		if err != nil {
			return err
		}
		piece := res
		if _, err := io.MultiWriter(sum, to).Write(piece.GetData()); err != nil {
			return fmt.Errorf("write the attachment: %w", err)
		}
		if piece.GetNextOffset() >= piece.GetSizeBytes() {
			if hex.EncodeToString(sum.Sum(nil)) != piece.GetSha256() {
				return fault.New(fault.Internal, "the attachment is not what its digest says").WithFix("download it again")
			}
			return nil
		}
		if piece.GetNextOffset() <= request.GetOffset() {
			return fault.New(fault.Internal, "the hub sent nothing of the attachment after byte %d", request.GetOffset())
		}
		request.Offset = piece.GetNextOffset()
	}
}

// attachmentLines lists the files of a question.
func attachmentLines(x *deckhandv1.InboxItem) string {
	return linesOf(x.GetAttachments(), func(a *deckhandv1.InboxAttachment) string {
		if a.GetProblem() != "" {
			return fmt.Sprintf("%d. %s: %s", a.GetNumber(), literal.Line(a.GetPath()), literal.Line(a.GetProblem()))
		}
		return fmt.Sprintf("%d. %s, %s, SHA-256 %s", a.GetNumber(), literal.Line(a.GetPath()), output.Size(a.GetSizeBytes()), a.GetSha256())
	})
}

// optionLines lists the possible replies to a question.
func optionLines(x *deckhandv1.InboxItem) string {
	n, options := 0, x.GetQuestion().GetOptions()
	if len(options) == 0 { // a hub of an earlier release
		for _, label := range x.GetQuestion().GetChoices() {
			options = append(options, &deckhandv1.InboxOption{Label: label})
		}
	}
	return linesOf(options, func(o *deckhandv1.InboxOption) string {
		n++
		line := fmt.Sprintf("%d. %s", n, literal.Line(o.GetLabel()))
		if o.GetDescription() != "" {
			line += ": " + literal.Line(o.GetDescription())
		}
		return line
	})
}
