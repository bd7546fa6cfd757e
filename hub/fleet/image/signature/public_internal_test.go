package signature

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/testing/data"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/stretchr/testify/require"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// The public sigstore's own certificate, log entry and certificate log: the release of an npm
// package, signed by its workflow. An npm package has a SHA-512, so the digest of the policy
// differs from an image's; authority, identity and log are verified as for an image.
func TestThePublicSigstoreIsVerified(t *testing.T) {
	t.Parallel()
	const (
		bundleName = "sigstore.js@2.0.0-provenance.sigstore.json"
		digest     = "46d4e2f74c4877316640000a6fdf8a8b59f1e0847667973e9859f774dd31b8f1e0937813b777fb66a2ac67d50540fe34640966eee9fc2ccca387082b4c85cd3c"
		issuer     = "https://token.actions.githubusercontent.com"
		workflow   = "https://github.com/sigstore/sigstore-js/.github/workflows/release.yml@refs/heads/main"
	)
	root, err := data.TrustedRoot(t, "public-good.json").MarshalJSON()
	require.NoError(t, err)
	sum, err := hex.DecodeString(digest)
	require.NoError(t, err)
	image := "sha256:" + strings.Repeat("ab", 32)
	check := func(rule Rule, entity *bundle.Bundle) error {
		require.NoError(t, rule.Check())
		v, err := newVerifier(rule, image)
		require.NoError(t, err)
		_, err = v.check(entity, func() verify.ArtifactPolicyOption { return verify.WithArtifactDigest("sha512", sum) }, nil)
		return err
	}
	release := Rule{Issuer: issuer, Identity: workflow, TrustedRoot: root}
	require.NoError(t, check(release, data.Bundle(t, bundleName)))
	require.NoError(t, check(Rule{Issuer: issuer, IdentityRegexp: `https://github\.com/sigstore/sigstore-js/.*`, TrustedRoot: root}, data.Bundle(t, bundleName)))

	require.ErrorContains(t, check(Rule{Issuer: issuer, Identity: workflow + "x", TrustedRoot: root}, data.Bundle(t, bundleName)),
		`one is by "`+workflow+`" of "`+issuer+`"`)
	other, err := data.TrustedRoot(t, "scaffolding.json").MarshalJSON()
	require.NoError(t, err)
	require.Error(t, check(Rule{Issuer: issuer, Identity: workflow, TrustedRoot: other}, data.Bundle(t, bundleName)), "another sigstore's authority and log")

	// The log's promise for an entry is of that entry only.
	raw, err := data.Bundle(t, bundleName).MarshalJSON()
	require.NoError(t, err)
	late := strings.Replace(string(raw), `"1692374735"`, `"1692374736"`, 1)
	require.NotEqual(t, string(raw), late)
	changed := &bundle.Bundle{}
	require.NoError(t, changed.UnmarshalJSON([]byte(late)))
	require.Error(t, check(release, changed))

	// And it is no signature of an image.
	require.ErrorContains(t, Verify(release, image, []*nodev1.ImageSignature{{Signature: &nodev1.ImageSignature_Bundle{Bundle: raw}}}), "is of another image")
}
