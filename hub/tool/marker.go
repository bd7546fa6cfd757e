package tool

import (
	"context"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// refuseMarkers refuses texts for a file that have the marker of a masked secret, unless
// the file itself has that marker, as a text about Deckhand may: the agent saw the marker
// and not what is there, and would destroy the secret.
func refuseMarkers(ctx context.Context, c Call, path string, texts ...string) error {
	markers := redact.Markers(strings.Join(texts, "\n"))
	slices.Sort(markers)
	for _, m := range slices.Compact(markers) {
		found, err := c.Node.Files().SearchFiles(ctx, &nodev1.SearchFilesRequest{
			JailId: c.Jail.GetJailId(), Path: path, Pattern: m, MaxMatches: 1, Caller: c.Jail.GetJailId(),
		})
		if e := fault.As(fault.FromGRPC(err)); err != nil && (e.Kind != fault.NotFound || e.ObjectID == c.Jail.GetJailId()) {
			return err
		}
		if len(found.GetMatches()) == 0 {
			return fault.New(fault.Precondition, "the text has %s, which stands for a secret that you cannot see. %s has no such marker: the secret would be destroyed", m, path).
				WithCode(fault.InvalidParameters).
				WithFix("change only text before and after the secret: file_edit with an old_string and a new_string that leave it out; it then stays as it is. To copy or move a secret, use a command such as cp or sed")
		}
	}
	return nil
}
