package link

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/deckhand-sh/deckhand/internal/logging"
)

// What goes wrong in a call is in the node's log with the correlation id
// that the hub gave the call; one that is none is not taken over.
func TestTheLogNamesTheCallersCorrelationID(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, logged string
	}{
		"one of the hub's": {"corr_7", "corr_7"},
		"one with a break": {"corr\n7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			l := &Link{cfg: Config{Log: hclog.New(&hclog.LoggerOptions{Output: &out, JSONFormat: true})}}
			ctx := incoming(metadata.NewIncomingContext(context.Background(), metadata.Pairs(logging.CorrelationHeader, tc.header)))
			require.Error(t, l.answer(ctx, "/deckhand.node.v1.ExecService/StartExec", errors.New("disk on fire")))
			require.Contains(t, out.String(), "disk on fire")
			if tc.logged == "" {
				require.NotContains(t, out.String(), "correlation_id")
				return
			}
			require.Contains(t, out.String(), `"correlation_id":"`+tc.logged+`"`)
		})
	}
}
