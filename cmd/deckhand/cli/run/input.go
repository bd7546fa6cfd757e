package run

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// readInputs reads FILE or FILE=PATH for each input.
func readInputs(e *env.Env, specs []string) ([]*deckhandv1.InputFile, error) {
	inputs := make([]*deckhandv1.InputFile, 0, len(specs))
	for _, spec := range specs {
		file, path := spec, ""
		if i := strings.LastIndexByte(spec, '='); i >= 0 {
			// A file whose own name has a "=" is meant by its name.
			if _, err := os.Stat(spec); err != nil {
				file, path = spec[:i], spec[i+1:]
			}
		}
		content, err := readInput(e, file)
		if err != nil {
			return nil, err
		}
		switch {
		case path != "":
		case file == "-":
			path = "input/stdin"
		default:
			path = "input/" + filepath.Base(file)
		}
		inputs = append(inputs, &deckhandv1.InputFile{Path: path, Content: content})
	}
	return inputs, nil
}

func readInput(e *env.Env, file string) ([]byte, error) {
	if file != "-" {
		return env.ReadBounded(file, env.MaxInput)
	}
	content, err := env.ReadAll(e.In, env.MaxInput)
	if err != nil {
		return nil, env.Unreadable("standard input", err)
	}
	return content, nil
}
