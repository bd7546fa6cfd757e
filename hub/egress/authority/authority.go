// Package authority keeps the certificate authorities of jails: those by which the egress
// proxy of a node stands for the hosts whose TLS it terminates.
//
// Authorities is its service. Each authority is of one jail and limited (RFC 5280, section
// 4.2.1.10) to the names and addresses of that jail's hosts, so that its key is of no use
// against any other host (a constraint on a name also permits the names below it) or jail. The certificate is part of the jail's egress rules. The
// key is encrypted at rest and is given to the proxy of the jail's node, which keeps it in
// memory: a proxy that starts again asks again, and what the jail's programs trust stays the
// same. When a jail gets other hosts, it gets another authority, and trusts the ones before
// as well.
package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/storage/vault"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

const (
	// life is how long a certificate is valid, and margin how long it still must be when a
	// task begins with it.
	life   = 365 * 24 * time.Hour
	margin = 60 * 24 * time.Hour
	// skew is by how much the clock of a node may be behind.
	skew = time.Hour
	// most is how many of a jail's authorities are in force.
	most = 16
)

// Authorities keeps them.
type Authorities struct {
	store *store.Store
	vault *vault.Vault
}

// New creates Authorities.
func New(s *store.Store, v *vault.Vault) *Authorities { return &Authorities{s, v} }

// Of returns the certificates of a jail that needs authorities for some hosts, names or
// addresses; in PEM, newest first. It creates one if none is for all of the hosts. Without
// hosts it returns those that the jail has.
func (a *Authorities) Of(ctx context.Context, orgID, jailID string, hosts []string) ([]string, error) {
	hosts = slices.Compact(slices.Sorted(slices.Values(hosts)))
	q := db.JailAuthoritiesParams{OrgID: orgID, JailID: jailID, MaxRows: most}
	rows, err := a.store.JailAuthorities(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("load the certificate authorities of jail %s: %w", jailID, err)
	}
	if len(hosts) > 0 && !covered(rows, hosts) {
		err := a.store.Tx(ctx, func(tx *db.Queries) error {
			if err := tx.LockJailAuthorities(ctx, db.LockJailAuthoritiesParams{OrgID: orgID, JailID: jailID}); err != nil {
				return err
			}
			if rows, err = tx.JailAuthorities(ctx, q); err != nil || covered(rows, hosts) {
				return err
			}
			made, err := a.create(orgID, jailID, hosts)
			if err != nil {
				return err
			}
			if err := tx.InsertJailAuthority(ctx, made); err != nil {
				return err
			}
			rows, err = tx.JailAuthorities(ctx, q)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("create a certificate authority for jail %s: %w", jailID, err)
		}
	}
	var out []string
	for _, row := range rows {
		out = append(out, row.Certificate)
	}
	return out, nil
}

// covered reports whether one of the authorities is for all hosts.
func covered(rows []db.JailAuthority, hosts []string) bool {
	return slices.ContainsFunc(rows, func(row db.JailAuthority) bool {
		return time.Until(row.ExpiresAt) > margin &&
			!slices.ContainsFunc(hosts, func(host string) bool { return !slices.Contains(row.Hosts, host) })
	})
}

// Key returns the private key of an authority, PKCS #8 in PEM.
func (a *Authorities) Key(ctx context.Context, orgID, jailID, certificate string) (string, error) {
	rows, err := a.store.JailAuthorities(ctx, db.JailAuthoritiesParams{OrgID: orgID, JailID: jailID, MaxRows: most})
	if err != nil {
		return "", fmt.Errorf("load the certificate authorities of jail %s: %w", jailID, err)
	}
	i := slices.IndexFunc(rows, func(row db.JailAuthority) bool { return row.Certificate == certificate })
	if i < 0 {
		return "", fault.New(fault.NotFound, "jail %s has no such certificate authority, or it has expired", jailID).
			WithFix("start the task again, which gives its jail another one").WithObject(jailID)
	}
	key, err := a.vault.Open(rows[i].Sealed, object(orgID, rows[i].ID))
	if err != nil {
		return "", fmt.Errorf("open the key of authority %s: %w", rows[i].ID, err)
	}
	return string(key), nil
}

// Drop deletes the certificate authorities of a jail that is removed.
func (a *Authorities) Drop(ctx context.Context, orgID, jailID string) error {
	if err := a.store.DeleteAuthoritiesOf(ctx, db.DeleteAuthoritiesOfParams{OrgID: orgID, JailID: jailID}); err != nil {
		return fmt.Errorf("delete the certificate authorities of jail %s: %w", jailID, err)
	}
	return nil
}

// Prune deletes those that have expired.
func (a *Authorities) Prune(ctx context.Context) error {
	_, err := a.store.DeleteExpiredAuthorities(ctx)
	return err
}

// object is what a key is sealed for; see store.SealedColumns.
func object(orgID, id string) string { return "key of authority " + id + " of " + orgID }

func (a *Authorities) create(orgID, jailID string, hosts []string) (out db.InsertJailAuthorityParams, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return out, err
	}
	now := time.Now()
	template, err := certificate(jailID, hosts, now)
	if err != nil {
		return out, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return out, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return out, err
	}
	out = db.InsertJailAuthorityParams{
		ID: ident.New("ca"), OrgID: orgID, JailID: jailID, Hosts: hosts, ExpiresAt: template.NotAfter,
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})),
	}
	out.Sealed, err = a.vault.Seal(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), object(orgID, out.ID))
	return out, err
}

// certificate returns the authority's certificate before it is signed. What is constrained
// is constrained for every form of a name: a form without a constraint would be free.
func certificate(jailID string, hosts []string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	out := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Deckhand egress proxy"}, CommonName: fmt.Sprintf("jail %s %x", jailID, serial.Bytes()[:4])},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(life), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, PermittedDNSDomainsCritical: true,
	}
	if len(out.Subject.CommonName) > 64 { // RFC 5280, ub-common-name
		out.Subject.CommonName = fmt.Sprintf("jail %x", serial.Bytes()[:8])
	}
	for _, host := range hosts {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			out.PermittedDNSDomains = append(out.PermittedDNSDomains, host)
			continue
		}
		bits := addr.BitLen()
		out.PermittedIPRanges = append(out.PermittedIPRanges, &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, bits)})
	}
	if len(out.PermittedDNSDomains) == 0 {
		out.PermittedDNSDomains = []string{"invalid"} // no host has a name there (RFC 2606)
	}
	if len(out.PermittedIPRanges) == 0 {
		out.ExcludedIPRanges = []*net.IPNet{
			{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)},
		}
	}
	return out, nil
}
