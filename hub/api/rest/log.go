package rest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"connectrpc.com/connect"

	"github.com/deckhand-sh/deckhand/hub/api"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// liveRange is the length of the longest range of a log whose command still runs: the end
// of the range has to be known before it is sent.
const liveRange = 4 << 20

// logs are the paths of logs. Output that is missing in a log, because its node's disk was full
// or because retention has deleted it, is sent as NUL bytes, so that offsets hold.
func (h *Handler) logs() {
	// The raw output of a step's command.
	h.special.HandleFunc("GET /v1/steps/{step}/log", func(w http.ResponseWriter, r *http.Request) {
		serveLog(h, w, r, true, func(from int64, follow bool) (*connect.ServerStreamForClient[deckhandv1.ReadLogResponse], error) {
			return local{h.cfg.Door, r}.tasks().ReadLog(r.Context(), &deckhandv1.ReadLogRequest{StepId: r.PathValue("step"), Offset: from, Follow: follow})
		})
	})
	// That of all commands of a task that have ended.
	h.special.HandleFunc("GET /v1/tasks/{task}/log", func(w http.ResponseWriter, r *http.Request) {
		serveLog(h, w, r, false, func(from int64, _ bool) (*connect.ServerStreamForClient[deckhandv1.ReadTaskLogResponse], error) {
			return local{h.cfg.Door, r}.tasks().ReadTaskLog(r.Context(), &deckhandv1.ReadTaskLogRequest{TaskId: r.PathValue("task"), Offset: from})
		})
	})
	// That of a command of a person.
	h.special.HandleFunc("GET /v1/node-execs/{exec}/log", func(w http.ResponseWriter, r *http.Request) {
		serveLog(h, w, r, true, func(from int64, follow bool) (*connect.ServerStreamForClient[deckhandv1.ReadNodeLogResponse], error) {
			return local{h.cfg.Door, r}.execs().ReadNodeLog(r.Context(), &deckhandv1.ReadNodeLogRequest{ExecId: r.PathValue("exec"), Offset: from, Follow: follow})
		})
	})
}

// logPiece is a pointer to a piece of a log.
type logPiece[T any] interface {
	*T
	GetOffset() int64
	GetData() []byte
}

// serveLog serves a log, which open reads from an offset on. It may be followed if follows is
// set.
func serveLog[T any, P logPiece[T]](h *Handler, w http.ResponseWriter, r *http.Request, follows bool, open func(from int64, follow bool) (*connect.ServerStreamForClient[T], error)) {
	follow := false
	for name, values := range r.URL.Query() {
		value, err := strconv.ParseBool(values[0])
		if name != "follow" || !follows || err != nil {
			fix := "for a part of the log, send the header Range"
			if follows {
				fix = "use follow=true or follow=false; " + fix
			}
			newProblem(r, http.StatusBadRequest, fmt.Sprintf("the parameter %.60q is not one of this log", name), fix).write(w)
			return
		}
		follow = value
	}
	from, to, ranged := byteRange(r.Header.Get("Range"))
	if follow && ranged {
		newProblem(r, http.StatusBadRequest, "a range of a log cannot be followed", "leave out follow or the header Range").write(w)
		return
	}
	stream, err := open(from, follow)
	more, ok := opened(h, w, r, stream, err)
	if !ok {
		return
	}
	defer stream.Close() //nolint:errcheck // it is over
	out := newRangeWriter(w, from)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	size, err := strconv.ParseInt(stream.ResponseHeader().Get(api.LogSizeHeader), 10, 64)
	switch known := err == nil; {
	case known && ranged && from >= size:
		w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", size))
		newProblem(r, http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("the log has %d bytes", size), "ask for a range within it").write(w)
		return
	case known:
		end := size
		if ranged {
			if to >= 0 {
				end = min(size, to+1)
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, end-1, size))
		}
		w.Header().Set("Accept-Ranges", "bytes")
		w.Header().Set("Content-Length", strconv.FormatInt(end-from, 10))
		out.end = end
		out.begin(ranged)
	case ranged:
		// The command runs: what there is now is the range.
		end := from + liveRange
		if to >= 0 {
			end = min(end, to+1)
		}
		var held bytes.Buffer
		part := &rangeWriter{to: &held, at: from, end: end}
		for ; more; more = stream.Receive() {
			if piece := P(stream.Msg()); part.write(piece.GetOffset(), piece.GetData()) != nil || part.at >= end {
				break
			}
		}
		if err := stream.Err(); err != nil && held.Len() == 0 {
			h.refuse(w, r, err)
			return
		}
		if held.Len() == 0 {
			newProblem(r, http.StatusRequestedRangeNotSatisfiable, "the log has no such bytes yet", "ask again, or use follow=true").write(w)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", from, from+int64(held.Len())-1))
		w.Header().Set("Content-Length", strconv.Itoa(held.Len()))
		out.begin(true)
		_, _ = w.Write(held.Bytes()) // the client is gone
		return
	default:
		out.begin(false)
	}
	for ; more; more = stream.Receive() {
		if piece := P(stream.Msg()); out.write(piece.GetOffset(), piece.GetData()) != nil || out.end > 0 && out.at >= out.end {
			return
		}
	}
	if stream.Err() != nil {
		panic(http.ErrAbortHandler) // it must not be taken for a whole one
	}
	if out.end > out.at {
		_ = out.fill(out.end) // a gap at the end
	}
}
