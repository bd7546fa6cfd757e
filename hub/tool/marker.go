package tool

import (
	"bytes"
	"context"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// maxMarked is the largest file that is looked through for markers, in bytes.
const maxMarked = 64 << 20

// refuseMarkers refuses texts for a file that have the marker of a masked secret, unless
// the file itself has that marker, as a text about Deckhand may: the agent saw the marker
// and not what is there, and would destroy the secret.
func refuseMarkers(ctx context.Context, c Call, path string, texts ...string) error {
	markers := redact.Markers(strings.Join(texts, "\n"))
	if len(markers) == 0 {
		return nil
	}
	content, err := wholeFile(ctx, c, path)
	if err != nil {
		return err
	}
	for _, m := range markers {
		if !bytes.Contains(content, []byte(m)) {
			return fault.New(fault.Precondition, "the text has %s, which stands for a secret that you cannot see. %s has no such mark: the secret would be destroyed", m, path).
				WithCode(fault.InvalidParameters).
				WithFix("change only text before and after the secret: file_edit with an old_string and a new_string that leave it out; it then stays as it is. To copy or move a secret, use a command such as cp or sed")
		}
	}
	return nil
}

// wholeFile reads a file that may not exist.
func wholeFile(ctx context.Context, c Call, path string) ([]byte, error) {
	var content []byte
	for {
		res, err := c.Node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: c.Jail.GetJailId(), Path: path, Offset: int64(len(content))})
		if e := fault.As(fault.FromGRPC(err)); err != nil && e.Kind == fault.NotFound && e.ObjectID != c.Jail.GetJailId() {
			return content, nil
		}
		if err != nil {
			return nil, err
		}
		content = append(content, res.GetContent()...)
		if len(res.GetContent()) == 0 || len(content) > maxMarked {
			return content, nil
		}
	}
}
