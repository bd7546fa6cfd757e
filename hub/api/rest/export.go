package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// digestHeader is the trailer of an export with the SHA-256 of all of it (RFC 9530).
const digestHeader = "Repr-Digest"

// exports are the paths of exports, which are streamed.
func (h *Handler) exports() {
	h.special.HandleFunc("GET /v1/tasks/{task}/export", func(w http.ResponseWriter, r *http.Request) {
		if !only(w, r, "format") {
			return
		}
		req, kind := &deckhandv1.ExportTaskRequest{TaskId: r.PathValue("task"), Format: deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_JSONL}, "application/jsonl"
		switch format := r.URL.Query().Get("format"); format {
		case "", "jsonl":
		case "asciicast":
			req.Format, kind = deckhandv1.ExportTaskFormat_EXPORT_TASK_FORMAT_ASCIICAST, "application/x-asciicast"
		default:
			newProblem(r, http.StatusBadRequest, fmt.Sprintf("format is %.60q", format), "use jsonl or asciicast").write(w)
			return
		}
		stream, err := local{h.cfg.Door, r}.history().ExportTask(r.Context(), req)
		serveExport(h, w, r, kind, stream, err)
	})
	h.special.HandleFunc("GET /v1/audit-entries:export", func(w http.ResponseWriter, r *http.Request) {
		if !only(w, r, "after") {
			return
		}
		req := &deckhandv1.ExportAuditRequest{}
		if after := r.URL.Query().Get("after"); after != "" {
			var err error
			if req.After, err = strconv.ParseInt(after, 10, 64); err != nil {
				newProblem(r, http.StatusBadRequest, fmt.Sprintf("after is %.60q", after), "give the position to continue behind").write(w)
				return
			}
		}
		stream, err := local{h.cfg.Door, r}.audit().ExportAudit(r.Context(), req)
		serveExport(h, w, r, "application/jsonl", stream, err)
	})
	for path, of := range map[string]func(r *http.Request) *deckhandv1.ExportWorkspaceRequest{
		"GET /v1/tasks/{task}/workspace": func(r *http.Request) *deckhandv1.ExportWorkspaceRequest {
			return &deckhandv1.ExportWorkspaceRequest{Workspace: &deckhandv1.ExportWorkspaceRequest_TaskId{TaskId: r.PathValue("task")}}
		},
		"GET /v1/agents/{agent}/workspace": func(r *http.Request) *deckhandv1.ExportWorkspaceRequest {
			return &deckhandv1.ExportWorkspaceRequest{Workspace: &deckhandv1.ExportWorkspaceRequest_AgentId{AgentId: r.PathValue("agent")}}
		},
	} {
		h.special.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { h.workspace(w, r, of(r)) })
	}
}

// workspace serves a workspace as an archive, or what a task changed in it as a patch.
func (h *Handler) workspace(w http.ResponseWriter, r *http.Request, req *deckhandv1.ExportWorkspaceRequest) {
	if !only(w, r, "format", "path", "changesOnly") {
		return
	}
	q, kind := r.URL.Query(), "application/x-tar"
	req.Path, req.Format = q.Get("path"), deckhandv1.ExportFormat_EXPORT_FORMAT_TAR
	switch format := q.Get("format"); format {
	case "", "tar":
	case "git-patch":
		req.Format, kind = deckhandv1.ExportFormat_EXPORT_FORMAT_GIT_PATCH, "text/x-patch"
	default:
		newProblem(r, http.StatusBadRequest, fmt.Sprintf("format is %.60q", format), "use tar or git-patch").write(w)
		return
	}
	if text := q.Get("changesOnly"); text != "" {
		var err error
		if req.ChangesOnly, err = strconv.ParseBool(text); err != nil {
			newProblem(r, http.StatusBadRequest, fmt.Sprintf("changesOnly is %.60q", text), "use true or false").write(w)
			return
		}
	}
	stream, err := local{h.cfg.Door, r}.workspaces().ExportWorkspace(r.Context(), req)
	serveExport(h, w, r, kind, stream, err)
}

// only refuses a request that has other parameters.
func only(w http.ResponseWriter, r *http.Request, parameters ...string) bool {
	for name := range r.URL.Query() {
		if !slices.Contains(parameters, name) {
			fix := "leave it out"
			if len(parameters) > 0 {
				fix = "use " + strings.Join(parameters, ", ")
			}
			newProblem(r, http.StatusBadRequest, fmt.Sprintf("there is no parameter %.60q", name), fix).write(w)
			return false
		}
	}
	return true
}

// exportPiece is a pointer to a piece of an export.
type exportPiece[T any] interface {
	*T
	GetData() []byte
}

// serveExport serves what a stream has. An export that breaks off ends its connection, so that
// it cannot be taken for a whole one.
func serveExport[T any, P exportPiece[T]](h *Handler, w http.ResponseWriter, r *http.Request, kind string, stream *connect.ServerStreamForClient[T], err error) {
	more, ok := opened(h, w, r, stream, err)
	if !ok {
		return
	}
	defer stream.Close() //nolint:errcheck // it is over
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Disposition", "attachment")
	header.Set("Content-Security-Policy", "sandbox")
	header.Set("Cache-Control", "no-store")
	header.Set("Trailer", digestHeader)
	out, sum := newRangeWriter(w, 0), sha256.New()
	out.begin(false)
	for ; more; more = stream.Receive() {
		data := P(stream.Msg()).GetData()
		sum.Write(data)
		if out.put(data) != nil {
			return
		}
	}
	if stream.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	header.Set(digestHeader, "sha-256=:"+base64.StdEncoding.EncodeToString(sum.Sum(nil))+":")
}
