// Package mcp runs other people's MCP programs against the hub: the protocol's official
// conformance suite, the command line of the MCP inspector, and Claude Code.
package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// walker is an agent that does nothing.
const walker = "---\nname: walker\ndescription: Walks.\nprovider: script\nscript: walker.script.yaml\ntools: [complete_task]\n---\nWalk.\n"

// installing is held while the modules are installed.
var installing sync.Mutex

// modules installs what package-lock.json names, once, and returns where.
func modules(t *testing.T) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	dir, err := filepath.Abs("../../.build/mcp")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o750))
	lock, err := os.ReadFile("package-lock.json")
	require.NoError(t, err)
	sum := sha256.Sum256(lock)
	want, mark := hex.EncodeToString(sum[:]), filepath.Join(dir, "node_modules", ".locked")
	if have, err := os.ReadFile(mark); err == nil && string(have) == want {
		return dir
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	npm := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--omit=optional", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error")
	npm.Dir = dir
	out, err := npm.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(mark, []byte(want), 0o600))
	return dir
}

// authorized is a proxy that adds a token, which the suite has no option for. It leaves
// Host and Origin as they are.
func authorized(t *testing.T, hub, token string) string {
	t.Helper()
	target, err := url.Parse(hub)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		FlushInterval: -1,
		Transport:     &http.Transport{},
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// Each scenario of the suite passes, but for those in the baseline: they need tools, prompts
// and resources of the suite's own example server, or what this server does not offer. A
// scenario of the baseline that passes is an error as well.
func TestTheOfficialConformanceSuitePasses(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	client := h.Client(t, h.AdminToken)
	_, err := client.Agents.ApplyAgent(t.Context(), &deckhandv1.ApplyAgentRequest{
		Filename: "walker.md", Markdown: walker, Script: "turns: []\n",
	})
	require.NoError(t, err)
	_, err = client.Tasks.SubmitTask(t.Context(), &deckhandv1.SubmitTaskRequest{AgentId: "walker", Goal: "walk"})
	require.NoError(t, err)
	at, dir := authorized(t, h.URL(), h.AdminToken)+"/mcp", modules(t)
	shim, err := filepath.Abs("node20.mjs")
	require.NoError(t, err)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			baseline, err := filepath.Abs(revision + ".yaml")
			require.NoError(t, err)
			results := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			suite := exec.CommandContext(ctx, "node", "--import", shim, filepath.Join(dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js"),
				"server", "--url", at, "--suite", "all", "--spec-version", revision, "--expected-failures", baseline, "--output-dir", results)
			var out bytes.Buffer
			suite.Stdout, suite.Stderr = &out, &out
			if err := suite.Run(); err != nil {
				_, summary, _ := strings.Cut(out.String(), "=== SUMMARY ===")
				require.NoError(t, err, "%s\n%s", summary, fmt.Sprint(failures(t, results)))
			}
			// Four of its checks need tools of the example server; the others pass.
			for _, c := range failures(t, results) {
				if strings.HasPrefix(c.scenario, "server-server-stateless-") {
					require.True(t, c.Details.Untestable, "%s: %s", c.ID, c.ErrorMessage)
				}
			}
		})
	}
}

// check is one check of a scenario.
type check struct {
	scenario     string
	ID, Status   string
	ErrorMessage string
	Details      struct{ Untestable bool }
}

// failures returns the checks that failed.
func failures(t *testing.T, dir string) (out []check) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var checks []check
		require.NoError(t, json.Unmarshal(data, &checks))
		for _, c := range checks {
			if c.Status == "FAILURE" {
				c.scenario = filepath.Base(filepath.Dir(file))
				out = append(out, c)
			}
		}
	}
	return out
}
