// Package channel serves the egress proxies of nodes: it gives them the keys of their jails'
// authorities and short-lived tokens, stores their records, and sends requests on into which
// a credential is inserted that never leaves the hub. Package egresslink has the protocol.
//
// Channels opens a channel to each node that connects to this hub, and again when it breaks.
// A node is trusted with the jails of its own organisation that it runs, and with nothing
// else: every question names a jail, and a task of that jail must be running on that node.
// If the database is not reachable, questions fail with fault.Unavailable; requests that are
// being sent on continue.
package channel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/yamux"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/bufpool"
	"github.com/deckhand-sh/deckhand/internal/bytestream"
	"github.com/deckhand-sh/deckhand/internal/echomask"
	"github.com/deckhand-sh/deckhand/internal/egresslink"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Credentials is what is asked about credentials. They are given for a jail in which a task
// runs on the node, and refused with fault.Denied for every other.
type Credentials interface {
	// Token returns what the node inserts itself, into requests to target; empty for one
	// that is not known.
	Token(ctx context.Context, orgID, nodeID, jailID, name, target string) (egresslink.Token, error)
	// Insert puts a credential that stays in the hub into a request.
	Insert(ctx context.Context, orgID, nodeID, jailID, name string, req *http.Request) (credential.Inserted, error)
	// Record stores records of requests.
	Record(ctx context.Context, orgID, nodeID string, records []egresslink.Record) error
}

// Config holds the dependencies of Channels.
type Config struct {
	// Queries reports whether a jail's task is running on a node, or a sync reads in it.
	Queries interface {
		JailIsLive(ctx context.Context, arg db.JailIsLiveParams) (bool, error)
	}
	Credentials Credentials
	// Program serves a request of a program in a jail that calls the hub, or returns why it may
	// not. execID is the command that it says it is of, or empty.
	Program func(w http.ResponseWriter, r *http.Request, orgID, nodeID, jailID, execID string) error
	// Key returns the key of a jail's authority.
	Key func(ctx context.Context, orgID, jailID, certificate string) (string, error)
	// Node returns the link that this hub has to a node, or an error.
	Node func(nodeID string) (machine.Link, error)
	// Org returns the organisation of a node.
	Org func(nodeID string) (string, error)
	Log hclog.Logger
}

// Channels serves the nodes that are connected to this hub.
type Channels struct {
	cfg     Config
	limit   *limits
	buffers *bufpool.Pool // for copying bodies

	mu    sync.Mutex
	nodes map[string]context.CancelFunc // by id; guarded by mu
	wg    sync.WaitGroup
}

// bufferSize is that of buffers for copying bodies, in bytes.
const bufferSize = 32 << 10

// New creates Channels.
func New(cfg Config) *Channels {
	return &Channels{cfg: cfg, limit: newLimits(), buffers: bufpool.New(bufferSize), nodes: map[string]context.CancelFunc{}}
}

// Changed is called for each node that connects or disconnects.
func (c *Channels) Changed(nodeID string, connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.nodes[nodeID]; end != nil {
		end()
		delete(c.nodes, nodeID)
	}
	if !connected {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	c.nodes[nodeID] = end
	c.wg.Go(func() { c.keep(ctx, nodeID) })
}

// Close ends all channels.
func (c *Channels) Close() {
	c.mu.Lock()
	for nodeID, end := range c.nodes {
		end()
		delete(c.nodes, nodeID)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// keep has a channel to a node for as long as it is connected.
func (c *Channels) keep(ctx context.Context, nodeID string) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := c.serve(ctx, nodeID)
		if ctx.Err() != nil || fault.Is(err, fault.Precondition) {
			return // a node that knows no channels
		}
		if failures++; time.Since(began) > time.Minute {
			failures = 1
		}
		c.cfg.Log.Debug("the channel to a node's egress proxy ended", "node_id", nodeID, "error", err)
		if backoff.Wait(ctx, backoff.Policy{}.Delay(failures)) != nil {
			return
		}
	}
}

// serve has one channel until it ends.
func (c *Channels) serve(ctx context.Context, nodeID string) error {
	link, err := c.cfg.Node(nodeID)
	if err != nil {
		return err
	}
	orgID, err := c.cfg.Org(nodeID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := link.Egress().Channel(ctx)
	if err != nil {
		return fault.FromGRPC(err)
	}
	s := &session{Channels: c, link: link, nodeID: nodeID, orgID: orgID, clients: map[string]*client{}, under: map[string]int{}, maskers: map[string]*echomask.Masker{}}
	defer s.close()
	return s.serve(ctx, &bytestream.Stream{
		Recv: func() ([]byte, error) {
			res, err := stream.Recv()
			if err != nil && !errors.Is(err, io.EOF) {
				err = fault.FromGRPC(err)
			}
			return res.GetData(), err
		},
		Send: func(b []byte) error { return fault.FromGRPC(stream.Send(&nodev1.ChannelRequest{Data: b})) },
		End:  cancel,
	})
}

// session is the channel to one node.
type session struct {
	*Channels

	link          machine.Link
	nodeID, orgID string

	clientsMu sync.Mutex
	clients   map[string]*client          // guarded by clientsMu
	maskers   map[string]*echomask.Masker // by credential and secrets; guarded by clientsMu
	// under is how many requests of each jail are being sent on; guarded by clientsMu.
	under map[string]int
}

const (
	readHeaderTimeout = 20 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10
	// maxQuestion bounds a question of a node, in bytes.
	maxQuestion = 4 << 20
)

func (s *session) serve(ctx context.Context, channel io.ReadWriteCloser) error {
	over, err := yamux.Server(&egresslink.Frames{ReadWriteCloser: channel}, egresslink.SessionConfig())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+egresslink.PathAuthority, answer(s.authority))
	mux.Handle("POST "+egresslink.PathToken, answer(s.token))
	mux.Handle("POST "+egresslink.PathRecords, answer(s.records))
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(egresslink.HeaderJail) != "" {
				s.send(w, r)
				return
			}
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, DisableGeneralOptionsHandler: true,
		ErrorLog: s.cfg.Log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}), Protocols: new(http.Protocols),
		HTTP2:       egresslink.Windows(),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	stop := context.AfterFunc(ctx, func() { _ = server.Close(); _ = over.Close() })
	defer stop()
	defer server.Close()
	return server.Serve(over)
}

// answer serves questions of one kind.
func answer[Q, A any](ask func(ctx context.Context, question Q) (A, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question Q
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
		if err == nil {
			err = json.Unmarshal(raw, &question)
		}
		var out any
		if err != nil {
			err = fault.New(fault.Invalid, "the question cannot be read: %v", err)
		} else {
			out, err = ask(r.Context(), question)
		}
		status := http.StatusOK
		if err != nil {
			status, out = egresslink.ErrorOf(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out)
	})
}

// authority returns the key of a jail's authority.
func (s *session) authority(ctx context.Context, q egresslink.AuthorityRequest) (egresslink.Authority, error) {
	if err := s.live(ctx, q.JailID); err != nil {
		return egresslink.Authority{}, err
	}
	key, err := s.cfg.Key(ctx, s.orgID, q.JailID, q.Certificate)
	return egresslink.Authority{Key: key}, err
}

// token returns a token for a jail.
func (s *session) token(ctx context.Context, q egresslink.TokenRequest) (egresslink.Token, error) {
	return s.cfg.Credentials.Token(ctx, s.orgID, s.nodeID, q.JailID, q.Credential, q.Target)
}

func (s *session) records(ctx context.Context, q egresslink.Records) (struct{}, error) {
	return struct{}{}, s.cfg.Credentials.Record(ctx, s.orgID, s.nodeID, q.Records)
}

// live refuses a jail on this node that neither a running task nor a running sync has.
func (s *session) live(ctx context.Context, jailID string) error {
	ok, err := s.cfg.Queries.JailIsLive(ctx, db.JailIsLiveParams{OrgID: s.orgID, NodeID: s.nodeID, JailID: jailID})
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "the hub's database does not respond").WithFix("try again in a moment").WithCause(err)
	case !ok:
		return fault.New(fault.Denied, "no task is running in jail %s on this node", jailID).WithFix("give the agent a task").WithObject(jailID)
	}
	return nil
}
