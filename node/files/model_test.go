package files_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// model is a workspace as a plain map: files by path. Folders follow from it,
// since nothing here removes any.
type model map[string]string

func (m model) folder(path string) bool {
	for name := range m {
		if strings.HasPrefix(name, path+"/") {
			return true
		}
	}
	return false
}

// blocked reports whether a part of the path is a file.
func (m model) blocked(path string) bool {
	for i, c := range path {
		if _, file := m[path[:i]]; c == '/' && file {
			return true
		}
	}
	return false
}

func (m model) writable(path string) bool { return !m.folder(path) && !m.blocked(path) }

func TestWorkspaceBehavesAsAMapOfPathsToContents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s, _ := service(t)
		m := model{}
		name := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ü", "a b"}), 1, 3).Draw(t, "parts"), "/")
		})
		content := rapid.StringN(0, 20, -1)
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				path, text := name.Draw(rt, "path"), content.Draw(rt, "content")
				_, existed := m[path]
				got, err := write(t, s, path, text)
				require.Equal(rt, m.writable(path), err == nil, "%v", err)
				if err == nil {
					require.Equal(rt, existed, got.GetReplaced())
					m[path] = text
				}
			},
			"append": func(rt *rapid.T) {
				path, text := name.Draw(rt, "path"), content.Draw(rt, "content")
				got, err := s.AppendFile(t.Context(), &nodev1.AppendFileRequest{JailId: jailID, Path: path, Content: []byte(text)})
				require.Equal(rt, m.writable(path), err == nil, "%v", err)
				if err == nil {
					m[path] += text
					require.Equal(rt, digest(m[path]), got.GetDigest())
				}
			},
			"read": func(rt *rapid.T) {
				path := "/workspace/" + name.Draw(rt, "path")
				want, exists := m[path[len("/workspace/"):]]
				got, err := read(t, s, path)
				require.Equal(rt, exists, err == nil, "%v", err)
				require.Equal(rt, want, string(got.GetContent()))
			},
			"": func(rt *rapid.T) {
				got, err := s.ListFiles(t.Context(), &nodev1.ListFilesRequest{JailId: jailID, Recursive: true})
				require.NoError(rt, err)
				var names []string
				for _, f := range got.GetFiles() {
					if f.GetType() == "file" {
						names = append(names, f.GetPath())
						require.EqualValues(rt, len(m[f.GetPath()]), f.GetSize())
					}
				}
				require.ElementsMatch(rt, slices.Collect(maps.Keys(m)), names)
			},
		})
	})
}
