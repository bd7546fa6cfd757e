package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
)

// Package managers work as root in an image of Debian, through the egress rules, and what
// they install runs. It downloads from Debian, PyPI and npm, so it is no part of CI.
func TestPackageManagersWork(t *testing.T) {
	t.Parallel()
	if os.Getenv("DECKHAND_SOAK") == "" {
		t.Skip("it downloads packages: set DECKHAND_SOAK=1")
	}
	root := filepath.Join(t.TempDir(), "root.tar")
	out, err := exec.Command("mmdebstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root).CombinedOutput()
	require.NoError(t, err, "apt-get install mmdebstrap: %s", out)
	layer, err := tarball.LayerFromFile(root)
	require.NoError(t, err)
	img, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	r := imagetest.NewRegistry(t)
	f := harness.New(t)
	// A mirror of packages on this network, if that is where its names lead.
	f.StartNodeIn(f.NodeDir, append(nodeFlags(r), "--special-addresses", "127.0.0.0/8,203.0.113.0/24")...)
	f.StartWorker()
	f.CLI(0, "registry", "rules", "--allow-root")
	tag, _ := r.Push(t, "team/debian:12", imagetest.Configured(t, img, func(c *v1.ConfigFile) { c.OS, c.Architecture = "linux", runtime.GOARCH }))
	const hosts = "{allow: [{host: '*.debian.org', ports: [80], private: true}, {host: pypi.org, private: true}, {host: files.pythonhosted.org, private: true}, {host: registry.npmjs.org, private: true}, 203.0.113.0/24]}"
	f.Persona("installer", `turns:
  - text: I install what I need.
    calls:
      - {tool: shell_exec, arguments: {command: "apt-get update && apt-get install -y --no-install-recommends python3-pip npm git", timeout_seconds: 900}}
      - {tool: shell_exec, arguments: {command: "pip install --break-system-packages --root-user-action=ignore six && python3 -c 'import six; print(six.__name__)'", timeout_seconds: 300}}
      - {tool: shell_exec, arguments: {command: "mkdir tool && cd tool && npm init -y > /dev/null && npm pkg set bin.tool=tool.js && printf \"#!/usr/bin/env node\\nconsole.log(1 + 1)\\n\" > tool.js && chmod 755 tool.js && npm pack > /dev/null && npm install -g ./tool-1.0.0.tgz && cd / && tool", timeout_seconds: 300}}
      - {tool: shell_exec, arguments: {command: "git init -q repo && cd repo && git status --short && echo clean; useradd -m somebody && su somebody -c id"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+tag+", root: writable, user: root}", "egress: "+hosts)
	id := f.Submit("installer")
	waittest.Until(t, 15*time.Minute, "the task to end", func() bool {
		state := f.Task(id).State
		return state == "TASK_STATE_SUCCEEDED" || state == "TASK_STATE_FAILED"
	})
	seen := observations(f, id)
	require.Len(t, seen, 5, "%s", strings.Join(seen, "\n"))
	for i, says := range []string{"exit status 0\n", "\nsix\n", "\n2\n", "clean\nuid=100"} {
		require.Contains(t, seen[i], says)
	}

	// The same by a setup, for an agent that is not root.
	f.Persona("user", `turns:
  - text: It is there.
    calls:
      - {tool: shell_exec, arguments: {command: "jq --version && id -u"}}
      - {tool: complete_task, arguments: {summary: done}}
`, "jail: {image: "+tag+", setup: [apt-get update, apt-get install -y --no-install-recommends jq], setup_egress: "+hosts+"}")
	id = f.Submit("user")
	f.Ended(id)
	require.Regexp(t, `jq-1\.\d+\n1000\n`, strings.Join(observations(f, id), "\n"))
}
