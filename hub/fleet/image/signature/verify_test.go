package signature_test

import (
	"bytes"
	"crypto/elliptic"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature"
	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature/signaturetest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	issuer   = "https://accounts.example.com"
	identity = "release@example.com"
)

var (
	digest = "sha256:" + strings.Repeat("a1", 32)
	other  = "sha256:" + strings.Repeat("b2", 32)
)

func simple(all ...*nodev1.ImageSignature_SimpleSigning) (out []*nodev1.ImageSignature) {
	for _, one := range all {
		out = append(out, &nodev1.ImageSignature{Signature: &nodev1.ImageSignature_SimpleSigning_{SimpleSigning: one}})
	}
	return out
}

func bundles(all ...[]byte) (out []*nodev1.ImageSignature) {
	for _, one := range all {
		out = append(out, &nodev1.ImageSignature{Signature: &nodev1.ImageSignature_Bundle{Bundle: one}})
	}
	return out
}

// With a key, an image is verified by a signature of its digest by that key, in either
// form, and by nothing else.
func TestAKeyVerifiesItsSignatures(t *testing.T) {
	t.Parallel()
	key, stranger := signaturetest.NewKey(t), signaturetest.NewKey(t)
	sigstore := signaturetest.NewSigstore(t)
	rule := signature.Rule{PublicKeys: key.PEM(t)}
	require.NoError(t, rule.Check())

	signed := key.Sign(t, digest)
	tampered := key.Sign(t, other)
	tampered.Payload = bytes.ReplaceAll(tampered.GetPayload(), []byte(other), []byte(digest))
	broken := key.Sign(t, digest)
	broken.Signature = "%"
	for name, test := range map[string]struct {
		signatures []*nodev1.ImageSignature
		want       string // part of the error; empty for none
	}{
		"a signature of cosign":               {simple(signed), ""},
		"a bundle":                            {bundles(key.Bundle(t, digest, signaturetest.TypeSignature)), ""},
		"one of several":                      {append(simple(stranger.Sign(t, digest), key.Sign(t, other)), simple(signed)...), ""},
		"none":                                {nil, "the registry has no signature of it"},
		"another key":                         {simple(stranger.Sign(t, digest)), "one is by another key, or was changed"},
		"a bundle by another key":             {bundles(stranger.Bundle(t, digest, signaturetest.TypeSignature)), "one is by another key, or was changed"},
		"the signature of another image":      {simple(key.Sign(t, other)), "one is of another image, " + other},
		"a bundle about another image":        {bundles(key.Bundle(t, other, signaturetest.TypeSignature)), "one is of another image"},
		"a payload that was changed":          {simple(tampered), "one is by another key, or was changed"},
		"a statement that is no signature":    {bundles(key.Bundle(t, digest, signaturetest.TypeSBOM)), `one is no signature but a statement of type "https://spdx.dev/Document"`},
		"an identity instead of a key":        {simple(sigstore.Sign(t, identity, issuer, digest)), `one is by "release@example.com" of "https://accounts.example.com" and not by a key`},
		"a signature that is not base64":      {simple(broken), "one is not valid: the signature is not base64"},
		"a bundle that is none":               {bundles([]byte("{}"), []byte("x")), "one is not a valid bundle"},
		"several kinds, each with its reason": {append(simple(stranger.Sign(t, digest)), bundles([]byte("x"))...), "or was changed; one is not a valid bundle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := signature.Verify(rule, digest, test.signatures)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}

// Every kind of key that cosign has verifies what it signed, and a rule may have several.
func TestEveryKindOfKeyVerifies(t *testing.T) {
	t.Parallel()
	keys := map[string]signaturetest.Key{
		"ECDSA P-256": signaturetest.NewKey(t), "ECDSA P-384": signaturetest.ECDSA(t, elliptic.P384()),
		"RSA": signaturetest.RSA(t, 2048), "Ed25519": signaturetest.Ed25519(t),
	}
	var all string
	for _, key := range keys {
		all += key.PEM(t)
	}
	for name, key := range keys {
		for of, pem := range map[string]string{"alone": key.PEM(t), "among several": all} {
			rule := signature.Rule{PublicKeys: pem}
			require.NoError(t, rule.Check(), name)
			require.NoError(t, signature.Verify(rule, digest, simple(key.Sign(t, digest))), "%s %s", name, of)
			require.NoError(t, signature.Verify(rule, digest, bundles(key.Bundle(t, digest, signaturetest.TypeSignature))), "%s %s", name, of)
		}
	}
}

// Without a key, an image is verified by a signature of the identity, certified by the
// trusted root and entered in its log.
func TestAnIdentityVerifiesItsSignatures(t *testing.T) {
	t.Parallel()
	sigstore, untrusted := signaturetest.NewSigstore(t), signaturetest.NewSigstore(t)
	exact := signature.Rule{Issuer: issuer, Identity: identity, TrustedRoot: sigstore.TrustedRoot(t)}
	like := func(expression string) signature.Rule {
		return signature.Rule{Issuer: issuer, IdentityRegexp: expression, TrustedRoot: sigstore.TrustedRoot(t)}
	}
	stamps := signature.Rule{Issuer: issuer, Identity: identity, TrustedRoot: sigstore.TrustedRootWith(t, signaturetest.Root{Timestamps: true})}
	certificates := signature.Rule{Issuer: issuer, Identity: identity, TrustedRoot: sigstore.TrustedRootWith(t, signaturetest.Root{Log: true, CertificateLog: true})}

	signed := func(change func(*nodev1.ImageSignature_SimpleSigning)) []*nodev1.ImageSignature {
		one := sigstore.Sign(t, identity, issuer, digest)
		change(one)
		return simple(one)
	}
	as := func(who, where string) []*nodev1.ImageSignature {
		return append(simple(sigstore.Sign(t, who, where, digest)), bundles(sigstore.Bundle(t, who, where, digest, signaturetest.TypeSignature))...)
	}
	valid, foreign := as(identity, issuer), untrusted.Sign(t, identity, issuer, digest)
	for name, test := range map[string]struct {
		rule       signature.Rule
		signatures []*nodev1.ImageSignature
		want       string
	}{
		"a signature of cosign":             {exact, valid[:1], ""},
		"a bundle":                          {exact, valid[1:], ""},
		"an identity that matches":          {like(`[a-z]+@example\.com`), valid[:1], ""},
		"a timestamp in place of a log":     {stamps, valid[:1], ""},
		"none":                              {exact, nil, "the registry has no signature of it"},
		"another identity":                  {exact, as("intruder@example.com", issuer), `one is by "intruder@example.com" of "https://accounts.example.com"`},
		"another issuer":                    {exact, as(identity, "https://accounts.example.net"), `one is by "release@example.com" of "https://accounts.example.net"`},
		"an identity that matches in part":  {like(`release@example`), valid, `one is by "release@example.com"`},
		"an alternative that matches ahead": {like(`x|release`), valid, `one is by "release@example.com"`},
		"another authority":                 {exact, simple(foreign), "is not valid by the trusted root"},
		"another authority's bundle":        {exact, bundles(untrusted.Bundle(t, identity, issuer, digest, signaturetest.TypeSignature)), "is not valid by the trusted root"},
		"another authority, the log's own": {exact, signed(func(s *nodev1.ImageSignature_SimpleSigning) {
			s.Certificate, s.Signature, s.Payload = foreign.GetCertificate(), foreign.GetSignature(), foreign.GetPayload()
		}), "is not valid by the trusted root"},
		"another authority, with a timestamp": {stamps, simple(foreign), "is not valid by the trusted root"},
		"no entry in the log":                 {exact, signed(func(s *nodev1.ImageSignature_SimpleSigning) { s.LogEntry = "" }), "has no entry in a transparency log"},
		"an entry that was changed": {exact, signed(func(s *nodev1.ImageSignature_SimpleSigning) {
			s.LogEntry = strings.Replace(s.GetLogEntry(), `"logIndex":1000`, `"logIndex":1001`, 1)
		}), "is not valid by the trusted root"},
		"the entry of another signature": {exact, signed(func(s *nodev1.ImageSignature_SimpleSigning) {
			s.LogEntry = sigstore.Sign(t, identity, issuer, other).GetLogEntry()
		}), "is not valid by the trusted root"},
		"no timestamp":                     {stamps, signed(func(s *nodev1.ImageSignature_SimpleSigning) { s.Timestamp = "" }), "is not valid by the trusted root"},
		"a certificate that is not logged": {certificates, valid, "is not valid by the trusted root"},
		"the signature of another image":   {exact, simple(sigstore.Sign(t, identity, issuer, other)), "one is of another image, " + other},
		"a bundle about another image":     {exact, bundles(sigstore.Bundle(t, identity, issuer, other, signaturetest.TypeSignature)), "is of another image"},
		"a payload that was changed": {exact, signed(func(s *nodev1.ImageSignature_SimpleSigning) {
			s.Payload = append(s.GetPayload(), ' ')
		}), "is not valid by the trusted root"},
		"a statement that is no signature": {exact, bundles(sigstore.Bundle(t, identity, issuer, digest, signaturetest.TypeSBOM)), "one is no signature but a statement of type"},
		"a key":                            {exact, simple(signaturetest.NewKey(t).Sign(t, digest)), "one is by a key and not by an identity"},
		"a certificate that is none":       {exact, signed(func(s *nodev1.ImageSignature_SimpleSigning) { s.Certificate = "x" }), "the certificate is not PEM"},
		"an entry that is none":            {exact, signed(func(s *nodev1.ImageSignature_SimpleSigning) { s.LogEntry = "{}" }), "one is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, test.rule.Check())
			err := signature.Verify(test.rule, digest, test.signatures)
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.want)
			}
		})
	}
}

// A registry may send anything: each part of a bundle in turn is missing, or is of another
// kind. The result is an error, and no panic.
func TestBrokenBundlesAreRefused(t *testing.T) {
	t.Parallel()
	sigstore := signaturetest.NewSigstore(t)
	rules := []signature.Rule{
		{Issuer: issuer, Identity: identity, TrustedRoot: sigstore.TrustedRootWith(t, signaturetest.Root{Log: true, Timestamps: true})},
		{PublicKeys: signaturetest.NewKey(t).PEM(t)},
	}
	whole := sigstore.Bundle(t, identity, issuer, digest, signaturetest.TypeSignature)
	require.NoError(t, signature.Verify(rules[0], digest, bundles(whole)))
	harmless := map[string]bool{}
	tried := 0
	var walk func(at any, path string, root any)
	walk = func(at any, path string, root any) {
		switch at := at.(type) {
		case map[string]any:
			for name, old := range at {
				for _, broken := range []any{nil, "", "eA==", map[string]any{}, []any{}, -1} {
					at[name] = broken
					raw, err := json.Marshal(root)
					require.NoError(t, err)
					tried++
					for i, rule := range rules {
						if err := signature.Verify(rule, digest, bundles(raw)); err == nil {
							require.Zero(t, i, "a key verifies what it has not signed")
							harmless[name] = true
						}
					}
				}
				at[name] = old
				walk(old, path+"."+name, root)
			}
		case []any:
			for i := range at {
				walk(at[i], fmt.Sprint(path, i), root)
			}
		}
	}
	var parsed any
	require.NoError(t, json.Unmarshal(whole, &parsed))
	walk(parsed, "", parsed)
	require.Greater(t, tried, 100)
	require.Equal(t, []string{"kind", "kindVersion", "version"}, slices.Sorted(maps.Keys(harmless)), "the log entry itself says of which kind it is")
}
