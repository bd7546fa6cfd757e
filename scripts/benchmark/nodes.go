package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/node/nodetest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	manyNodes = 5000
	// envNodes makes it fewer, for a first try.
	envNodes = "DECKHAND_BENCH_NODES"
	// nodesRest is how long all of them stand idle before memory is read.
	nodesRest = 30 * time.Second
	// nodesPatience is how long enrolling, or coming back, may take.
	nodesPatience = 10 * time.Minute
)

// nodes measures what a hub in a process of its own needs for each of 5 000
// nodes that are linked to it and idle, and how long it takes until all are
// linked again after the hub was stopped in order and started again: takeback_s
// counts from the old one's end. The nodes have no jails and share this process;
// their identity, link and session are the real ones.
func nodes(ctx context.Context) (_ result, err error) {
	count := manyNodes
	if text := os.Getenv(envNodes); text != "" {
		if count, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("%s: %w", envNodes, err)
		}
	}
	s, err := newDatabase(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	api, edge := "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1]
	hub, err := s.hubProcess(ctx, api, edge)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, hub.stop()) }()
	if err := s.connect("http://" + api); err != nil {
		return nil, err
	}
	db, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, db.Close(ctx)) }()
	empty := residentMB(hub.cmd.Process.Pid)

	began := time.Now()
	var fleet sync.WaitGroup
	defer fleet.Wait()
	// The hub's processes are not of this context: they are stopped in order.
	linked, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.enrolMany(linked, count, &fleet); err != nil {
		return nil, err
	}
	if err := connected(ctx, db, "", count); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, hub.log.String())
	}
	enrolled := time.Since(began)
	time.Sleep(nodesRest)
	full := residentMB(hub.cmd.Process.Pid)

	if _, err := db.Exec(ctx, "CREATE TEMP TABLE before AS SELECT node_id, epoch FROM node_sessions"); err != nil {
		return nil, err
	}
	if err := hub.stop(); err != nil {
		return nil, err
	}
	stopped := time.Now()
	if hub, err = s.hubProcess(ctx, api, edge); err != nil {
		return nil, err
	}
	serving := time.Since(stopped)
	if err := connected(ctx, db, "JOIN before b ON b.node_id = s.node_id AND s.epoch > b.epoch", count); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, hub.log.String())
	}
	took := time.Since(stopped)
	time.Sleep(nodesRest)
	return result{
		"unit": "KiB", "ours": (full - empty) * 1024 / float64(count), "n": count, "takeback_s": took.Seconds(), "serving_s": serving.Seconds(),
		"enrol_s": enrolled.Seconds(), "hub_mb": full, "hub_mb_empty": empty, "hub_mb_after_takeback": residentMB(hub.cmd.Process.Pid),
	}, nil
}

// hubProcess starts a hub as operators do and returns when it serves.
func (s *stack) hubProcess(ctx context.Context, api, edge string) (*process, error) {
	p, err := s.process(ctx, []string{"DECKHAND_DATABASE_URL=" + s.cluster.URL("deckhand")},
		"hub", "--data-dir", filepath.Join(s.dir, "hub"), "--listen", api, "--edge-listen", edge, "--nats-listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + api + "/readyz") //nolint:noctx // on this machine
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("the hub does not serve: %s", p.log.String()), p.stop())
		}
	}
}

// enrolMany enrols nodes and has them linked until the context ends.
func (s *stack) enrolMany(ctx context.Context, count int, fleet *sync.WaitGroup) error {
	const atOnce = 16
	errs := make(chan error, count)
	free := make(chan struct{}, atOnce)
	for i := range count {
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			errs <- s.enrolOne(ctx, i, fleet)
		}()
	}
	for range count {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) enrolOne(ctx context.Context, i int, fleet *sync.WaitGroup) error {
	token, err := s.client.Nodes.CreateJoinToken(ctx, &deckhandv1.CreateJoinTokenRequest{})
	if err != nil {
		return err
	}
	node, err := nodetest.New(ctx, nodetest.Config{
		Dir: filepath.Join(s.dir, "nodes", strconv.Itoa(i)), HubURL: s.client.URL(), JoinToken: token.GetToken(), Name: fmt.Sprintf("node-%d", i),
	})
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	fleet.Go(func() { <-node.Done() })
	return nil
}

// connected waits until so many sessions are open.
func connected(ctx context.Context, db *pgx.Conn, join string, count int) error {
	n := 0
	for deadline := time.Now().Add(nodesPatience); n < count; time.Sleep(100 * time.Millisecond) {
		if err := db.QueryRow(ctx, "SELECT count(*) FROM node_sessions s "+join+" WHERE s.connected").Scan(&n); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d nodes are connected", n, count)
		}
	}
	return nil
}

// freePorts returns ports that nobody listens on.
func freePorts(n int) (out []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // on this machine
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}
