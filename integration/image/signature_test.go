package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature/signaturetest"
	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
)

// Tasks run only in images that have the signatures which a rule requires. When a rule
// changes, images are verified again, including those that are on the node.
func TestOnlySignedImagesRunWhereARuleAsksForIt(t *testing.T) {
	t.Parallel()
	f, r := withRegistry(t)
	node := f.NodeName()
	signed, signedDigest := r.Push(t, "team/signed:1", toolchain(t, "signed"))
	unsigned, _ := r.Push(t, "team/unsigned:1", toolchain(t, "unsigned"))
	digest := signedDigest[strings.Index(signedDigest, "@")+1:]
	key, other, sigstore := signaturetest.NewKey(t), signaturetest.NewKey(t), signaturetest.NewSigstore(t)
	r.PushSignatures(t, signedDigest, key.Sign(t, digest))

	file := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		return path
	}
	pattern := r.Host + "/team/*"
	verify := func(args ...string) { f.CLI(0, append([]string{"registry", "verify", "set", pattern}, args...)...) }
	refused := func(args ...string) string {
		r := harness.Run(t, []string{"DECKHAND_DATA_DIR=" + f.Dir}, args...)
		require.NotZero(t, r.Code, r.Out)
		return r.Err
	}
	script := `turns:
  - text: I use the toolchain.
    calls:
      - {tool: shell_exec, arguments: {command: "tool"}}
      - {tool: complete_task, arguments: {summary: done}}
`
	f.Persona("signed", script, "jail: {image: "+signed+"}", "workspace: {scope: task}")
	// An agent whose tasks fail three times in a row is held.
	f.Persona("certified", script, "jail: {image: "+signed+"}", "workspace: {scope: task}")
	f.Persona("unsigned", script, "jail: {image: "+unsigned+"}", "workspace: {scope: task}")
	runs := func(id, version string) {
		t.Helper()
		f.Ended(id)
		require.Equal(t, "exit status 0\ntool "+version+"\n", observations(f, id)[0])
	}
	fails := func(id, because string) {
		t.Helper()
		waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
		var task struct {
			ErrorCode    string `json:"errorCode"`
			ErrorMessage string `json:"errorMessage"`
			Reason       string
		}
		f.JSON(&task, "task", "show", id)
		require.Equal(t, "AGENT_031", task.ErrorCode)
		require.Contains(t, task.ErrorMessage, "is not signed as the organisation requires: the rule for "+pattern+" asks for a signature by ")
		require.Contains(t, task.ErrorMessage, because)
		require.Contains(t, task.Reason, "deckhand registry verify list")
	}

	verify("--key", file("cosign.pub", []byte(key.PEM(t))))
	first := f.Submit("signed")
	runs(first, "signed")
	fails(f.Submit("unsigned"), "and the registry has no signature of it")
	require.Contains(t, refused("node", "image", "pull", node, unsigned), "the registry has no signature of it")
	require.NotContains(t, f.CLI(0, "node", "image", "list", node).Out, "team/unsigned", "it was not pulled")
	require.Contains(t, f.CLI(0, "node", "image", "pull", node, signed).Out, signedDigest)
	before := len(r.Requests())
	runs(strings.TrimSpace(f.CLI(0, "task", "retry", first, "-o", "name").Out), "signed")
	require.Len(t, r.Requests(), before, "what is verified is not verified again")

	verify("--key", file("other.pub", []byte(other.PEM(t))))
	fails(strings.TrimSpace(f.CLI(0, "task", "retry", first, "-o", "name").Out), "one is by another key, or was changed")
	require.Contains(t, refused("node", "exec", node, "--task", first, "--", "/bin/true"), "was not verified by the organisation's rule for "+pattern)
	archive := filepath.Join(t.TempDir(), "tools.tar")
	imagetest.Save(t, archive, "whatever:1", toolchain(t, "imported"))
	require.Contains(t, refused("node", "image", "import", node, r.Host+"/team/imported:1", archive), "cannot be imported: the rule for "+pattern)

	const issuer = "https://accounts.example.com"
	root := file("trusted_root.json", sigstore.TrustedRoot(t))
	verify("--issuer", issuer, "--identity", "release@example.com", "--trusted-root", root)
	fails(f.Submit("certified"), "one is by a key and not by an identity")
	r.PushBundles(t, signedDigest, imagetest.Bundle{JSON: sigstore.Bundle(t, "intruder@example.com", issuer, digest, signaturetest.TypeSignature)})
	fails(f.Submit("certified"), `one is by "intruder@example.com" of "https://accounts.example.com"`)
	r.PushBundles(t, signedDigest, imagetest.Bundle{JSON: sigstore.Bundle(t, "release@example.com", issuer, digest, signaturetest.TypeSignature), Predicate: signaturetest.TypeSignature})
	runs(f.Submit("certified"), "signed")
	require.Contains(t, f.CLI(0, "node", "exec", node, "--task", first, "--", "tool").Out, "tool signed")
	require.Contains(t, f.CLI(0, "registry", "verify", "list").Out, "release@example.com of "+issuer)
	require.Contains(t, refused("registry", "verify", "set", "team/*", "--key", root), "which no image can match")
	require.Contains(t, refused("registry", "verify", "set", pattern, "--key", root), "public_keys has text that is not PEM")
	require.Contains(t, refused("registry", "verify", "set", pattern, "--key", root, "--issuer", issuer), "give either --key, or --issuer")

	f.CLI(0, "registry", "verify", "delete", pattern)
	require.Contains(t, refused("registry", "verify", "delete", pattern), "no signature rule has the pattern")
	runs(f.Submit("unsigned"), "unsigned")
	audit := f.CLI(0, "audit", "list", "-o", "json").Out
	require.Contains(t, audit, "signature_rule.set")
	require.Contains(t, audit, "signature_rule.deleted")
}

// An image that was imported before the rule has no registry with its signatures: it is
// refused, with the reason.
func TestAnImportedImageIsNotVerified(t *testing.T) {
	t.Parallel()
	f := harness.New(t)
	f.StartNode()
	f.StartWorker()
	archive := filepath.Join(t.TempDir(), "tools.tar")
	imagetest.Save(t, archive, "whatever:1", toolchain(t, "imported"))
	const name = "registry.internal/team/tools:1"
	f.CLI(0, "node", "image", "import", f.NodeName(), name, archive)
	key := filepath.Join(t.TempDir(), "cosign.pub")
	require.NoError(t, os.WriteFile(key, []byte(signaturetest.NewKey(t).PEM(t)), 0o600))
	f.CLI(0, "registry", "verify", "set", "registry.internal/*", "--key", key)
	f.Persona("builder", "turns:\n  - text: Never.\n    calls: [{tool: complete_task, arguments: {summary: done}}]\n", "jail: {image: "+name+"}")
	id := f.Submit("builder")
	waittest.Until(t, time.Minute, "the task to fail", func() bool { return f.Task(id).State == "TASK_STATE_FAILED" })
	var task struct {
		ErrorMessage string `json:"errorMessage"`
		Reason       string
	}
	f.JSON(&task, "task", "show", id)
	require.Contains(t, task.ErrorMessage, "image "+name+" is not verified: the rule for registry.internal/* asks for a signature by key sha256:")
	require.Contains(t, task.ErrorMessage, "was imported from an archive on this node: there is no registry to ask for its signatures")
	require.Contains(t, task.Reason, "have an administrator delete the signature rule that matches it")
}
