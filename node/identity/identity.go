// Package identity stores the identity that this machine has towards its hub:
// the private key, which is generated here and never leaves the machine, the
// certificate and certificate authority that the hub issued, and the epoch of
// the last session.
//
// Everything is in one folder with mode 0700. Every file is replaced as a whole
// and flushed before it is used, so a crash leaves either the old or the new
// one. Enrolling again with the same key is harmless, so a crash after the
// hub's response and before the write to disk only costs another attempt.
//
// Only one process may use the folder at a time; the daemon holds a lock for
// that.
package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

// The folder's files.
const (
	keyFile     = "key.pem"
	nodeFile    = "node.json"
	sessionFile = "session.json"
)

// Config says where the identity lies.
type Config struct {
	// Dir is made with mode 0700 if it is not there.
	Dir string
	// Reserve runs a write that must succeed on a full disk as well, once more
	// with room that was kept for it; nil for no such room.
	Reserve func(write func() error) error
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Identity is the opened folder. It is safe for use by many goroutines.
type Identity struct {
	dir     string
	now     func() time.Time
	reserve func(write func() error) error
	key     *ecdsa.PrivateKey

	mu      sync.RWMutex // guards what follows
	node    record
	ca      *x509.Certificate // nil before enrolment
	leaf    *x509.Certificate // nil before enrolment
	session session
}

// record is the hub's response to the enrolment, as node.json stores it.
type record struct {
	NodeID         string `json:"node_id"`
	HubURL         string `json:"hub_url"`
	EdgeAddress    string `json:"edge_address"`
	CertificatePEM string `json:"certificate_pem"`
	CAPEM          string `json:"ca_pem"`
}

// session is the last session, as session.json keeps it. The epoch counts only
// for the node it was seen by: another hub starts another count.
type session struct {
	NodeID string `json:"node_id"`
	Epoch  int64  `json:"epoch"`
}

// Open reads the identity, and makes the key on the first call.
func Open(cfg Config) (*Identity, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the identity folder: %w", err)
	}
	if cfg.Reserve == nil {
		cfg.Reserve = func(write func() error) error { return write() }
	}
	i := &Identity{dir: cfg.Dir, now: cfg.Now, reserve: cfg.Reserve}
	if err := i.loadKey(); err != nil {
		return nil, err
	}
	if err := i.loadJSON(nodeFile, &i.node); err != nil {
		return nil, err
	}
	if i.node.NodeID != "" {
		var err error
		if i.ca, i.leaf, err = i.check(i.node); err != nil {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(i.dir, nodeFile), err)
		}
	}
	if err := i.loadJSON(sessionFile, &i.session); err != nil {
		return nil, err
	}
	return i, nil
}

func (i *Identity) loadKey() error {
	path := filepath.Join(i.dir, keyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return i.makeKey()
	}
	if err != nil {
		return fmt.Errorf("read the node's key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("read the node's key: %s contains no PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("read the node's key %s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("read the node's key: %s contains no ECDSA key", path)
	}
	i.key = key
	return nil
}

func (i *Identity) makeKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the node's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the node's key: %w", err)
	}
	if err := wholefile.Write(filepath.Join(i.dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("store the node's key: %w", err)
	}
	i.key = key
	return nil
}

func (i *Identity) loadJSON(name string, into any) error {
	path := filepath.Join(i.dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the node's identity: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read the node's identity: %s: %w", path, err)
	}
	return nil
}

// check reads a record's certificates: the leaf must be of this key, name this
// node and be signed by the authority. That it may have lapsed is another
// matter (Lapsed).
func (i *Identity) check(r record) (ca, leaf *x509.Certificate, err error) {
	if ca, err = parseCertificate(r.CAPEM); err != nil {
		return nil, nil, fmt.Errorf("the hub's CA: %w", err)
	}
	if leaf, err = parseCertificate(r.CertificatePEM); err != nil {
		return nil, nil, fmt.Errorf("the node's certificate: %w", err)
	}
	if err := leaf.CheckSignatureFrom(ca); err != nil {
		return nil, nil, fmt.Errorf("the node's certificate is not signed by the hub's CA: %w", err)
	}
	if !i.key.PublicKey.Equal(leaf.PublicKey) {
		return nil, nil, errors.New("the node's certificate is for another key than this node's")
	}
	if leaf.Subject.CommonName != r.NodeID {
		return nil, nil, fmt.Errorf("the node's certificate names %q, not %q", leaf.Subject.CommonName, r.NodeID)
	}
	return ca, leaf, nil
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	return cert, nil
}

// store makes a record the current one, on disk first.
func (i *Identity) store(r record) error {
	ca, leaf, err := i.check(r)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the node's identity: %w", err)
	}
	if err := i.reserve(func() error { return wholefile.Write(filepath.Join(i.dir, nodeFile), data, 0o600) }); err != nil {
		return fmt.Errorf("store the node's identity: %w", err)
	}
	i.node, i.ca, i.leaf = r, ca, leaf
	return nil
}

// Enrolled reports whether a hub knows this machine.
func (i *Identity) Enrolled() bool { return i.NodeID() != "" }

// NodeID returns the id that the hub gave; empty before enrolment.
func (i *Identity) NodeID() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.node.NodeID
}

// HubURL returns the hub's API, as it was named when the machine was enrolled.
func (i *Identity) HubURL() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.node.HubURL
}

// EdgeAddress returns the host:port of the hub's edge.
func (i *Identity) EdgeAddress() string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.node.EdgeAddress
}

// Validity returns when the certificate begins and ends.
func (i *Identity) Validity() (from, until time.Time) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.leaf == nil {
		return time.Time{}, time.Time{}
	}
	return i.leaf.NotBefore, i.leaf.NotAfter
}

// Lapsed reports whether the certificate has expired.
func (i *Identity) Lapsed() bool {
	_, until := i.Validity()
	return i.now().After(until)
}

// CheckToken refuses a join token of another hub than the one this machine is
// enrolled with.
func (i *Identity) CheckToken(token jointoken.Token) error {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.ca == nil || token.Names(jointoken.Fingerprint(i.ca.RawSubjectPublicKeyInfo)) {
		return nil
	}
	return fault.New(fault.Precondition, "this machine is enrolled with another hub than the join token's, as node %s", i.node.NodeID).
		WithObject(i.node.NodeID).WithFix("to move it, revoke it there and remove %s", i.dir)
}

// Request returns a PKCS #10 certificate request in DER, signed by the key.
func (i *Identity) Request() ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "deckhand node"}}, i.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	return der, nil
}

// Install takes a new certificate for the same key and node, as the hub sends
// it over the link.
func (i *Identity) Install(certificatePEM string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	r := i.node
	r.CertificatePEM = certificatePEM
	return i.store(r)
}

// TLS returns how to dial the edge: by the certificate of this moment, trusting
// the hub's authority alone.
func (i *Identity) TLS() (*tls.Config, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.leaf == nil {
		return nil, fault.New(fault.Precondition, "this machine is not enrolled").
			WithFix("give it a join token: deckhand-node --join-token …")
	}
	roots := x509.NewCertPool()
	roots.AddCert(i.ca)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ServerName:   nodelink.ServerName,
		NextProtos:   []string{nodelink.ALPN},
		RootCAs:      roots,
		Time:         i.now,
		Certificates: []tls.Certificate{{Certificate: [][]byte{i.leaf.Raw}, PrivateKey: i.key, Leaf: i.leaf}},
	}, nil
}

// AdvanceEpoch remembers a session's epoch. It refuses one below the last: such
// a session is a stale replica's, which must not command this node any more.
func (i *Identity) AdvanceEpoch(epoch int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.session.NodeID == i.node.NodeID && epoch < i.session.Epoch {
		return fault.New(fault.Aborted, "node %s has seen session epoch %d and refuses the older epoch %d",
			i.node.NodeID, i.session.Epoch, epoch).WithObject(i.node.NodeID).
			WithFix("if the hub's database was restored from a backup, restore it with deckhand backup restore, which raises the epochs; or remove %s on the node", filepath.Join(i.dir, sessionFile))
	}
	next := session{NodeID: i.node.NodeID, Epoch: epoch}
	data, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode the session: %w", err)
	}
	if err := i.reserve(func() error { return wholefile.Write(filepath.Join(i.dir, sessionFile), data, 0o600) }); err != nil {
		return fmt.Errorf("store the session: %w", err)
	}
	i.session = next
	return nil
}
