package hub

import (
	"crypto/tls"
	"net"
	"net/url"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/internal/certfile"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/listenaddr"
)

// readPublicURL reads public-url. Its path is the base path, of which one needs to be
// given only.
func (c *Config) readPublicURL() (err error) {
	if c.public, err = auth.ParsePublicURL(c.PublicURL); err != nil {
		return err
	}
	base := strings.TrimRight(c.BasePath, "/")
	switch {
	case c.public.Origin == "":
	case base == "":
		c.BasePath = c.public.Path
	case c.public.Path == "":
		c.public.Path = base
	case base != c.public.Path:
		return fault.New(fault.Invalid, "public-url has the path %s, and base-path is %s", c.public.Path, base).WithFix("leave out --base-path")
	}
	if c.TLSCert != "" && c.public.Origin != "" && !c.public.HTTPS {
		return fault.New(fault.Invalid, "public-url is %q, and tls-cert and tls-key are given", c.PublicURL).WithFix("begin --public-url with https://")
	}
	return nil
}

// listen opens the API's listener. The certificate is read again when its files change.
func (c Config) listen() (net.Listener, error) {
	pair, err := c.certificate()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, listenaddr.Fault("listen", c.Listen, err)
	}
	if pair == nil {
		return l, nil
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: pair.Certificate, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

// certificate reads the API's certificate; nil for none.
func (c Config) certificate() (*certfile.Pair, error) {
	if c.TLSCert == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	log := c.Log.Named("tls")
	pair, err := certfile.Load(c.TLSCert, c.TLSKey, func(err error) {
		if err != nil {
			log.Error("cannot use the changed files of tls-cert and tls-key; mend them, they are read again by themselves", "tls_cert", c.TLSCert, "tls_key", c.TLSKey, "error", err)
			return
		}
		log.Info("uses the changed certificate", "tls_cert", c.TLSCert)
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "tls-cert %s and tls-key %s cannot be used: %v", c.TLSCert, c.TLSKey, err).
			WithFix("give a PEM certificate, with those that it depends on, and its PEM key without a password")
	}
	if host := c.public.Host; host != "" {
		if err := pair.Leaf().VerifyHostname(host); err != nil {
			return nil, fault.New(fault.Invalid, "tls-cert %s is not for the host of public-url, %s: %v", c.TLSCert, host, err).
				WithFix("give a certificate for %s, or the --public-url that it is for", host)
		}
	}
	return pair, nil
}

// listenLocal opens the listener of LocalHTTP; nil for none.
func (c Config) listenLocal() (net.Listener, error) {
	if !c.LocalHTTP || c.TLSCert == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, listenaddr.Fault("listen", "127.0.0.1:0", err)
	}
	return l, nil
}

// Check reports whether a configuration can be used, as far as that can be seen without
// the database.
func (c Config) Check() error {
	if err := c.fill(); err != nil {
		return err
	}
	_, err := c.certificate()
	return err
}

// Listening returns the address that the API listens on.
func (h *Hub) Listening() string { return reachable(h.listener.Addr()) }

// contact returns a URL at which the operator of a push service finds out whose messages
// it carries. There are none without HTTPS, except on this machine.
func (c Config) contact() string {
	if c.public.HTTPS {
		return c.public.String()
	}
	return "https://localhost"
}

// listeners returns those that the API is served on.
func (h *Hub) listeners() []net.Listener {
	if h.localListener == nil {
		return []net.Listener{h.listener}
	}
	return []net.Listener{h.listener, h.localListener}
}

// PublicURL returns where browsers find the hub: the configured one, or else the address
// that the API listens on.
func (h *Hub) PublicURL() string {
	if h.cfg.public.Origin != "" {
		return h.cfg.public.String()
	}
	scheme := "http"
	if h.cfg.TLSCert != "" {
		scheme = "https"
	}
	return scheme + "://" + reachable(h.listener.Addr()) + strings.TrimRight(h.cfg.BasePath, "/")
}

// URL is where the API is, for callers on the same machine.
func (h *Hub) URL() string {
	switch {
	case h.localListener != nil:
		return "http://" + reachable(h.localListener.Addr())
	case h.cfg.TLSCert != "":
		return "https://" + reachable(h.listener.Addr())
	}
	return "http://" + reachable(h.listener.Addr())
}

// checkUpgradeURL refuses an upgrade-url that a person cannot safely follow.
func checkUpgradeURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "mailto" || u.Scheme != "mailto" && u.Host == "" {
		return fault.New(fault.Invalid, "upgrade-url is %q", text).WithFix("give an address such as https://example.com/plans or mailto:sales@example.com")
	}
	return nil
}
