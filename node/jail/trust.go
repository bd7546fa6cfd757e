package jail

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	keystore "github.com/pavlo-v-chernykh/keystore-go/v4"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/egress"
	"github.com/deckhand-sh/deckhand/node/image"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// A jail whose spec names authorities has its programs trust them: a folder has their
// certificates, for the variables that egress.Environment sets, and what the root itself
// trusts is mounted over with that and the authorities. The files are changed in place, so
// that programs that run see another authority the next time they read them. A writable
// root keeps its own files, which its package managers replace: there only the variables
// count.

// The files of a jail's trust, beside those that egress names.
const (
	trustOwn  = "own.pem" // what the root trusts by itself
	trustJava = "cacerts"
	// trustChromium is a policy of Chromium, which reads no bundle: it names the authorities.
	trustChromium = "chromium.json"
)

// chromiumPolicies are where Chromium and Chrome read policies, in the /etc that jails have.
var chromiumPolicies = []string{"/etc/chromium/policies/managed/deckhand-authorities.json", "/etc/opt/chrome/policies/managed/deckhand-authorities.json"}

// bundles are where programs look for the certificates that they trust; see crypto/x509.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// javaStores are where Java does.
var javaStores = []string{
	"/etc/ssl/certs/java/cacerts", "/etc/pki/ca-trust/extracted/java/cacerts", "/usr/lib/jvm/*/lib/security/cacerts", "/usr/lib/jvm/*/jre/lib/security/cacerts",
	"/opt/java/*/lib/security/cacerts", "/opt/jdk*/lib/security/cacerts", "/usr/local/openjdk-*/lib/security/cacerts", "/usr/java/*/lib/security/cacerts",
}

// startsTrust reports whether a spec names authorities and the one before did not: the jail
// must be made again for them.
func startsTrust(before, spec *nodev1.JailSpec) bool {
	return len(before.GetEgress().GetAuthorities()) == 0 && len(spec.GetEgress().GetAuthorities()) > 0
}

// trust lays out what a jail's programs trust and returns the mounts that show it to them;
// none for a jail without authorities.
func (m *Manager) trust(ctx context.Context, p paths, spec *nodev1.JailSpec, from image.Image) ([]specs.Mount, error) {
	if len(spec.GetEgress().GetAuthorities()) == 0 {
		return nil, nil
	}
	files, err := m.trusted(ctx, spec, from)
	if err != nil {
		return nil, fmt.Errorf("look for the certificates that the jail's root trusts: %w", err)
	}
	var own []byte
	for _, path := range bundles {
		if own == nil {
			own = files[path]
		}
	}
	if err := errors.Join(os.RemoveAll(p.trust), os.MkdirAll(p.trust, 0o755), os.WriteFile(filepath.Join(p.trust, trustOwn), own, 0o644)); err != nil {
		return nil, fmt.Errorf("lay out the certificates that the jail trusts: %w", err)
	}
	if err := updateTrust(p, spec); err != nil {
		return nil, err
	}
	mounts := []specs.Mount{bind(p.trust, nodelink.TrustPath)}
	if spec.GetWritableRoot() {
		return mounts, nil
	}
	for path := range files {
		source := egress.TrustBundle
		if !slices.Contains(bundles, path) {
			source = trustJava
		}
		mounts = append(mounts, bind(filepath.Join(p.trust, source), path))
	}
	if spec.GetRootfs() != nodelink.RootImage {
		for _, path := range chromiumPolicies {
			mounts = append(mounts, bind(filepath.Join(p.trust, trustChromium), path))
		}
	}
	slices.SortFunc(mounts[1:], func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	return mounts, nil
}

// trusted returns the files of a jail's root that say whom programs trust, each real file
// once.
func (m *Manager) trusted(ctx context.Context, spec *nodev1.JailSpec, from image.Image) (map[string][]byte, error) {
	all := slices.Concat(bundles, javaStores)
	if spec.GetRootfs() == nodelink.RootImage {
		return m.images.ReadFiles(ctx, from, all)
	}
	out := map[string][]byte{}
	for _, pattern := range all {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			real, err := filepath.EvalSymlinks(path)
			if err != nil || !m.shownAsIs(real) {
				continue
			}
			if out[real], err = os.ReadFile(real); err != nil {
				return nil, err
			}
			if slices.Contains(bundles, path) && !slices.Contains(bundles, real) {
				delete(out, real) // a place that no program looks at by itself
			}
		}
	}
	return out, nil
}

// shownAsIs reports whether a host file is in the root of a jail that is the machine's.
func (m *Manager) shownAsIs(path string) bool {
	if within(path, "/usr") {
		return true
	}
	return slices.ContainsFunc(etcFolders, func(dir string) bool { return within(path, filepath.Join("/etc", dir)) })
}

// updateTrust writes what a jail's programs trust, in place. What was there is a beginning of
// what is written, unless an authority has expired: a program that reads meanwhile reads
// whole certificates.
func updateTrust(p paths, spec *nodev1.JailSpec) error {
	own, err := os.ReadFile(filepath.Join(p.trust, trustOwn))
	if errors.Is(err, os.ErrNotExist) {
		return nil // a jail without authorities
	}
	if err != nil {
		return fmt.Errorf("read the certificates that the jail trusts: %w", err)
	}
	var only bytes.Buffer
	for _, text := range slices.Backward(spec.GetEgress().GetAuthorities()) {
		only.WriteString(text)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			only.WriteByte('\n')
		}
	}
	if len(own) > 0 && own[len(own)-1] != '\n' {
		own = append(own, '\n')
	}
	bundle := slices.Concat(own, only.Bytes())
	java, err := javaStore(bundle)
	if err == nil {
		var policy []byte
		if policy, err = chromiumPolicy(only.Bytes()); err != nil {
			return fmt.Errorf("write the certificates that Chromium trusts: %w", err)
		}
		err = errors.Join(overwrite(filepath.Join(p.trust, trustChromium), policy), overwrite(filepath.Join(p.trust, egress.TrustAuthorities), only.Bytes()), overwrite(filepath.Join(p.trust, egress.TrustBundle), bundle),
			overwrite(filepath.Join(p.trust, trustJava), java))
	}
	if err != nil {
		return fmt.Errorf("write the certificates that the jail trusts: %w", err)
	}
	return nil
}

// chromiumPolicy returns certificates in PEM as the policy that has Chromium trust them.
func chromiumPolicy(authorities []byte) ([]byte, error) {
	trusted := [][]byte{} // in JSON, base64
	for {
		block, rest := pem.Decode(authorities)
		if block == nil {
			break
		}
		trusted, authorities = append(trusted, block.Bytes), rest
	}
	return json.Marshal(map[string]any{"CACertificates": trusted})
}

// overwrite writes a file in place: it may be mounted.
func overwrite(path string, raw []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644) //nolint:gosec // everyone in the jail reads it
	if err != nil {
		return err
	}
	_, err = file.WriteAt(raw, 0)
	if err == nil {
		err = file.Truncate(int64(len(raw)))
	}
	return errors.Join(err, file.Close())
}

// javaStore returns certificates in PEM as a Java keystore. Java reads it without its
// password, which is the usual one.
func javaStore(bundle []byte) ([]byte, error) {
	store := keystore.New()
	for i := 0; ; i++ {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		bundle = rest
		if err := store.SetTrustedCertificateEntry(fmt.Sprintf("ca-%d", i), keystore.TrustedCertificateEntry{
			CreationTime: time.Unix(0, 0), Certificate: keystore.Certificate{Type: "X509", Content: block.Bytes},
		}); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	err := store.Store(&out, []byte("changeit"))
	return out.Bytes(), err
}
