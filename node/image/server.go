package image

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/bytestream"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// server is the gRPC face of a Store.
type server struct {
	nodev1.UnimplementedImageServiceServer

	s *Store
}

// NewServer returns the gRPC face of a Store.
func NewServer(s *Store) nodev1.ImageServiceServer { return &server{s: s} }

var phases = map[Phase]nodev1.PullImageResponse_Phase{
	Resolving:   nodev1.PullImageResponse_PHASE_RESOLVING,
	Downloading: nodev1.PullImageResponse_PHASE_DOWNLOADING,
	Preparing:   nodev1.PullImageResponse_PHASE_PREPARING,
}

// PullImage implements the service.
func (s *server) PullImage(req *nodev1.PullImageRequest, stream grpc.ServerStreamingServer[nodev1.PullImageResponse]) error {
	var last *nodev1.PullImageResponse_Progress
	var broken error
	one, err := s.s.Pull(stream.Context(), req.GetReference(), wayOf(req), func(p Progress) {
		now := &nodev1.PullImageResponse_Progress{
			Reference: p.Reference, Phase: phases[p.Phase], Bytes: p.Bytes, BytesDone: p.BytesDone, Layers: count(p.Layers), LayersDone: count(p.LayersDone),
		}
		if broken == nil && !proto.Equal(last, now) {
			last = now
			broken = stream.Send(&nodev1.PullImageResponse{Response: &nodev1.PullImageResponse_Progress_{Progress: now}})
		}
	})
	if err == nil && req.GetSetup() != "" {
		var prepared Image
		if prepared, err = s.s.Get(stream.Context(), one.Reference, req.GetSetup()); err == nil {
			one, err = prepared, s.s.used(s.s.namespaced(stream.Context()), prepared.image)
		} else if fault.Is(err, fault.Precondition) {
			err = nil
		}
	}
	if err != nil {
		return s.fail("pull an image", err)
	}
	return stream.Send(&nodev1.PullImageResponse{Response: &nodev1.PullImageResponse_Image{Image: ToProto(one)}})
}

// wayOf returns how a request has a registry reached.
func wayOf(req interface {
	GetMirror() string
	GetLogins() []*nodev1.RegistryLogin
}) Way {
	way := Way{Mirror: req.GetMirror()}
	for _, l := range req.GetLogins() {
		way.Logins = append(way.Logins, Login{Host: l.GetHost(), User: l.GetUser(), Password: l.GetPassword()})
	}
	return way
}

// GetSignatures implements the service.
func (s *server) GetSignatures(ctx context.Context, req *nodev1.GetSignaturesRequest) (*nodev1.GetSignaturesResponse, error) {
	found, err := s.s.Signatures(ctx, req.GetReference(), wayOf(req))
	if err != nil {
		return nil, s.fail("read the signatures of an image", err)
	}
	out := &nodev1.GetSignaturesResponse{Reference: found.Reference, LeftOut: count(found.LeftOut)}
	if found.Incomplete != nil {
		out.Incomplete, out.Retryable = last(found.Incomplete.Error()), fault.Is(found.Incomplete, fault.Unavailable)
	}
	for _, one := range found.Simple {
		out.Signatures = append(out.Signatures, &nodev1.ImageSignature{Signature: &nodev1.ImageSignature_SimpleSigning_{SimpleSigning: &nodev1.ImageSignature_SimpleSigning{
			Payload: one.Payload, Signature: one.Signature, Certificate: one.Certificate, LogEntry: one.LogEntry, Timestamp: one.Timestamp,
		}}})
	}
	for _, one := range found.Bundles {
		out.Signatures = append(out.Signatures, &nodev1.ImageSignature{Signature: &nodev1.ImageSignature_Bundle{Bundle: one}})
	}
	return out, nil
}

// ImportImage implements the service.
func (s *server) ImportImage(stream grpc.ClientStreamingServer[nodev1.ImportImageRequest, nodev1.ImportImageResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	one, err := s.s.Import(stream.Context(), first.GetName(), bytestream.Reader(first.GetData(), func() ([]byte, error) {
		req, err := stream.Recv()
		return req.GetData(), err
	}))
	if err != nil {
		return s.fail("import an image", err)
	}
	return stream.SendAndClose(&nodev1.ImportImageResponse{Image: ToProto(one)})
}

// ListImages implements the service.
func (s *server) ListImages(ctx context.Context, _ *nodev1.ListImagesRequest) (*nodev1.ListImagesResponse, error) {
	all, err := s.s.List(ctx)
	if err != nil {
		return nil, s.fail("list the images", err)
	}
	out := &nodev1.ListImagesResponse{}
	for _, one := range all {
		out.Images = append(out.Images, ToProto(one))
	}
	return out, nil
}

// PruneImages implements the service.
func (s *server) PruneImages(ctx context.Context, req *nodev1.PruneImagesRequest) (*nodev1.PruneImagesResponse, error) {
	before := time.Now().Add(time.Second)
	if req.GetBefore() != nil {
		before = req.GetBefore().AsTime()
	}
	gone, err := s.s.Prune(ctx, before, req.GetKeep())
	if err != nil {
		return nil, s.fail("prune the images", err)
	}
	out := &nodev1.PruneImagesResponse{}
	for _, one := range gone {
		out.Deleted = append(out.Deleted, ToProto(one))
	}
	return out, nil
}

// fail logs what is not the caller's fault, and returns a gRPC error.
func (s *server) fail(doing string, err error) error {
	if fault.As(err) == nil {
		s.s.cfg.Log.Error(doing, "error", err)
	}
	return fault.ToGRPC(err)
}

// ToProto returns an image as the node's API has it.
func ToProto(one Image) *nodev1.Image {
	out := &nodev1.Image{Reference: one.Reference, Setup: one.Setup, Platform: one.Platform, Bytes: one.Bytes, Layers: count(one.Layers)}
	if !one.UsedAt.IsZero() {
		out.UsedAt = timestamppb.New(one.UsedAt)
	}
	return out
}

func count(n int) int32 { return int32(min(n, math.MaxInt32)) }
