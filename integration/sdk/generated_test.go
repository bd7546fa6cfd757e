package sdk

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// What a client that a generator has made prints: the call that it approved, how the task
// ended, and the hub's refusal of a task that does not exist.
const answered = "shell_exec date >> greeting.txt\nTASK_STATE_SUCCEEDED\n404 there is no task \"task_none\"\n"

func TestGeneratedClientsWork(t *testing.T) {
	if os.Getenv(jailtest.EnvSoak) == "" {
		t.Skip("it takes minutes: set " + jailtest.EnvSoak + "=1")
	}
	t.Parallel()
	f := newFleet(t)
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		f.goClient(t)
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		f.typeScriptClient(t)
	})
}

// document writes the OpenAPI document as the hub serves it.
func (f fleet) document(t *testing.T, path string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+"/openapi.json", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	out, err := os.Create(path)
	require.NoError(t, err)
	defer out.Close()
	_, err = out.ReadFrom(res.Body)
	require.NoError(t, err)
}

// workshop copies a folder to one that stays between runs, so that what is compiled there
// is not compiled again.
func workshop(t *testing.T, from string) (dir string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("../../.build", from))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o750))
	files, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(from, file.Name()))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file.Name()), data, 0o600))
	}
	return dir
}

// goClient generates a client with oapi-codegen, which takes OpenAPI 3.1 where a document has
// nothing that 3.0 has not in another form, and runs a program that uses it.
func (f fleet) goClient(t *testing.T) {
	dir := workshop(t, "goclient")
	f.document(t, filepath.Join(dir, "openapi.json"))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "api"), 0o750))
	run(t, dir, os.Environ(), "go", "tool", "oapi-codegen", "-generate", "types,client", "-response-type-suffix", "Result", "-package", "api", "-o", "api/api.go", "openapi.json")
	program := filepath.Join(dir, "client")
	run(t, dir, os.Environ(), "go", "build", "-ldflags=-s -w", "-o", program, ".")
	require.Equal(t, answered, run(t, dir, f.env(), program))
}

// typeScriptClient generates a client with openapi-ts, and runs a program that uses it.
func (f fleet) typeScriptClient(t *testing.T) {
	dir := workshop(t, "tsclient")
	lock, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	require.NoError(t, err)
	sum := sha256.Sum256(lock)
	want, mark := hex.EncodeToString(sum[:]), filepath.Join(dir, "node_modules", ".locked")
	if have, err := os.ReadFile(mark); err != nil || string(have) != want {
		run(t, dir, os.Environ(), "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error")
		require.NoError(t, os.WriteFile(mark, []byte(want), 0o600))
	}
	types := filepath.Join(dir, "node_modules", "@types")
	require.NoError(t, os.MkdirAll(types, 0o750))
	for name, from := range map[string]string{filepath.Join(types, "node"): "@types/node", filepath.Join(dir, "node_modules", "undici-types"): "undici-types"} {
		if _, err := os.Lstat(name); err != nil {
			require.NoError(t, os.Symlink(filepath.Join(modules(t), from), name))
		}
	}
	f.document(t, filepath.Join(dir, "openapi.json"))
	run(t, dir, os.Environ(), "node", "node_modules/@hey-api/openapi-ts/bin/run.js", "-i", "openapi.json", "-o", "api")
	run(t, dir, os.Environ(), "node", "node_modules/typescript/bin/tsc")
	require.Equal(t, answered, run(t, dir, f.env(), "node", "out/client.js"))
}
