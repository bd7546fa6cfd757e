package file

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"connectrpc.com/connect"
	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// local is what is to be copied: where it lies, and how it is told.
type local struct {
	at    string
	entry *deckhandv1.UploadEntry
}

// collect returns a file, or what is in a folder, with digests.
func collect(ctx context.Context, root string) ([]local, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	base := root
	if !info.IsDir() {
		base = filepath.Dir(root)
	}
	var out []local
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, at)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := &deckhandv1.UploadEntry{Path: filepath.ToSlash(rel), Mode: uint32(info.Mode().Perm())}
		switch {
		case info.IsDir():
			e.Type = "dir"
		case info.Mode()&fs.ModeSymlink != 0:
			e.Type = "symlink"
			if e.Target, err = os.Readlink(at); err != nil {
				return err
			}
		case info.Mode().IsRegular():
			e.Type, e.ModifiedAt = "file", timestamppb.New(info.ModTime())
		default:
			return nil // pipes and the like are nothing to copy
		}
		out = append(out, local{at, e})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, digestAll(ctx, out)
}

// digestAll fills in files' digests and sizes, several files at once.
func digestAll(ctx context.Context, all []local) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for _, one := range all {
		if one.entry.GetType() != "file" {
			continue
		}
		work.Go(func() (err error) {
			if err = ctx.Err(); err == nil {
				one.entry.Digest, one.entry.Size, err = digestFile(one.at)
			}
			return err
		})
	}
	return work.Wait()
}

func digestFile(at string) (digest string, size int64, err error) {
	f, err := os.Open(at)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := blake3.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// compareAtOnce is how many files are compared in one call.
const compareAtOnce = 2000

// pieceBytes is how much of a file is sent at once: with what goes around it, it
// fits a buffer of 1 MiB.
const pieceBytes = 1<<20 - 1<<10

func upload(ctx context.Context, client *sdk.Client, owner, ref, into string, all []local) (*deckhandv1.UploadFilesResponse, error) {
	stream, err := client.Files.UploadFiles(ctx)
	if err != nil {
		return nil, err
	}
	begin := &deckhandv1.UploadFilesRequest_Begin{Path: into, Workspace: &deckhandv1.UploadFilesRequest_Begin_AgentId{AgentId: ref}}
	if owner == "task" {
		begin.Workspace = &deckhandv1.UploadFilesRequest_Begin_TaskId{TaskId: ref}
	}
	err = stream.Send(&deckhandv1.UploadFilesRequest{Message: &deckhandv1.UploadFilesRequest_Begin_{Begin: begin}})
	buf := make([]byte, pieceBytes)
	for _, one := range all {
		if err != nil {
			break
		}
		if one.entry.GetOffset() >= 0 {
			err = uploadOne(stream, one, buf)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	// What the hub refused is said by its answer.
	res, err := stream.CloseAndReceive()
	if err != nil {
		return nil, err
	}
	return res, nil
}

func uploadOne(stream *connect.ClientStreamForClientSimple[deckhandv1.UploadFilesRequest, deckhandv1.UploadFilesResponse], one local, buf []byte) error {
	if err := stream.Send(&deckhandv1.UploadFilesRequest{Message: &deckhandv1.UploadFilesRequest_Entry{Entry: one.entry}}); err != nil {
		return err
	}
	if one.entry.GetType() != "file" {
		return nil
	}
	f, err := os.Open(one.at)
	if err != nil {
		return err
	}
	defer f.Close()
	r := io.NewSectionReader(f, one.entry.GetOffset(), one.entry.GetSize()-one.entry.GetOffset())
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := stream.Send(&deckhandv1.UploadFilesRequest{Message: &deckhandv1.UploadFilesRequest_Data{Data: buf[:n]}}); err != nil {
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
