package bus

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/lifecycle"
)

// ServerConfig configures the embedded server.
type ServerConfig struct {
	// Listen is a TCP address such as 127.0.0.1:4222 (port 0 for a free one); empty if
	// only this process reaches the server.
	Listen string
	// Host is the host that workers dial; empty for the host of Listen.
	Host string
	// TLS, when set, is how the server speaks over TCP, and no other way. In the
	// process itself it is not needed.
	TLS *tls.Config
	// Authority vouches for the certificate of TLS, as PEM; ServerName is a name in
	// it, and empty for the host.
	Authority, ServerName string
	// HubPassword and EventsPassword are the hub's in its two accounts, and
	// WorkerSecret is what workers' passwords follow from. Make them at random.
	HubPassword    config.Secret
	EventsPassword config.Secret
	WorkerSecret   config.Secret
	// LifecyclePassword is that of the user lifecycle, who may listen to lifecycle
	// events and do nothing else; empty for no such user.
	LifecyclePassword config.Secret
	// StoreDir is where JetStream keeps its folders, although everything is in
	// memory; empty for a temporary one.
	StoreDir string
	// Log receives the server's warnings and errors; may be nil.
	Log hclog.Logger
}

const (
	// maxMemory bounds the wake-ups kept: some 100 bytes each.
	maxMemory = 256 << 20
	// tlsTimeout bounds the handshake of a connection.
	tlsTimeout = 10 * time.Second
)

// Server is an embedded NATS server. It is a lifecycle.Service, and a
// nats.InProcessConnProvider. It keeps nothing over a stop but its port.
type Server struct {
	lifecycle.Runner

	cfg  ServerConfig
	host string
	port int

	mu     sync.Mutex // guards what follows
	nats   *server.Server
	work   *server.Account
	events *server.Account
	pools  map[string]*server.Account // of workers, by pool
}

// NewServer prepares a Server.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.HubPassword == "" || cfg.EventsPassword == "" || cfg.WorkerSecret == "" {
		return nil, errors.New("embedded NATS: every password must be set")
	}
	if cfg.Log == nil {
		cfg.Log = hclog.NewNullLogger()
	}
	s := &Server{cfg: cfg}
	if cfg.Listen != "" {
		host, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("embedded NATS: listen address %q: %w", cfg.Listen, err)
		}
		if s.port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("embedded NATS: listen address %q: the port is not a number", cfg.Listen)
		}
		if s.port == 0 {
			s.port = server.RANDOM_PORT
		}
		s.host = host
	}
	return s, nil
}

// Start implements lifecycle.Service.
func (s *Server) Start(ctx context.Context) error {
	// JetStream wants a folder although everything is kept in memory.
	dir, err := s.storeDir()
	if err != nil {
		return fmt.Errorf("embedded NATS: %w", err)
	}
	nats, err := s.serve(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return fmt.Errorf("embedded NATS: %w", err)
	}
	return s.Run(ctx, func(ctx context.Context) error {
		defer os.RemoveAll(dir)
		gone := make(chan struct{})
		go func() {
			nats.WaitForShutdown()
			close(gone)
		}()
		select {
		case <-ctx.Done():
			nats.Shutdown()
			<-gone
			return nil
		case <-gone:
			return errors.New("the server shut down by itself")
		}
	})
}

func (s *Server) storeDir() (string, error) {
	if s.cfg.StoreDir == "" {
		return os.MkdirTemp("", "deckhand-nats-")
	}
	return s.cfg.StoreDir, os.MkdirAll(s.cfg.StoreDir, 0o700)
}

func (s *Server) serve(dir string) (*server.Server, error) {
	if s.cfg.Listen != "" {
		// The server itself would only report that it is not ready.
		probe, err := net.Listen("tcp", net.JoinHostPort(s.host, strconv.Itoa(max(s.port, 0))))
		if err != nil {
			return nil, err
		}
		if err := probe.Close(); err != nil {
			return nil, err
		}
	}
	nats, err := server.NewServer(&server.Options{
		ServerName: "deckhand", Host: s.host, Port: s.port, DontListen: s.cfg.Listen == "",
		NoSigs: true, MaxPayload: 1 << 20, TLSConfig: s.cfg.TLS, TLSTimeout: tlsTimeout.Seconds(),
		JetStream: true, JetStreamMaxMemory: maxMemory, StoreDir: dir,
		Accounts:                   []*server.Account{server.NewAccount(workAccount), server.NewAccount(eventsAccount)},
		CustomClientAuthentication: authenticator{s},
	})
	if err != nil {
		return nil, err
	}
	nats.SetLoggerV2(serverLog{s.cfg.Log}, false, false, false)
	work, err := nats.LookupAccount(workAccount)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", workAccount, err)
	}
	events, err := nats.LookupAccount(eventsAccount)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", eventsAccount, err)
	}
	s.mu.Lock()
	s.nats, s.work, s.events, s.pools = nats, work, events, map[string]*server.Account{}
	s.mu.Unlock()
	nats.Start()
	if !nats.ReadyForConnections(10 * time.Second) {
		nats.Shutdown()
		nats.WaitForShutdown()
		return nil, errors.New("not ready in time")
	}
	// Without limits of its own the account has all of the server's.
	if err := work.EnableJetStream(nil, nil); err != nil {
		nats.Shutdown()
		nats.WaitForShutdown()
		return nil, fmt.Errorf("enable JetStream: %w", err)
	}
	if address, ok := nats.Addr().(*net.TCPAddr); ok {
		s.port = address.Port // workers know it
	}
	return nats, nil
}

// InProcessConn implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	nats := s.nats
	s.mu.Unlock()
	if nats == nil {
		return nil, errors.New("the embedded NATS server has not been started")
	}
	return nats.InProcessConn()
}

// URL returns the server's URL, or "" if it does not listen.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Listen == "" || s.nats == nil {
		return ""
	}
	own := s.nats.ClientURL()
	u, err := url.Parse(own)
	if err != nil || s.cfg.Host == "" {
		return own
	}
	u.Host = net.JoinHostPort(s.cfg.Host, u.Port())
	return u.String()
}

// authenticator lets in the hub's two users, listeners and workers, each with the rights
// that follow from its name.
type authenticator struct{ s *Server }

// Check implements server.Authentication.
func (a authenticator) Check(c server.ClientAuthentication) bool {
	if c.Kind() != server.CLIENT {
		return false
	}
	name, password := c.GetOpts().Username, c.GetOpts().Password
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	switch name {
	case hubUser:
		if !same(password, a.s.cfg.HubPassword.Reveal()) {
			return false
		}
		c.RegisterUser(&server.User{Username: name, Account: a.s.work})
		return true
	case eventsUser:
		if !same(password, a.s.cfg.EventsPassword.Reveal()) {
			return false
		}
		c.RegisterUser(&server.User{Username: name, Account: a.s.events})
		return true
	}
	if name == listenerUser && a.s.cfg.LifecyclePassword != "" {
		if !same(password, a.s.cfg.LifecyclePassword.Reveal()) {
			return false
		}
		c.RegisterUser(&server.User{Username: name, Account: a.s.events, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Deny: []string{">"}},
			Subscribe: &server.SubjectPermission{Allow: []string{lifecyclePrefix + ">"}},
		}})
		return true
	}
	pool, worker, ok := splitWorker(name)
	if !ok || !same(password, workerPassword(a.s.cfg.WorkerSecret.Reveal(), name)) {
		return false
	}
	account, err := a.s.poolAccount(pool)
	if err != nil {
		a.s.cfg.Log.Error("cannot create the account of a pool", "pool", pool, "error", err)
		return false
	}
	subjects := poolSubjects(pool)
	c.RegisterUser(&server.User{Username: name, Account: account, Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: subjects[:]},
		Subscribe: &server.SubjectPermission{Allow: []string{inboxPrefix(worker) + ".>"}},
	}})
	return true
}

func same(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// poolAccount returns the account of a pool's workers, which imports from WORK
// the three subjects that they need. It makes it when it is absent. The caller
// holds mu.
func (s *Server) poolAccount(pool string) (*server.Account, error) {
	if account := s.pools[pool]; account != nil {
		return account, nil
	}
	account, _ := s.nats.LookupOrRegisterAccount("POOL-" + pool)
	kinds := [3]server.ServiceRespType{server.Singleton, server.Streamed, server.Singleton}
	for i, subject := range poolSubjects(pool) {
		if err := s.work.AddServiceExportWithResponse(subject, kinds[i], []*server.Account{account}); err != nil {
			return nil, fmt.Errorf("export %s: %w", subject, err)
		}
		if err := account.AddServiceImport(s.work, subject, subject); err != nil {
			return nil, fmt.Errorf("import %s: %w", subject, err)
		}
	}
	s.pools[pool] = account
	return account, nil
}

// serverLog passes on what an operator should see.
type serverLog struct{ log hclog.Logger }

func (l serverLog) Noticef(string, ...any)            {}
func (l serverLog) Debugf(string, ...any)             {}
func (l serverLog) Tracef(string, ...any)             {}
func (l serverLog) Warnf(format string, args ...any)  { l.log.Warn(line(format, args)) }
func (l serverLog) Errorf(format string, args ...any) { l.log.Error(line(format, args)) }
func (l serverLog) Fatalf(format string, args ...any) { l.log.Error(line(format, args)) }
func line(format string, args []any) string {
	return "nats server: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
