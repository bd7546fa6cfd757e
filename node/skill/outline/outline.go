// Package outline lists what a file defines: its functions, types, sections or
// tables, each with its line, so that a part of the file can be read instead of
// all of it.
package outline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are what can be asked.
type Args struct {
	Path string `json:"path"`
	// MaxBytes limits the answer; 0 means 4 kB.
	MaxBytes int `json:"max_bytes"`
}

const (
	maxText  = 64 << 20
	maxItems = 20_000
)

// kinds are how files of each ending define things.
var kinds = []struct {
	endings string
	line    *regexp.Regexp
}{
	{".go", regexp.MustCompile(`^(func|type|package)\s|^(var|const)\s+\w|^\t?(var|const)\s*\(`)},
	{".py .pyi", regexp.MustCompile(`^\s*(async\s+def|def|class)\s+\w|^[A-Z][A-Z0-9_]+\s*[:=]`)},
	{".js .jsx .ts .tsx .mjs .cjs", regexp.MustCompile(`^\s*(export\s+)?(default\s+)?(abstract\s+)?(async\s+)?(function\*?|class|interface|enum|namespace)\s+\w|^(export\s+)?(type\s+\w+|const\s+\w+|let\s+\w+)\s*[=:<]|^\s{2,4}(public\s+|private\s+|protected\s+|static\s+|async\s+)*\w+\([^)]*\)\s*(:\s*[\w<>\[\]| ]+)?\s*\{$`)},
	{".rs", regexp.MustCompile(`^\s*(pub(\([a-z]+\))?\s+)?(async\s+|unsafe\s+|const\s+)*(fn|struct|enum|trait|impl|mod|type|macro_rules!|static)\b`)},
	{".c .h .cc .cpp .hpp .cxx .m", regexp.MustCompile(`^#\s*define\s+\w|^(typedef|struct|enum|union|class|namespace|template)\b|^[A-Za-z_][\w\s*&:<>,]*\([^;]*\)?\s*\{?\s*$|^(extern|static|inline)[\w\s*]+\(`)},
	{".java .cs .kt .scala .swift", regexp.MustCompile(`^\s*(public|private|protected|internal|static|final|abstract|override|open|data|sealed|suspend|fun|func|class|interface|enum|object|struct|protocol|extension|record)\b.*[({:]|^package\s`)},
	{".rb", regexp.MustCompile(`^\s*(def|class|module)\s+\S`)},
	{".php", regexp.MustCompile(`^\s*((abstract|final|public|private|protected|static)\s+)*(function|class|interface|trait|enum)\s+\w`)},
	{".sh .bash", regexp.MustCompile(`^\s*(function\s+)?[\w:-]+\s*\(\)|^function\s+\w|^[A-Z][A-Z0-9_]+=`)},
	{".sql", regexp.MustCompile(`(?i)^\s*(create|alter|drop|insert\s+into|-- name:)\b`)},
	{".proto", regexp.MustCompile(`^\s*(message|service|enum|rpc|oneof|package|extend)\s`)},
	{".md .markdown .rst", regexp.MustCompile(`^#{1,6}\s|^[=~-]{4,}\s*$`)},
	{".yaml .yml", regexp.MustCompile(`^(\s{0,2})[\w./"'-]+\s*:|^---`)},
	{".toml .ini .cfg .conf .service", regexp.MustCompile(`^\s*\[`)},
	{".tf .hcl", regexp.MustCompile(`^(resource|data|module|variable|output|provider|locals|terraform)\b`)},
	{".css .scss", regexp.MustCompile(`^[^\s@}/][^{;]*\{|^@\w+`)},
	{".html .xml .vue .svelte", regexp.MustCompile(`(?i)^\s*<(h[1-6]|section|form|table|script|style|template|body|head|main|nav)\b`)},
	{".mk makefile", regexp.MustCompile(`^[\w./%$()-]+\s*:[^=]|^define\s`)},
	{"dockerfile", regexp.MustCompile(`(?i)^(from|entrypoint|cmd|copy|run|expose)\b`)},
}

// otherwise are lines that define something in most languages.
var otherwise = regexp.MustCompile(`^\s*(func|function|def|class|struct|enum|interface|type|module|namespace|sub|procedure|trait|impl)\s+\w|^#{1,6}\s|^\[[^\]]+\]\s*$`)

// Known reports whether a file's name is one of a language of which the definitions are
// known.
func Known(path string) bool { return lineOf(path) != otherwise }

// Defines returns what the lines of a file that define something look like.
func Defines(path string) *regexp.Regexp { return lineOf(path) }

func lineOf(path string) *regexp.Regexp {
	name := strings.ToLower(filepath.Base(path))
	ending := filepath.Ext(strings.TrimSuffix(name, ".gz"))
	for _, k := range kinds {
		for _, e := range strings.Fields(k.endings) {
			if e == ending || e == name {
				return k.line
			}
		}
	}
	return otherwise
}

// Run reads the file.
func Run(ctx context.Context, args Args) (_ *report.Answer, read int64, err error) {
	f, err := input.Open(ctx, args.Path, maxText)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	type item struct {
		number int64
		text   string
	}
	var items []item
	defines := lineOf(args.Path)
	lines := input.NewLines(f)
	more := 0
	for lines.Next() {
		line := lines.Line()
		if lines.Number() == 1 && input.Binary(line) {
			return nil, lines.Read(), fmt.Errorf("%s is binary", args.Path)
		}
		if line = line[:min(len(line), 1024)]; !defines.Match(line) {
			continue
		}
		if len(items) == maxItems {
			more++
			continue
		}
		items = append(items, item{lines.Number(), report.Clean(line, 140)})
	}
	out := report.New(args.MaxBytes)
	out.Line("%s: %s lines, %s, %d definitions", report.Clean([]byte(args.Path), 300), report.Count(lines.Number()), report.Bytes(lines.Read()), len(items)+more)
	for i, it := range items {
		if !out.Line("%d: %s", it.number, it.text) {
			more += len(items) - i
			out.Note("%d more are not shown, from line %d on: ask for more bytes", more, it.number)
			break
		}
	}
	if len(items) == 0 {
		out.Line("nothing in it looks like a definition")
	}
	if lines.Cut > 0 {
		out.Note("%d lines are longer than 32 kB", lines.Cut)
	}
	switch err := lines.Err(); {
	case err == nil:
	case errors.Is(err, input.ErrTooMuch), errors.Is(err, context.DeadlineExceeded):
		out.Note("only the first %s are looked at", report.Bytes(lines.Read()))
	default:
		return nil, lines.Read(), fmt.Errorf("%s: %w", args.Path, err)
	}
	return out, lines.Read(), nil
}
