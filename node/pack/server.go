package pack

import (
	"context"
	"net/http"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/bytestream"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// ServerConfig holds what the gRPC face of a Store needs. All of it is required.
type ServerConfig struct {
	// DataDir is the node's data folder.
	DataDir string
	// Pins is the node's own file of pins: calls that name a pack mean those, and no call installs
	// another archive of one that is there.
	Pins   string
	Client *http.Client
	Log    hclog.Logger
}

// NewServer returns the gRPC face of the store of a node.
func NewServer(cfg ServerConfig) nodev1.PackServiceServer { return &server{cfg: cfg} }

type server struct {
	nodev1.UnimplementedPackServiceServer

	cfg ServerConfig
}

// pin returns the pin that a request has, or names. Where the node's own file has one, the node's
// operator has decided which archive it is, and not the hub.
func (s *server) pin(req *nodev1.Pin) (Pin, error) {
	own, err := PinOf(s.cfg.Pins, req.GetName())
	if req.GetSha256() == "" {
		return own, err
	}
	p := Pin{Name: req.GetName(), SHA256: req.GetSha256(), URL: req.GetUrl()}
	switch {
	case fault.Is(err, fault.Precondition), fault.Is(err, fault.NotFound):
	case err != nil:
		return Pin{}, err
	case own.SHA256 != p.SHA256:
		return Pin{}, fault.New(fault.Denied, "%s of the node pins another archive of %s: %s", s.cfg.Pins, own.Name, own.SHA256).
			WithFix("ask the operator of the node to change or delete the pin")
	}
	return p, p.check()
}

// ListPacks implements the service.
func (s *server) ListPacks(context.Context, *nodev1.ListPacksRequest) (*nodev1.ListPacksResponse, error) {
	all, err := At(s.cfg.DataDir).List()
	if err != nil {
		return nil, s.fail("list the packs", err)
	}
	return &nodev1.ListPacksResponse{Packs: toProto(all)}, nil
}

// FetchPack implements the service.
func (s *server) FetchPack(ctx context.Context, req *nodev1.FetchPackRequest) (*nodev1.FetchPackResponse, error) {
	one, err := s.install(req.GetPin(), func(store *Store, pin Pin) (Pack, error) { return store.Fetch(ctx, s.cfg.Client, pin) })
	if err != nil {
		return nil, s.fail("fetch a pack", err)
	}
	return &nodev1.FetchPackResponse{Pack: one}, nil
}

// ImportPack implements the service.
func (s *server) ImportPack(stream grpc.ClientStreamingServer[nodev1.ImportPackRequest, nodev1.ImportPackResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	one, err := s.install(first.GetPin(), func(store *Store, pin Pin) (Pack, error) {
		return store.Import(stream.Context(), pin, bytestream.Reader(first.GetData(), func() ([]byte, error) {
			req, err := stream.Recv()
			return req.GetData(), err
		}), "imported through the hub")
	})
	if err != nil {
		return s.fail("import a pack", err)
	}
	return stream.SendAndClose(&nodev1.ImportPackResponse{Pack: one})
}

// install installs the archive of a pin with do.
func (s *server) install(req *nodev1.Pin, do func(*Store, Pin) (Pack, error)) (*nodev1.Pack, error) {
	pin, err := s.pin(req)
	if err != nil {
		return nil, err
	}
	store, err := Open(s.cfg.DataDir)
	if err != nil {
		return nil, err
	}
	one, err := do(store, pin)
	if err != nil {
		return nil, err
	}
	return toProto([]Pack{one})[0], nil
}

// PrunePacks implements the service.
func (s *server) PrunePacks(ctx context.Context, req *nodev1.PrunePacksRequest) (*nodev1.PrunePacksResponse, error) {
	deleted, kept, err := At(s.cfg.DataDir).Prune(ctx, req.GetNames()...)
	if err != nil {
		return nil, s.fail("prune the packs", err)
	}
	return &nodev1.PrunePacksResponse{Deleted: toProto(deleted), Kept: toProto(kept)}, nil
}

// fail logs what is not the caller's fault, and returns a gRPC error.
func (s *server) fail(doing string, err error) error {
	if fault.As(err) == nil {
		s.cfg.Log.Error(doing, "error", err)
	}
	return fault.ToGRPC(err)
}

func toProto(all []Pack) (out []*nodev1.Pack) {
	for _, p := range all {
		out = append(out, &nodev1.Pack{
			Name: p.Name, Sha256: p.SHA256, Source: p.Source, Bytes: p.Bytes, Files: int64(p.Files), InstalledAt: timestamppb.New(p.Installed),
			Current: p.Current, InUse: p.InUse, Broken: p.Broken,
		})
	}
	return out
}
