package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/node/files"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	uploadFiles  = 10_000
	uploadLarge  = 1 << 30
	uploadRounds = 3
	uploadPiece  = 1<<20 - 1<<10
)

// uploadTree measures a tree of 10 000 small files and one of 1 GB, uploaded
// into a workspace over the node's gRPC on loopback TCP with every digest
// checked, against tar through a loopback connection.
func uploadTree(ctx context.Context) (_ result, err error) {
	m, err := newMachine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, m.close()) }()
	source := filepath.Join(m.dir, "source")
	if err := fill(source, uploadFiles, 4096); err != nil {
		return nil, err
	}
	if err := large(filepath.Join(source, "large")); err != nil {
		return nil, err
	}
	api, err := m.files(ctx)
	if err != nil {
		return nil, err
	}
	const bytes = uploadFiles*4096 + uploadLarge
	var ours, peer []float64
	for range uploadRounds {
		jailID := ident.New("jail")
		if _, err := m.jails.Ensure(ctx, &nodev1.JailSpec{JailId: jailID, Rootfs: "host", WorkspaceBytes: 4 << 30}); err != nil {
			return nil, err
		}
		dir, err := m.jails.Workspace(jailID)
		if err != nil {
			return nil, err
		}
		for _, side := range []struct {
			out *[]float64
			fn  func() error
		}{
			{&ours, func() error { return upload(ctx, api, jailID, source) }},
			{&peer, func() error { return tarOver(ctx, source, filepath.Join(dir, "peer")) }},
		} {
			took, err := timed(side.fn)
			if err != nil {
				return nil, err
			}
			*side.out = append(*side.out, float64(bytes)/1e6/took.Seconds())
		}
		if err := m.jails.Remove(ctx, jailID); err != nil {
			return nil, err
		}
	}
	slices.Sort(ours)
	slices.Sort(peer)
	return compared("MB/s", ours[uploadRounds/2], peer[uploadRounds/2], "tar over loopback TCP", uploadRounds), nil
}

func large(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for i := range uploadLarge / len(block) {
		copy(block, fmt.Sprintf("block %d\n", i))
		if _, err := f.Write(block); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// files serves the machine's file service on loopback TCP.
func (m *nodeRig) files(ctx context.Context) (nodev1.FileServiceClient, error) {
	service, err := files.New(files.Config{Workspaces: m.jails, Ledger: m.ledger})
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	nodev1.RegisterFileServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	m.later(func() error { server.Stop(); return nil })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	m.later(conn.Close)
	return nodev1.NewFileServiceClient(conn), nil
}

// upload sends a tree, its digests included in the time.
func upload(ctx context.Context, api nodev1.FileServiceClient, jailID, source string) error {
	stream, err := api.UploadFiles(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Begin_{
		Begin: &nodev1.UploadFilesRequest_Begin{JailId: jailID, Path: "ours"},
	}}); err != nil {
		return err
	}
	all, err := digests(ctx, source)
	if err != nil {
		return err
	}
	buf := make([]byte, uploadPiece)
	for _, one := range all {
		if err = sendFile(stream, one, buf); err != nil {
			break
		}
	}
	out, rerr := stream.CloseAndRecv()
	if err == nil || errors.Is(err, io.EOF) {
		err = rerr
	}
	if err == nil && out.GetFiles() != uploadFiles+1 {
		err = fmt.Errorf("%d files arrived", out.GetFiles())
	}
	return err
}

// outgoing is a file with its entry.
type outgoing struct {
	at    string
	entry *nodev1.UploadEntry
}

// digests returns the files of a tree, as the command line does it: several at
// once.
func digests(ctx context.Context, source string) (all []outgoing, err error) {
	err = filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(source, path)
		all = append(all, outgoing{path, &nodev1.UploadEntry{Path: name, Type: "file", Mode: 0o644}})
		return err
	})
	if err != nil {
		return nil, err
	}
	work, _ := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for _, one := range all {
		work.Go(func() error {
			f, err := os.Open(one.at)
			if err != nil {
				return err
			}
			defer f.Close()
			h := blake3.New()
			one.entry.Size, err = io.Copy(h, f)
			one.entry.Digest = hex.EncodeToString(h.Sum(nil))
			return err
		})
	}
	return all, work.Wait()
}

func sendFile(stream grpc.ClientStreamingClient[nodev1.UploadFilesRequest, nodev1.UploadFilesResponse], one outgoing, buf []byte) error {
	f, err := os.Open(one.at)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Entry{Entry: one.entry}}); err != nil {
		return err
	}
	for {
		n, err := f.Read(buf)
		if n > 0 {
			if err := stream.Send(&nodev1.UploadFilesRequest{Message: &nodev1.UploadFilesRequest_Data{Data: buf[:n]}}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tarOver copies a tree by tar through a loopback connection.
func tarOver(ctx context.Context, source, to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	sent := make(chan error, 1)
	go func() {
		conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			sent <- err
			return
		}
		defer conn.Close()
		cmd := osexec.CommandContext(ctx, "tar", "-c", "-C", source, ".")
		cmd.Stdout = conn
		sent <- cmd.Run()
	}()
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	cmd := osexec.CommandContext(ctx, "tar", "-x", "-C", to)
	cmd.Stdin = conn
	return errors.Join(cmd.Run(), <-sent)
}
