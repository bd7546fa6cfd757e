package signature_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature"
	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature/signaturetest"
)

func TestARuleSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	sigstore := signaturetest.NewSigstore(t)
	root, key := sigstore.TrustedRoot(t), signaturetest.NewKey(t).PEM(t)
	for want, rule := range map[string]signature.Rule{
		"names nobody":                                {},
		"has public_keys and an identity":             {PublicKeys: key, Issuer: issuer, Identity: identity, TrustedRoot: root},
		"public_keys has text that is not PEM":        {PublicKeys: key + "x"},
		`public_keys has a block "CERTIFICATE"`:       {PublicKeys: strings.ReplaceAll(key, "PUBLIC KEY", "CERTIFICATE")},
		"public_keys has a key that cannot be read":   {PublicKeys: "-----BEGIN PUBLIC KEY-----\neA==\n-----END PUBLIC KEY-----\n"},
		"public_keys has a key that is not secure":    {PublicKeys: signaturetest.RSA(t, 1024).PEM(t)},
		"public_keys has 11 keys":                     {PublicKeys: strings.Repeat(key, 11)},
		"issuer is missing":                           {Identity: identity, TrustedRoot: root},
		"needs either identity or identity_regexp":    {Issuer: issuer, TrustedRoot: root},
		"identity_regexp is not a regular expression": {Issuer: issuer, IdentityRegexp: "a)|(b", TrustedRoot: root},
		"trusted_root is missing":                     {Issuer: issuer, Identity: identity},
		"trusted_root cannot be read":                 {Issuer: issuer, Identity: identity, TrustedRoot: []byte("{")},
		"trusted_root has no certificate authority":   {Issuer: issuer, Identity: identity, TrustedRoot: []byte(`{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`)},
		"neither a transparency log nor a timestamp":  {Issuer: issuer, Identity: identity, TrustedRoot: sigstore.TrustedRootWith(t, signaturetest.Root{})},
	} {
		require.ErrorContains(t, rule.Check(), want)
	}
}

// What was verified by a rule does not count for another: each field matters.
func TestRulesThatDifferHaveOtherFingerprints(t *testing.T) {
	t.Parallel()
	one := signature.Rule{Pattern: "a", PublicKeys: "b", Issuer: "c", Identity: "d", IdentityRegexp: "e", TrustedRoot: []byte("f")}
	seen := map[string]bool{string(one.Fingerprint()): true}
	for _, change := range []func(*signature.Rule){
		func(r *signature.Rule) { r.Pattern = "x" }, func(r *signature.Rule) { r.PublicKeys = "x" }, func(r *signature.Rule) { r.Issuer = "x" },
		func(r *signature.Rule) { r.Identity = "x" }, func(r *signature.Rule) { r.IdentityRegexp = "x" }, func(r *signature.Rule) { r.TrustedRoot = []byte("x") },
	} {
		changed := one
		change(&changed)
		require.False(t, seen[string(changed.Fingerprint())])
		seen[string(changed.Fingerprint())] = true
	}
	require.Equal(t, one.Fingerprint(), signature.Rule{Pattern: "a", PublicKeys: "b", Issuer: "c", Identity: "d", IdentityRegexp: "e", TrustedRoot: []byte("f")}.Fingerprint())
}
