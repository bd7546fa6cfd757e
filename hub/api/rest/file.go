package rest

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// files are the paths of the files in workspaces, as they are: a range of one, by offsets that
// hold as long as the ETag is the same, which is the file's BLAKE3 digest.
func (h *Handler) files() {
	h.special.HandleFunc("GET /v1/tasks/{task}/files/{path...}", func(w http.ResponseWriter, r *http.Request) {
		h.file(w, r, &deckhandv1.DescribeFilesRequest{Workspace: &deckhandv1.DescribeFilesRequest_TaskId{TaskId: r.PathValue("task")}},
			&deckhandv1.DownloadFilesRequest{Workspace: &deckhandv1.DownloadFilesRequest_TaskId{TaskId: r.PathValue("task")}})
	})
	h.special.HandleFunc("GET /v1/agents/{agent}/files/{path...}", func(w http.ResponseWriter, r *http.Request) {
		h.file(w, r, &deckhandv1.DescribeFilesRequest{Workspace: &deckhandv1.DescribeFilesRequest_AgentId{AgentId: r.PathValue("agent")}},
			&deckhandv1.DownloadFilesRequest{Workspace: &deckhandv1.DownloadFilesRequest_AgentId{AgentId: r.PathValue("agent")}})
	})
}

// file serves one file of a workspace.
func (h *Handler) file(w http.ResponseWriter, r *http.Request, describe *deckhandv1.DescribeFilesRequest, download *deckhandv1.DownloadFilesRequest) {
	if !only(w, r) {
		return
	}
	path := r.PathValue("path")
	describe.Paths, describe.Exact = []string{path}, true
	entry, err := h.entry(r, describe, path)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	header, tag, size := w.Header(), `"`+entry.GetDigest()+`"`, entry.GetSize()
	header.Set("Etag", tag)
	header.Set("Cache-Control", "no-cache")
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	from, to, ranged := byteRange(r.Header.Get("Range"))
	if same := r.Header.Get("If-Range"); same != "" && same != tag {
		from, to, ranged = 0, -1, false
	}
	if ranged && from >= size {
		header.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		newProblem(r, http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("the file has %d bytes", size), "ask for a range within it").write(w)
		return
	}
	end := size
	if ranged && to >= 0 {
		end = min(size, to+1)
	}
	entry.Offset = from
	download.Entries = []*deckhandv1.UploadEntry{entry}
	stream, err := local{h.cfg.Door, r}.files().DownloadFiles(r.Context(), download)
	more, ok := opened(h, w, r, stream, err)
	if !ok {
		return
	}
	defer stream.Close() //nolint:errcheck // it is over
	out := newRangeWriter(w, from)
	out.end = end
	// Whatever an agent wrote is no page of the hub.
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", "attachment")
	header.Set("Content-Security-Policy", "sandbox")
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Length", strconv.FormatInt(end-from, 10))
	if ranged {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, end-1, size))
	}
	out.begin(ranged)
	for ; more && out.at < end; more = stream.Receive() {
		if out.put(stream.Msg().GetData()) != nil {
			return
		}
	}
	// What is missing because the file has changed is seen by the length.
}

// entry returns the file at a path, with its size and digest.
func (h *Handler) entry(r *http.Request, describe *deckhandv1.DescribeFilesRequest, path string) (found *deckhandv1.UploadEntry, err error) {
	stream, err := local{h.cfg.Door, r}.files().DescribeFiles(r.Context(), describe)
	if err != nil {
		return nil, err
	}
	defer stream.Close() //nolint:errcheck // it is over
	for stream.Receive() {
		for _, e := range stream.Msg().GetEntries() {
			found = e
		}
	}
	switch {
	case stream.Err() != nil:
		return nil, stream.Err()
	case found == nil:
		return nil, fault.New(fault.NotFound, "there is no file %.200q in the workspace", path).WithFix("list what there is with GET /v1/files")
	case found.GetType() != "file":
		return nil, fault.New(fault.Precondition, "%.200q is not a file but a %s", path, found.GetType()).WithFix("list a folder with GET /v1/files")
	}
	return found, nil
}
