package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// readPersonas reads and checks all files before any is sent. All problems of
// all files are shown.
func readPersonas(e *env.Env, paths []string) ([]*deckhandv1.ApplyAgentRequest, error) {
	var files []string
	for _, path := range paths {
		found, err := personaFiles(path)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	var requests []*deckhandv1.ApplyAgentRequest
	var names []string
	var wrong problems
	for _, file := range files {
		request, name, err := readPersona(file)
		var found *persona.Problems
		if errors.As(err, &found) {
			wrong.add(file, fault.New(fault.Invalid, "%s", found))
			continue
		}
		if err != nil {
			return nil, err
		}
		requests, names = append(requests, request), append(names, name)
	}
	if len(requests) > 1 {
		for _, request := range requests {
			request.Along = names
		}
	}
	return requests, refuse(e, wrong, len(files))
}

// personaFiles returns a file itself and a folder's persona files, in order.
func personaFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, env.Unreadable(path, err).WithFix("name a persona file or a folder of them; examples are in personas/: `deckhand agent apply -f personas/`")
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return env.Unreadable(name, err)
		case entry.IsDir() && name != path && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(name) == ".md" && !strings.EqualFold(entry.Name(), "README.md"):
			out = append(out, name)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		return nil, fault.New(fault.Invalid, "there is no *.md file in %s", path).WithFix("name a persona file or a folder of them with -f")
	}
	return out, err
}

// readPersona reads a persona file and the script it names, and returns the
// agent's name too.
func readPersona(path string) (request *deckhandv1.ApplyAgentRequest, name string, err error) {
	markdown, err := env.ReadBounded(path, maxPersona)
	if err != nil {
		return nil, "", err
	}
	parsed, err := persona.Parse(path, markdown, persona.Vocabulary{})
	if err != nil {
		return nil, "", err
	}
	request = &deckhandv1.ApplyAgentRequest{Markdown: string(markdown), Filename: path}
	if parsed.Script == "" {
		return request, parsed.Name, nil
	}
	script, err := readSibling(path, parsed.Script)
	if err != nil {
		fix := "put the file beside the persona"
		if errors.Is(err, env.ErrTooLarge) {
			fix = "shorten it to " + bytesize.Format(maxPersona)
		}
		return nil, "", &persona.Problems{File: path, List: []persona.Problem{{
			Line:    scriptLine(string(markdown)),
			Message: fmt.Sprintf("script %q cannot be read (%s): %s", parsed.Script, err, fix),
		}}}
	}
	request.Script = string(script)
	return request, parsed.Name, nil
}

// maxPersona bounds a persona file and a script, in bytes; the hub refuses
// longer ones.
const maxPersona = 1 << 20

// readSibling reads a file in another's folder, and nowhere else: a persona
// from a stranger must not be able to have any file of this machine sent.
func readSibling(path, name string) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return env.ReadAll(file, maxPersona)
}

// scriptLine returns the line of the front matter's script key.
func scriptLine(markdown string) int {
	n := 1
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(line, "script:") {
			return n
		}
		n++
	}
	return 1
}
