// Package signaturetest makes real signatures of images for tests: with key pairs, and
// with a sigstore instance of the test, which has a certificate authority, a transparency
// log and a timestamp authority.
package signaturetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Types of in-toto statements: a signature of an image, and a list of what is in it.
const (
	TypeSignature = "https://sigstore.dev/cosign/sign/v1"
	TypeSBOM      = "https://spdx.dev/Document"
)

const (
	mediaBundle  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	mediaPayload = "application/vnd.in-toto+json"
)

// Payload is what cosign signs for an image.
func Payload(tb testing.TB, digest string) []byte {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{
		"critical": map[string]any{
			"identity": map[string]any{"docker-reference": "registry.example.com/team/app"},
			"image":    map[string]any{"docker-manifest-digest": digest},
			"type":     "cosign container image signature",
		},
		"optional": nil,
	})
	require.NoError(tb, err)
	return raw
}

// statement is an in-toto statement about an image.
func statement(tb testing.TB, digest, kind string) []byte {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       []any{map[string]any{"digest": map[string]any{"sha256": digest[len("sha256:"):]}}},
		"predicateType": kind, "predicate": map[string]any{},
	})
	require.NoError(tb, err)
	return raw
}

// Key is a key pair.
type Key struct{ private crypto.Signer }

// NewKey returns a key pair as cosign generates it.
func NewKey(tb testing.TB) Key { return ECDSA(tb, elliptic.P256()) }

// ECDSA returns a key pair on a curve.
func ECDSA(tb testing.TB, curve elliptic.Curve) Key {
	tb.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(tb, err)
	return Key{private}
}

// RSA returns a key pair of a length in bits.
func RSA(tb testing.TB, bits int) Key {
	tb.Helper()
	private, err := rsa.GenerateKey(rand.Reader, bits)
	require.NoError(tb, err)
	return Key{private}
}

// Ed25519 returns a key pair.
func Ed25519(tb testing.TB) Key {
	tb.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(tb, err)
	return Key{private}
}

// PEM returns the public key.
func (k Key) PEM(tb testing.TB) string {
	tb.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	require.NoError(tb, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// sign signs a text, as cosign does: of its SHA-256, unless the key is an Ed25519.
func (k Key) sign(tb testing.TB, text []byte) []byte {
	tb.Helper()
	digest, hash := text, crypto.Hash(0)
	if _, is := k.private.(ed25519.PrivateKey); !is {
		sum := sha256.Sum256(text)
		digest, hash = sum[:], crypto.SHA256
	}
	sig, err := k.private.Sign(rand.Reader, digest, hash)
	require.NoError(tb, err)
	return sig
}

// Sign returns a signature of an image in cosign's form.
func (k Key) Sign(tb testing.TB, digest string) *nodev1.ImageSignature_SimpleSigning {
	tb.Helper()
	payload := Payload(tb, digest)
	return &nodev1.ImageSignature_SimpleSigning{Payload: payload, Signature: base64.StdEncoding.EncodeToString(k.sign(tb, payload))}
}

// Bundle returns a statement about an image as a sigstore bundle.
func (k Key) Bundle(tb testing.TB, digest, kind string) []byte {
	tb.Helper()
	payload := statement(tb, digest, kind)
	return marshal(tb, &protobundle.Bundle{
		MediaType:            mediaBundle,
		VerificationMaterial: &protobundle.VerificationMaterial{Content: &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{Hint: "test"}}},
		Content:              envelope(payload, k.sign(tb, dsse.PAE(mediaPayload, payload))),
	})
}

func envelope(payload, sig []byte) *protobundle.Bundle_DsseEnvelope {
	return &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{
		Payload: payload, PayloadType: mediaPayload, Signatures: []*protodsse.Signature{{Sig: sig}},
	}}
}

func marshal(tb testing.TB, b *protobundle.Bundle) []byte {
	tb.Helper()
	raw, err := protojson.Marshal(b)
	require.NoError(tb, err)
	return raw
}

// Sigstore is a sigstore instance.
type Sigstore struct{ virtual *ca.VirtualSigstore }

// NewSigstore creates a sigstore instance, which nobody trusts who has not its root.
func NewSigstore(tb testing.TB) Sigstore {
	tb.Helper()
	virtual, err := ca.NewVirtualSigstore()
	require.NoError(tb, err)
	return Sigstore{virtual}
}

// Root says what a trusted root has besides the certificate authority.
type Root struct{ Log, Timestamps, CertificateLog bool }

// TrustedRoot returns the file that makes the instance trusted, with its transparency
// log.
func (s Sigstore) TrustedRoot(tb testing.TB) []byte {
	tb.Helper()
	return s.TrustedRootWith(tb, Root{Log: true})
}

// TrustedRootWith returns the file that makes the instance trusted.
func (s Sigstore) TrustedRootWith(tb testing.TB, with Root) []byte {
	tb.Helper()
	var logs, certificateLogs map[string]*root.TransparencyLog
	var timestamps []root.TimestampingAuthority
	if with.Log {
		logs = identified(tb, s.virtual.RekorLogs())
	}
	if with.CertificateLog {
		certificateLogs = identified(tb, s.virtual.CTLogs())
	}
	if with.Timestamps {
		timestamps = s.virtual.TimestampingAuthorities()
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, s.virtual.FulcioCertificateAuthorities(), certificateLogs, timestamps, logs)
	require.NoError(tb, err)
	raw, err := trusted.MarshalJSON()
	require.NoError(tb, err)
	return raw
}

// identified gives logs the ids that their entries have: the library's are in hexadecimal.
func identified(tb testing.TB, logs map[string]*root.TransparencyLog) map[string]*root.TransparencyLog {
	tb.Helper()
	for id, log := range logs {
		var err error
		log.ID, err = hex.DecodeString(id)
		require.NoError(tb, err)
	}
	return logs
}

// signedAt is when the signatures are entered in the log: while their certificates, which
// begin now, are valid.
func signedAt() time.Time { return time.Now().Add(5 * time.Minute) }

// Sign returns an identity's signature of an image in cosign's form, with an entry in the
// transparency log and a timestamp.
func (s Sigstore) Sign(tb testing.TB, identity, issuer, digest string) *nodev1.ImageSignature_SimpleSigning {
	tb.Helper()
	payload := Payload(tb, digest)
	signed, err := s.virtual.SignAtTime(identity, issuer, payload, signedAt())
	require.NoError(tb, err)
	content, err := signed.SignatureContent()
	require.NoError(tb, err)
	stamps, err := signed.Timestamps()
	require.NoError(tb, err)
	stamp, err := json.Marshal(map[string]any{"SignedRFC3161Timestamp": stamps[0]})
	require.NoError(tb, err)
	entry := s.logged(tb, signed, "hashedrekord")
	log, err := json.Marshal(map[string]any{
		"SignedEntryTimestamp": entry.GetInclusionPromise().GetSignedEntryTimestamp(),
		"Payload": map[string]any{
			"body": entry.GetCanonicalizedBody(), "integratedTime": entry.GetIntegratedTime(), "logIndex": entry.GetLogIndex(),
			"logID": hex.EncodeToString(entry.GetLogId().GetKeyId()),
		},
	})
	require.NoError(tb, err)
	return &nodev1.ImageSignature_SimpleSigning{
		Payload: payload, Signature: base64.StdEncoding.EncodeToString(content.Signature()),
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate(tb, signed)})),
		LogEntry:    string(log), Timestamp: string(stamp),
	}
}

// Bundle returns an identity's statement about an image as a sigstore bundle.
func (s Sigstore) Bundle(tb testing.TB, identity, issuer, digest, kind string) []byte {
	tb.Helper()
	payload := statement(tb, digest, kind)
	signed, err := s.virtual.AttestAtTime(identity, issuer, payload, signedAt(), true)
	require.NoError(tb, err)
	content, err := signed.SignatureContent()
	require.NoError(tb, err)
	return marshal(tb, &protobundle.Bundle{
		MediaType: mediaBundle,
		VerificationMaterial: &protobundle.VerificationMaterial{
			Content:     &protobundle.VerificationMaterial_Certificate{Certificate: &protocommon.X509Certificate{RawBytes: certificate(tb, signed)}},
			TlogEntries: []*protorekor.TransparencyLogEntry{s.logged(tb, signed, "dsse")},
		},
		Content: envelope(payload, content.Signature()),
	})
}

func certificate(tb testing.TB, signed *ca.TestEntity) []byte {
	tb.Helper()
	content, err := signed.VerificationContent()
	require.NoError(tb, err)
	return content.Certificate().Raw
}

// logged returns the entry of a signature in the transparency log, with the log's promise.
func (s Sigstore) logged(tb testing.TB, signed *ca.TestEntity, kind string) *protorekor.TransparencyLogEntry {
	tb.Helper()
	entries, err := signed.TlogEntries()
	require.NoError(tb, err)
	entry := entries[0].TransparencyLogEntry()
	promise, err := s.virtual.RekorSignPayload(tlog.RekorPayload{
		Body: base64.StdEncoding.EncodeToString(entry.GetCanonicalizedBody()), IntegratedTime: entry.GetIntegratedTime(), LogIndex: entry.GetLogIndex(),
		LogID: hex.EncodeToString(entry.GetLogId().GetKeyId()),
	})
	require.NoError(tb, err)
	entry.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	entry.KindVersion = &protorekor.KindVersion{Kind: kind, Version: "0.0.1"}
	return entry
}
