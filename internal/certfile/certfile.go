// Package certfile serves a TLS certificate from two PEM files that something else
// renews, such as an ACME client. Pair is its type.
//
// A handshake gets the certificate that the files hold at that time: they are looked at
// again once Every has passed, also where they are links that now lead elsewhere. While
// they cannot be used, for example because only one of them was replaced so far, the last
// good certificate stays in use and the problem is reported once.
package certfile

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// Every is the time within which a change of the files is noticed.
const Every = time.Second

// Pair is a certificate and its key in files.
type Pair struct {
	cert, key string
	// report is told why changed files are not used, and nil once they are.
	report func(error)
	now    func() time.Time

	mu      sync.Mutex // guards what follows
	current *tls.Certificate
	seen    [2]os.FileInfo // of the files that current or failed comes from
	looked  time.Time
}

// Load reads a certificate and its key. report is called when they were changed, with
// the reason why they cannot be used, or nil if they can.
func Load(cert, key string, report func(error)) (*Pair, error) {
	p := &Pair{cert: cert, key: key, report: report, now: time.Now}
	seen, err := p.stat()
	if err != nil {
		return nil, err
	}
	if p.current, err = load(cert, key); err != nil {
		return nil, err
	}
	p.seen, p.looked = seen, p.now()
	return p, nil
}

func load(cert, key string) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

func (p *Pair) stat() (out [2]os.FileInfo, err error) {
	for i, name := range []string{p.cert, p.key} {
		if out[i], err = os.Stat(name); err != nil {
			return out, err
		}
	}
	return out, nil
}

func same(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// Certificate returns the certificate of now. It is a tls.Config's GetCertificate.
func (p *Pair) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.looked) < Every {
		return p.current, nil
	}
	p.looked = now
	seen, err := p.stat()
	if err != nil {
		if p.seen != [2]os.FileInfo{} {
			p.seen = [2]os.FileInfo{}
			p.report(err)
		}
		return p.current, nil
	}
	if p.seen[0] != nil && same(seen[0], p.seen[0]) && same(seen[1], p.seen[1]) {
		return p.current, nil
	}
	p.seen = seen
	fresh, err := load(p.cert, p.key)
	if err != nil {
		p.report(fmt.Errorf("the certificate stays the one before: %w", err))
		return p.current, nil
	}
	p.current = fresh
	p.report(nil)
	return p.current, nil
}

// Leaf returns the certificate of now itself.
func (p *Pair) Leaf() *x509.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.Leaf
}
