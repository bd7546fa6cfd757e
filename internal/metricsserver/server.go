// Package metricsserver serves a process's Prometheus metrics and its readiness
// probe on a separate listener. The listen address decides who can read them,
// and a scraper that hangs blocks nothing else. If the server fails, no count
// is lost.
package metricsserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/listenaddr"
)

// Flag names the flag of each role that has metrics.
const Flag = "metrics-listen"

// Usage is what the flag's help says.
const Usage = "serve Prometheus metrics at /metrics of this address, and health at /healthz and /readyz, for example 127.0.0.1:9464; off by default"

const (
	timeout     = 10 * time.Second
	maxInFlight = 4
)

// NewRegistry returns a registry that has the Go runtime's and the process's
// own metrics.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Server serves one registry. It is a lifecycle.Service.
type Server struct {
	lifecycle.Runner

	address  string
	gatherer prometheus.Gatherer
	ready    func() []ReadinessCheck
	log      hclog.Logger

	mu    sync.Mutex
	bound net.Addr // guarded by mu
}

var _ lifecycle.Service = (*Server)(nil)

// ReadinessCheck is one thing that a process needs to be ready.
type ReadinessCheck struct {
	What string
	// Problem is nil where all is well.
	Problem error
}

// New creates a Server that will listen on address. ready returns the current
// state of each dependency of the process; it is nil if readiness is served
// elsewhere. It must be quick and must not reveal secrets.
func New(address string, gatherer prometheus.Gatherer, ready func() []ReadinessCheck, log hclog.Logger) *Server {
	return &Server{address: address, gatherer: gatherer, ready: ready, log: log}
}

// readiness responds with 200 if every check passes and with 503 otherwise,
// with a line for each check.
func (s *Server) readiness(w http.ResponseWriter, _ *http.Request) {
	looks := s.ready()
	for _, look := range looks {
		if look.Problem != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			break
		}
	}
	for _, look := range looks {
		if look.Problem != nil {
			fmt.Fprintf(w, "%s: %s\n", look.What, look.Problem)
		} else {
			fmt.Fprintf(w, "%s: ok\n", look.What)
		}
	}
}

// Addr is where it listens; nil before Start.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// Start listens and serves.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return listenaddr.Fault(Flag, s.address, err)
	}
	s.mu.Lock()
	s.bound = listener.Addr()
	s.mu.Unlock()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, ErrorLog: s.log.StandardLogger(nil),
		MaxRequestsInFlight: maxInFlight, Timeout: timeout,
	}))
	if s.ready != nil {
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
		mux.HandleFunc("GET /readyz", s.readiness)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: timeout, ErrorLog: s.log.StandardLogger(nil)}
	s.log.Info("serving metrics", "address", listener.Addr().String())
	return s.Run(ctx, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics: %w", err)
		}
		return nil
	})
}
