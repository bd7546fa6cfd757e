package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/hub/api"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/logging"
)

// Config is what a Handler is made of.
type Config struct {
	// Door admits callers. What comes after it are the Connect handlers.
	Door *auth.Door
	// Watch makes the calls that stream events, which the door has admitted.
	Watch api.WatchInto
	// Show maps an error to one that may be shown; see api.Shown.
	Show func(r *http.Request, err error) error
	// MaxBytes bounds a body.
	MaxBytes uint32
	// BasePath is the path below which clients find the hub; empty for the root.
	BasePath string
}

// Handler serves the paths below /v1 and /openapi.json, and has the door serve all others.
type Handler struct {
	cfg     Config
	routes  *tree
	calls   http.Handler // vanguard's, behind the door
	special *http.ServeMux
	// document is /openapi.json.
	document http.Handler
}

// New creates a Handler.
func New(cfg Config) (*Handler, error) {
	routes := Routes()
	var names []string
	for _, r := range routes {
		names = append(names, string(r.RPC.Parent().FullName()))
	}
	slices.Sort(names)
	var services []*vanguard.Service
	for _, name := range slices.Compact(names) {
		services = append(services, vanguard.NewService(name, readable(cfg.Door.Next)))
	}
	transcoder, err := vanguard.NewTranscoder(services,
		vanguard.WithDefaultServiceOptions(
			vanguard.WithTargetProtocols(vanguard.ProtocolConnect), vanguard.WithTargetCodecs(vanguard.CodecProto),
			// In memory, and on one machine.
			vanguard.WithNoTargetCompression(), vanguard.WithMaxMessageBufferBytes(cfg.MaxBytes),
		),
		// A field that does not exist is refused, as a parameter is: it may be misspelt.
		vanguard.WithCodec(func(r vanguard.TypeResolver) vanguard.Codec {
			return &vanguard.JSONCodec{
				MarshalOptions:   protojson.MarshalOptions{Resolver: r, EmitDefaultValues: true},
				UnmarshalOptions: protojson.UnmarshalOptions{Resolver: r},
			}
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("read the HTTP annotations: %w", err)
	}
	h := &Handler{cfg: cfg, routes: newTree(routes), calls: transcoder, special: http.NewServeMux(), document: newDocument(cfg.BasePath)}
	h.special.HandleFunc("GET /v1/events", h.events)
	h.special.HandleFunc("GET /v1/tasks/{task}/updates", h.updates)
	h.logs()
	h.files()
	h.exports()
	return h, nil
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, Prefix):
		h.rest(w, r)
	case r.URL.Path == DocumentPath:
		h.document.ServeHTTP(w, r)
	default:
		h.cfg.Door.ServeHTTP(w, r)
	}
}

func (h *Handler) rest(w http.ResponseWriter, r *http.Request) {
	r = identified(w, r)
	if _, pattern := h.special.Handler(r); pattern != "" {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			newProblem(r, http.StatusMethodNotAllowed, "a stream can only be read", "use GET").write(w)
			return
		}
		h.special.ServeHTTP(w, r)
		return
	}
	head := r.Method == http.MethodHead
	if head {
		r.Method = http.MethodGet
	}
	path := r.URL.EscapedPath()
	methods := h.routes.find(path)
	procedure, ok := methods[r.Method]
	switch {
	case len(methods) == 0:
		newProblem(r, http.StatusNotFound, fmt.Sprintf("there is no path %.200q", path), "GET /openapi.json lists all paths").write(w)
		return
	case !ok:
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		newProblem(r, http.StatusMethodNotAllowed, fmt.Sprintf("%.200q does not take %s", path, r.Method), "use a method of the header Allow").write(w)
		return
	}
	// The same limits as for the other protocols hold for what the caller sends. vanguard
	// takes the path as it was sent, so that a variable may have a colon or a slash.
	r.URL.Path, r.URL.RawPath = path, ""
	limit := int64(h.cfg.MaxBytes)
	if rule, _ := auth.RuleOf(procedure); rule.Public {
		limit = auth.PublicBytes
	}
	h.cfg.Door.ServeCall(w, r, procedure, h.refuse, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.call(w, r, limit) }))
}

// call serves a call that is admitted, with a body of at most limit bytes.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, limit int64) {
	if id := auth.Known(r.Context()); id.OrgID != "" {
		limit, left := h.cfg.Door.Rates.Left(id)
		if limit > 0 {
			w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"token";q=%d;w=1`, limit))
			w.Header().Set("RateLimit", fmt.Sprintf(`"token";r=%d;t=1`, left))
		}
	}
	out := &response{ResponseWriter: w, r: r, id: r.Header.Get(logging.CorrelationHeader)}
	inner := r.Clone(r.Context())
	for _, name := range []string{"Accept-Encoding", "If-None-Match", "Connect-Protocol-Version", "X-Server-Timeout"} {
		inner.Header.Del(name)
	}
	if inner.Header.Get("Content-Type") == "" && inner.ContentLength != 0 && inner.Method != http.MethodGet {
		inner.Header.Set("Content-Type", "application/json")
	}
	if problem := bound(inner, limit); problem != nil {
		// What is still to come of the body is not waited for.
		w.Header().Set("Connection", "close")
		problem.write(w)
		return
	}
	h.calls.ServeHTTP(out, inner.WithContext(context.WithValue(inner.Context(), responseKey{}, out)))
	out.finish()
}

// responseKey is the context key of a call's response.
type responseKey struct{}

// readable makes calls only whose requests can be read. When vanguard cannot read one, it
// writes an error and has its handler read an empty body, which would be a valid request of
// many procedures.
func readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// With its first bytes, the whole of a body has been read and converted.
		begin := make([]byte, 512)
		n, err := io.ReadFull(r.Body, begin)
		if out, ok := r.Context().Value(responseKey{}).(*response); !ok || out.status != 0 {
			return
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		r.Body = &begun{ReadCloser: r.Body, begin: begin[:n], err: err}
		next.ServeHTTP(w, r)
	})
}

// begun is a body whose beginning was read, with the error of that if there was one.
type begun struct {
	io.ReadCloser

	begin []byte
	err   error
}

// Read reads a piece.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.begin) > 0 {
		n := copy(p, b.begin)
		b.begin = b.begin[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// Refuse writes a refusal of a request that did not come to its handler, in the form of
// its protocol.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err error) {
	if !strings.HasPrefix(r.URL.Path, Prefix) {
		h.cfg.Door.Refuse(w, r, err)
		return
	}
	h.refuse(w, identified(w, r), err)
}

// identified returns a request with an id, which the response has as well.
func identified(w http.ResponseWriter, r *http.Request) *http.Request {
	id := r.Header.Get(logging.CorrelationHeader)
	if !logging.ValidCorrelation(id) {
		id = ident.New("corr")
	}
	r = r.Clone(r.Context())
	r.Header.Set(logging.CorrelationHeader, id)
	w.Header().Set(logging.CorrelationHeader, id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return r
}

// refuse writes an error.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	shown := h.cfg.Show(r, err)
	p := problemOf(shown, r.Header.Get(logging.CorrelationHeader))
	var e *connect.Error
	if errors.As(shown, &e) && e.Meta().Get("Retry-After") != "" {
		w.Header().Set("Retry-After", e.Meta().Get("Retry-After"))
	}
	p.write(w)
}
