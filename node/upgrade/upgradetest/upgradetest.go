// Package upgradetest makes releases of deckhand-node for tests, signed as scripts/release
// signs them.
package upgradetest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/blake2b"
)

// Key signs releases.
type Key struct {
	private ed25519.PrivateKey
	id      []byte
}

// NewKey creates a Key.
func NewKey(t testing.TB) Key {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	id := make([]byte, 8)
	_, err = rand.Read(id)
	require.NoError(t, err)
	return Key{private, id}
}

// PublicFile writes the public key, as minisign does, and returns the file's path.
func (k Key) PublicFile(t testing.TB) string {
	t.Helper()
	public, _ := k.private.Public().(ed25519.PublicKey)
	path := filepath.Join(t.TempDir(), "release.pub")
	require.NoError(t, os.WriteFile(path, []byte("untrusted comment: a key\n"+k.encode("Ed", public)+"\n"), 0o600))
	return path
}

func (k Key) encode(algorithm string, data []byte) string {
	return base64.StdEncoding.EncodeToString(append(append([]byte(algorithm), k.id...), data...))
}

// Sign returns a signature of minisign for a release of that version.
func (k Key) Sign(sums []byte, version string) []byte {
	digest := blake2b.Sum512(sums)
	signature := ed25519.Sign(k.private, digest[:])
	comment := "Deckhand " + version + " of 2026-11-27"
	global := ed25519.Sign(k.private, append(append([]byte{}, signature...), comment...))
	return []byte("untrusted comment: a signature\n" + k.encode("ED", signature) + "\ntrusted comment: " + comment + "\n" + base64.StdEncoding.EncodeToString(global) + "\n")
}

// Release puts a release with that program into a folder, in place of another one, and returns
// the program's digest.
func Release(t testing.TB, dir string, key Key, version string, program []byte) (digest string) {
	t.Helper()
	sum := sha256.Sum256(program)
	digest = hex.EncodeToString(sum[:])
	name := "deckhand-node-linux-" + runtime.GOARCH
	sums := []byte("0000000000000000000000000000000000000000000000000000000000000000  other.tar.gz\n" + digest + "  " + name + "\n")
	for file, text := range map[string][]byte{name: program, "SHA256SUMS": sums, "SHA256SUMS.minisig": key.Sign(sums, version)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	return digest
}
