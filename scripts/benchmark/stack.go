package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/deckhand-sh/deckhand/hub"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/memtrim"
	"github.com/deckhand-sh/deckhand/node/nodetest"
	"github.com/deckhand-sh/deckhand/sdk"
	"github.com/deckhand-sh/deckhand/worker"
)

// stack is a hub with its database, and what a benchmark adds to it.
type stack struct {
	dir      string
	services []lifecycle.Service
	cluster  *postgres.Cluster
	hub      *hub.Hub
	client   *sdk.Client // as the administrator
}

func newStack(ctx context.Context, options ...func(*hub.Config)) (_ *stack, err error) {
	memtrim.Room() // as the program's main does
	s, err := newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	cfg := hub.Config{
		Listen: "127.0.0.1:0", EdgeListen: "127.0.0.1:0", DataDir: filepath.Join(s.dir, "hub"),
		DatabaseURL: config.Secret(s.cluster.URL("deckhand")), InProcessNATS: true, MaxPerUser: 1000, APIRate: -1,
	}
	for _, option := range options {
		option(&cfg)
	}
	h, err := cfg.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, h); err != nil {
		return nil, err
	}
	s.hub = h
	return s, s.connect(h.URL())
}

// connect makes the administrator's client of the stack's hub.
func (s *stack) connect(url string) error {
	admin, err := os.ReadFile(filepath.Join(s.dir, "hub", datadir.AdminTokenFile))
	if err != nil {
		return err
	}
	s.client, err = sdk.New(sdk.Config{URL: url, Token: strings.TrimSpace(string(admin)), Retries: -1})
	return err
}

// newDatabase is a stack without a hub.
func newDatabase(ctx context.Context) (_ *stack, err error) {
	s := &stack{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "deckhand-bench-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o711); err != nil { //nolint:gosec // PostgreSQL runs as a user of its own
		return nil, err
	}
	cluster, err := postgres.Config{DataDir: filepath.Join(s.dir, "postgres")}.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, cluster); err != nil {
		return nil, err
	}
	s.cluster = cluster
	return s, cluster.EnsureDatabase(ctx, "deckhand")
}

// simulatedNode adds a node without jails.
func (s *stack) simulatedNode(ctx context.Context, options ...func(*nodetest.Config)) error {
	join, err := s.hub.LocalJoinToken(ctx)
	if err != nil {
		return err
	}
	cfg := nodetest.Config{Dir: filepath.Join(s.dir, "node"), HubURL: s.hub.URL(), JoinToken: join, Name: "simulated"}
	for _, option := range options {
		option(&cfg)
	}
	node, err := nodetest.New(ctx, cfg)
	if err != nil {
		return err
	}
	return s.start(ctx, node)
}

// worker adds a worker.
func (s *stack) worker(ctx context.Context, slots int) error {
	token, err := s.hub.WorkerToken()
	if err != nil {
		return err
	}
	w, err := worker.Config{
		HubURL: s.hub.URL(), Token: config.Secret(token), Slots: slots,
		NATSOptions: []nats.Option{nats.InProcessServer(s.hub.NATS())},
	}.Complete(ctx)
	if err != nil {
		return err
	}
	return s.start(ctx, w)
}

func (s *stack) start(ctx context.Context, service lifecycle.Service) error {
	if err := service.Start(ctx); err != nil {
		service.Stop()
		return err
	}
	s.services = append(s.services, service)
	return nil
}

// stop ends everything in reverse order and removes it.
func (s *stack) stop() {
	for _, service := range slices.Backward(s.services) {
		service.Stop()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(errors.New("clean up"), err))
	}
}
