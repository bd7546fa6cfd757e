package tool

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

var errPlain = errors.New("the wire broke")

// brokenMessenger fails with an error that is no fault.
type brokenMessenger struct{ Messenger }

func (brokenMessenger) Check(context.Context, Letter) (string, string, error) {
	return "", "", errPlain
}

// brokenNode is a node whose files cannot be read, with an error that is no fault.
type brokenNode struct {
	machine.Link
	nodev1.FileServiceClient
}

func (n brokenNode) Files() nodev1.FileServiceClient { return n }

func (brokenNode) ReadFile(context.Context, *nodev1.ReadFileRequest, ...grpc.CallOption) (*nodev1.ReadFileResponse, error) {
	return nil, errPlain
}

// What is no refusal says nothing about the mail.
func TestAMailThatCannotBeInspected(t *testing.T) {
	t.Parallel()
	arguments := map[string]any{"to": []any{"ada@example.org"}, "subject": "x", "body": "y"}
	i, err := inspectMail(t.Context(), Call{Arguments: arguments, Messages: brokenMessenger{}})
	require.ErrorIs(t, err, errPlain)
	require.Nil(t, i.Refused)
	arguments["attachments"] = []any{"a.txt"}
	i, err = inspectMail(t.Context(), Call{Arguments: arguments, Messages: brokenMessenger{}, Node: brokenNode{}})
	require.ErrorIs(t, err, errPlain)
	require.Nil(t, i.Refused)
}
