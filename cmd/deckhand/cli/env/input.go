package env

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/internal/bytesize"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// ReadBounded reads a file of at most limit bytes.
func ReadBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, Unreadable(path, err)
	}
	defer func() { _ = file.Close() }()
	data, err := ReadAll(file, limit)
	if err != nil {
		return nil, Unreadable(path, err)
	}
	return data, nil
}

// ErrTooLarge is the error of input that is longer than allowed.
var ErrTooLarge = errors.New("it is larger than")

// ReadAll reads all of r, or fails where that is more than limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%w %s", ErrTooLarge, bytesize.Format(limit))
	}
	return data, err
}

// Unreadable returns the error of a file that cannot be read. It names the
// file once.
func Unreadable(path string, err error) *fault.Error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fault.New(fault.Invalid, "cannot read %s: %s", path, err)
}

// maxArguments bounds edited arguments, in bytes; the hub refuses more.
const maxArguments = 4 << 20

// ReadArguments returns a JSON object that was given as text, as @FILE, or as
// @- for standard input.
func ReadArguments(e *Env, cmd *cobra.Command, given string) (string, error) {
	text := []byte(given)
	if file, ok := strings.CutPrefix(given, "@"); ok {
		var err error
		if file == "-" {
			text, err = ReadAll(e.In, maxArguments)
		} else {
			text, err = ReadBounded(file, maxArguments)
		}
		if err != nil {
			return "", err
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return "", Usage(cmd, `--arguments is not a JSON object, give one such as '{"command":"ls"}'`)
	}
	return string(text), nil
}

// maxSecret bounds the file of a key, password or token, in bytes.
const maxSecret = 64 << 10

// ReadSecret reads a secret from a file, or from standard input when file is
// "-". It returns "" when file is "".
func ReadSecret(e *Env, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	in := e.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("open the file of the key: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSecret))
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// MaxInput bounds an input file, in bytes; the hub refuses longer ones.
const MaxInput = 16 << 20

// ReadAtMost reads all of in, or refuses what is over the limit.
func ReadAtMost(in io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("the payload is over %d bytes", most)
	}
	return data, nil
}
