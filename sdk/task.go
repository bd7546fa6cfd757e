package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// WaitForTask waits until a task is in a final state, and returns it. It does not poll:
// it watches the task's events, over broken connections and restarts of the hub. What the
// task is like, a success or not, is in its state.
func (c *Client) WaitForTask(ctx context.Context, taskID string) (*deckhandv1.Task, error) {
	// The hub ends the watch when the task has ended.
	watch := &deckhandv1.WatchRequest{TaskIds: []string{taskID}, Types: []string{"state_changed"}, Follow: true}
	for _, err := range c.Watch(ctx, watch) {
		if err != nil {
			return nil, err
		}
	}
	res, err := c.Tasks.GetTask(ctx, &deckhandv1.GetTaskRequest{TaskId: taskID})
	if err != nil {
		return nil, err
	}
	return res.GetTask(), nil
}

// downloadPart is how much of a file is read at once, the most that the hub allows.
const downloadPart = 4 << 20

// DownloadFile writes a file of the workspace that a task worked in to w, and returns its
// size. It fails if the file changes meanwhile, or if it is not what its digest says.
func (c *Client) DownloadFile(ctx context.Context, taskID, path string, w io.Writer) (int64, error) {
	var written int64
	var first *deckhandv1.ReadFileResponse
	digest := sha256.New()
	for {
		res, err := c.Files.ReadFile(ctx, &deckhandv1.ReadFileRequest{
			Workspace: &deckhandv1.ReadFileRequest_TaskId{TaskId: taskID}, Path: path, Offset: written, Limit: downloadPart,
		})
		if err != nil {
			return written, err
		}
		if first == nil {
			first = res
		}
		n, err := io.MultiWriter(w, digest).Write(res.GetContent())
		written += int64(n)
		switch {
		case err != nil:
			return written, err
		case res.GetSize() != first.GetSize() || res.GetDigest() != first.GetDigest() || n == 0 && written < first.GetSize():
			return written, changed(path)
		case written >= first.GetSize():
			return written, verified(path, digest, first.GetDigest())
		}
	}
}

// verified refuses a file that has another digest. The hub has none of files over 64 MiB.
func verified(path string, got hash.Hash, want string) error {
	sum, err := hex.DecodeString(want)
	if want != "" && (err != nil || !bytes.Equal(got.Sum(nil), sum)) {
		return changed(path)
	}
	return nil
}

func changed(path string) error {
	return fault.New(fault.Aborted, "the file %q changed while it was downloaded", path).WithCode(fault.FileConflict).WithFix("download it again")
}
