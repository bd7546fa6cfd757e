package files

import (
	"io"
	"io/fs"
	"os"

	"google.golang.org/grpc"

	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// pieceBytes is how much of a file is sent at once: with what goes around it, it
// fits a buffer of 1 MiB.
const pieceBytes = 1<<20 - 1<<10

// DownloadFiles implements nodev1.FileServiceServer.
func (s *Service) DownloadFiles(req *nodev1.DownloadFilesRequest, stream grpc.ServerStreamingServer[nodev1.DownloadFilesResponse]) error {
	if err := s.download(req, stream); err != nil {
		return fault.ToGRPC(err)
	}
	return nil
}

func (s *Service) download(req *nodev1.DownloadFilesRequest, stream grpc.ServerStreamingServer[nodev1.DownloadFilesResponse]) error {
	w, _, err := s.open(req.GetJailId(), "")
	if err != nil {
		return err
	}
	defer w.close()
	buf := make([]byte, pieceBytes)
	for _, e := range req.GetEntries() {
		if err := w.sendFile(e, buf, stream); err != nil {
			return explain(e.GetPath(), err)
		}
	}
	return nil
}

func (w *workspace) sendFile(e *nodev1.UploadEntry, buf []byte, stream grpc.ServerStreamingServer[nodev1.DownloadFilesResponse]) error {
	name, err := clean(e.GetPath())
	if err != nil {
		return err
	}
	f, info, err := w.openRegular(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	changed := fault.New(fault.Aborted, "%q has changed since it was described", e.GetPath()).WithCode(fault.FileConflict).WithFix("describe it again")
	if !unchanged(e, info) || e.GetOffset() > e.GetSize() {
		return changed
	}
	if err := stream.Send(&nodev1.DownloadFilesResponse{Message: &nodev1.DownloadFilesResponse_Entry{Entry: e}}); err != nil {
		return err
	}
	for at := e.GetOffset(); at < e.GetSize(); {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), e.GetSize()-at)], at)
		if n == 0 {
			if err == io.EOF { //nolint:errorlint // as ReadAt documents it
				return changed
			}
			return err
		}
		// After it was read: what is sent is of the version that was described.
		if info, err := f.Stat(); err != nil {
			return err
		} else if !unchanged(e, info) {
			return changed
		}
		if err := stream.Send(&nodev1.DownloadFilesResponse{Message: &nodev1.DownloadFilesResponse_Data{Data: buf[:n]}}); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// unchanged reports whether a file is as it was described. An entry may have no time.
func unchanged(e *nodev1.UploadEntry, info fs.FileInfo) bool {
	return info.Size() == e.GetSize() && (e.GetModifiedAt() == nil || info.ModTime().Equal(e.GetModifiedAt().AsTime()))
}
