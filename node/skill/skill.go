// Package skill implements deckhand-skill, the program that summarises data
// inside the jail: a few lines for a model instead of gigabytes of log. It runs
// with the same rights as any other command of an agent, because the data it
// parses may be hostile. Its time, memory and output are bounded, it reports
// what it could not read, and a failure affects only the call itself.
package skill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/csvprofile"
	"github.com/deckhand-sh/deckhand/node/skill/extract"
	"github.com/deckhand-sh/deckhand/node/skill/fileview"
	"github.com/deckhand-sh/deckhand/node/skill/httpcall"
	"github.com/deckhand-sh/deckhand/node/skill/jsonquery"
	"github.com/deckhand-sh/deckhand/node/skill/logdigest"
	"github.com/deckhand-sh/deckhand/node/skill/outline"
	"github.com/deckhand-sh/deckhand/node/skill/report"
	"github.com/deckhand-sh/deckhand/node/skill/semgrep"
	"github.com/deckhand-sh/deckhand/node/skill/treedigest"
)

const (
	// timeout is how long a skill reads before it returns what it has.
	timeout = 90 * time.Second
	// httpTimeout is as much for a request, which has a time-out of its own.
	httpTimeout = time.Hour
	// extractTimeout is as much for a folder of documents.
	extractTimeout = 30 * time.Minute
	// maxInput bounds arguments that are read.
	maxInput = 4 << 20
	// memory is the soft limit of the heap; maxMemory is where the program
	// ends, so that its jail does not run out of memory.
	memory    = 400 << 20
	maxMemory = 768 << 20
)

// Confine holds this process to the memory that a skill may take. It is for the
// program alone.
func Confine() {
	// If it cannot be set, the jail's own limit applies.
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: maxMemory, Max: maxMemory})
	debug.SetMemoryLimit(memory)
	// The message of a crash is read by a model.
	debug.SetTraceback("none")
}

// Result is what the program writes, as JSON, with the flag --json.
type Result struct {
	Answer string         `json:"answer,omitempty"`
	Images []report.Image `json:"images,omitempty"`
	// BytesRead is how many bytes of text the answer is based on.
	BytesRead int64 `json:"bytes_read"`
	// Error says why there is no answer.
	Error string `json:"error,omitempty"`
}

// run returns an answer and how many bytes it read.
type run func(ctx context.Context, arguments []byte) (*report.Answer, int64, error)

// skills are the skills by name.
var skills = map[string]run{
	toolname.CSVProfile:   with(csvprofile.Run),
	toolname.FileOutline:  with(outline.Run),
	toolname.FileView:     with(fileview.Run),
	toolname.HTTPDelete:   with(httpcall.Delete),
	toolname.HTTPDownload: with(httpcall.Download),
	toolname.HTTPGet:      with(httpcall.Get),
	toolname.HTTPPost:     with(httpcall.Post),
	toolname.HTTPPut:      with(httpcall.Put),
	toolname.JSONQuery:    with(jsonquery.Run),
	toolname.LogDigest:    with(logdigest.Run),
	toolname.SemanticGrep: with(semgrep.Run),
	toolname.TailStats:    with(logdigest.Tail),
	toolname.TreeDigest:   with(treedigest.Run),
	// Of the knowledge base: no agent calls them.
	extracted.Folder:   with(extract.Run),
	extracted.Document: with(extract.RunDocument),
}

// with reads a skill's arguments, in which nothing may be that it does not know.
func with[Args any](skill func(context.Context, Args) (*report.Answer, int64, error)) run {
	return func(ctx context.Context, arguments []byte) (*report.Answer, int64, error) {
		var args Args
		decoder := json.NewDecoder(bytes.NewReader(arguments))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&args); err != nil {
			return nil, 0, fmt.Errorf("arguments: %w", err)
		}
		return skill(ctx, args)
	}
}

// Names returns the names of all skills in order.
func Names() []string { return slices.Sorted(maps.Keys(skills)) }

// Main runs `deckhand-skill [--json] NAME ARGUMENTS`, where ARGUMENTS is a JSON
// object, or - to read it from standard input. It returns the exit status: 0, 1
// if there is no answer, or 2 for a usage error.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	asJSON := len(args) > 0 && args[0] == "--json"
	if asJSON {
		args = args[1:]
	}
	if len(args) == 0 || len(args) > 2 || skills[args[0]] == nil {
		fmt.Fprintf(stderr, "usage: deckhand-skill [--json] %s '{\"path\": …}'\n", strings.Join(Names(), "|"))
		return 2
	}
	arguments := "{}"
	if len(args) == 2 {
		arguments = args[1]
	}
	secret := ""
	if arguments == "-" {
		// Nobody else may read what comes now from this process.
		if err := forbidReading(); err != nil {
			fmt.Fprintln(stderr, "deckhand-skill: keep others from reading this process:", err)
			return 2
		}
		read, err := io.ReadAll(io.LimitReader(stdin, maxInput))
		if err != nil {
			fmt.Fprintln(stderr, "deckhand-skill: read the arguments:", err)
			return 2
		}
		arguments = string(read)
		if rest, ok := strings.CutPrefix(arguments, nodelink.ProxySecret); ok {
			secret, arguments, _ = strings.Cut(rest, "\n")
		}
	}
	patience := timeout
	switch {
	case strings.HasPrefix(args[0], "http_"):
		patience = httpTimeout
	case args[0] == extracted.Folder:
		patience = extractTimeout
	}
	ctx, cancel := context.WithTimeout(httpcall.WithProxySecret(ctx, secret), patience)
	defer cancel()
	text, read, err := skills[args[0]](ctx, []byte(arguments))
	result := Result{BytesRead: read}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		result.Error = fmt.Sprintf("no answer within %s: ask about less", patience)
	case err != nil:
		result.Error = report.Clean([]byte(err.Error()), 1000)
	default:
		result.Answer, result.Images = text.String(), text.Images
	}
	switch {
	case asJSON:
		if err := json.NewEncoder(stdout).Encode(result); err != nil {
			return 1
		}
	case err != nil:
		fmt.Fprintln(stderr, "deckhand-skill:", result.Error)
	default:
		fmt.Fprint(stdout, result.Answer)
	}
	if err != nil {
		return 1
	}
	return 0
}
