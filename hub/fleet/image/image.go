// Package image brings container images to nodes. Images is its service.
//
// The node pulls, lists and deletes; this package decides on the hub's side which
// images an organisation's agents may use, and which credentials and mirror a pull
// gets. Errors of a pull have the code fault.ImageUnavailable and say what to do.
package image

import (
	"context"
	"errors"
	"io"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Images brings images to nodes.
type Images struct{}

// New creates Images.
func New() *Images { return &Images{} }

// Pull has a node pull an image, unless it has it, and returns it. tell is called with
// the progress of the pull, if there is one.
func (i *Images) Pull(ctx context.Context, orgID string, node machine.Link, reference string, tell func(*nodev1.PullImageResponse_Progress)) (*nodev1.Image, error) {
	if _, err := imageref.Parse(reference); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := node.Images().PullImage(ctx, &nodev1.PullImageRequest{Reference: reference})
	if err != nil {
		return nil, fault.FromGRPC(err)
	}
	for {
		res, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, fault.New(fault.Unavailable, "the node ended the pull of %s without a result", reference).WithCode(fault.ImageUnavailable)
		case err != nil:
			return nil, fault.FromGRPC(err)
		case res.GetImage() != nil:
			return res.GetImage(), nil
		}
		tell(res.GetProgress())
	}
}
