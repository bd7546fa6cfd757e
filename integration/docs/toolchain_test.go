package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/node/image/imagetest"
)

// toolchains pushes the images that the examples of docs/images.md use, and copies the
// examples' personas. The images have this machine's own toolchains on a small base, so
// that what the examples do is done by the real programs, of this machine's versions.
func (s *stage) toolchains(mirror *imagetest.Registry) {
	t := s.T
	t.Helper()
	private := imagetest.NewRegistry(t)
	require.NoError(t, os.CopyFS(s.certs, os.DirFS(private.CertsDir)))
	s.private = private.Host
	tool := imagetest.Text("bin/build-tool", "#!/bin/sh\necho built\n")
	tool.Mode = 0o755
	private.Push(t, "team/tools:1", imagetest.Busybox(t, imagetest.Layer(t, tool)))
	private.RequirePassword("a-robots-token-8fk2")

	for tag, layers := range map[string]func() (v1.Layer, []string){
		"golang:1.26": s.goLayer, "node:24": s.nodeLayer, "python:3.13": s.pythonLayer, "postgres:18": s.postgresLayer,
	} {
		layer, env := layers()
		mirror.Push(t, "dockerhub/library/"+tag, imagetest.Configured(t, imagetest.Busybox(t, layer), func(c *v1.ConfigFile) { c.Config.Env = env }))
	}

	s.images = filepath.Join(s.dir, "images") + "/"
	require.NoError(t, os.Mkdir(s.images, 0o755))
	files, err := filepath.Glob("../../docs/images/*")
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(raw), "registry.example.com", private.Host)
		require.NoError(t, os.WriteFile(filepath.Join(s.images, filepath.Base(file)), []byte(text), 0o600))
	}
}

// goLayer has the Go toolchain with the packages that every program needs, and of the
// standard library no more.
func (s *stage) goLayer() (v1.Layer, []string) {
	root := s.output("go", "env", "GOROOT")
	tools := s.output("go", "env", "GOTOOLDIR")
	paths := []string{filepath.Join(root, "bin/go"), filepath.Join(root, "go.env"), filepath.Join(root, "VERSION"), filepath.Join(root, "pkg/include")}
	for _, name := range []string{"asm", "compile", "link"} {
		paths = append(paths, filepath.Join(tools, name))
	}
	paths = append(paths, strings.Fields(s.output("go", "list", "-deps", "-f", "{{.Dir}}", "runtime"))...)
	return imagetest.HostLayer(s.T, func(path string) bool {
			return strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "testdata"
		}, paths...),
		[]string{"PATH=" + filepath.Join(root, "bin") + ":/bin", "GOTOOLCHAIN=local", "CGO_ENABLED=0"}
}

func (s *stage) nodeLayer() (v1.Layer, []string) {
	node := s.output("node", "-p", "process.execPath")
	return imagetest.HostLayer(s.T, nil, node), []string{"PATH=" + filepath.Dir(node) + ":/bin"}
}

func (s *stage) pythonLayer() (v1.Layer, []string) {
	python := "/usr/bin/python3"
	library := s.output(python, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))")
	return imagetest.HostLayer(s.T, func(path string) bool {
		name := filepath.Base(path)
		return name == "__pycache__" || name == "test" || strings.HasPrefix(name, "config-")
	}, python, library), []string{"PATH=/usr/bin:/bin"}
}

func (s *stage) postgresLayer() (v1.Layer, []string) {
	programs, share := s.output("pg_config", "--bindir"), s.output("pg_config", "--sharedir")
	return imagetest.HostLayer(s.T, func(path string) bool {
		return strings.HasPrefix(filepath.Base(path), "llvmjit") || filepath.Base(path) == "bitcode"
	},
		filepath.Join(programs, "initdb"), filepath.Join(programs, "postgres"), filepath.Join(programs, "psql"),
		s.output("pg_config", "--pkglibdir"), share, "/usr/share/zoneinfo/Etc",
	), []string{"PATH=" + programs + ":/bin"}
}

// output returns what a program of this machine prints.
func (s *stage) output(name string, args ...string) string {
	s.T.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	out, err := cmd.Output()
	require.NoError(s.T, err, "%s", name)
	return strings.TrimSpace(string(out))
}
