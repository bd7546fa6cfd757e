package hub

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/deckhand-sh/deckhand/hub/fleet/ca"
	"github.com/deckhand-sh/deckhand/hub/fleet/replica"
	"github.com/deckhand-sh/deckhand/hub/storage/bus"
	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
)

// NATSCAFile is the certificate, in the data folder, of the authority that
// vouches for a NATS server inside the hub.
const NATSCAFile = "nats-ca.pem"

// checkBus refuses a bus that would be spoken to in plain text over a network.
func (c *Config) checkBus() error {
	for _, given := range []struct {
		flag string
		urls config.Secret
	}{{"nats-url", c.NATSURL}, {"nats-events-url", c.NATSEventsURL}, {"nats-worker-url", c.NATSWorkerURL}} {
		if err := bus.CheckURLs(given.flag, given.urls); err != nil {
			return err
		}
	}
	if c.NATSCA == "" {
		return nil
	}
	authority, err := os.ReadFile(c.NATSCA)
	if err != nil {
		return fault.New(fault.Invalid, "nats-ca cannot be read: %v", err).WithFix("give --nats-ca a file of PEM certificates")
	}
	c.natsAuthority = string(authority)
	return nil
}

// natsServer returns the embedded bus, or nil when another is used. Its
// passwords are made again at each start: workers ask for theirs.
func (c *Config) natsServer(authority *ca.CA) (*bus.Server, error) {
	if c.NATSURL != "" {
		return nil, nil
	}
	cfg := bus.ServerConfig{
		Listen:         c.NATSListen,
		StoreDir:       filepath.Join(c.DataDir, "nats"),
		HubPassword:    config.Secret(ident.Secret("dhn")),
		EventsPassword: config.Secret(ident.Secret("dhn")),
		WorkerSecret:   config.Secret(ident.Secret("dhn")),

		LifecyclePassword: c.NATSLifecyclePassword,
		Log:               c.Log.Named("nats"),
	}
	if c.NATSListen != "" && !loopback(c.NATSListen) {
		if err := c.encryptBus(&cfg, authority); err != nil {
			return nil, err
		}
	}
	return bus.NewServer(cfg)
}

// encryptBus has the embedded bus speak TLS, with a certificate of the hub's own
// authority, which other clients find in the data folder.
func (c *Config) encryptBus(cfg *bus.ServerConfig, authority *ca.CA) error {
	host, _, err := net.SplitHostPort(c.NATSListen)
	if err != nil {
		return fault.New(fault.Invalid, "nats-listen %q is no address: %v", c.NATSListen, err).WithFix("use HOST:PORT, such as 0.0.0.0:4222")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		own := replica.Reachable(&net.TCPAddr{IP: net.IPv4zero})
		if host, _, err = net.SplitHostPort(own); err != nil {
			return fmt.Errorf("find this machine's address: %w", err)
		}
		cfg.Host = host
	}
	hosts := []string{host, "localhost", "127.0.0.1"}
	if name, err := os.Hostname(); err == nil && name != host {
		hosts = append(hosts, name)
	}
	cfg.Authority, cfg.ServerName = authority.PEM(), nodelink.BusServerName
	cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return authority.BusCertificate(hosts)
	}}
	if err := os.WriteFile(filepath.Join(c.DataDir, NATSCAFile), []byte(cfg.Authority), 0o644); err != nil { //nolint:gosec // a certificate is public
		return fmt.Errorf("write the authority of the bus: %w", err)
	}
	return nil
}
