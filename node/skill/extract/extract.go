// Package extract reads documents for the knowledge base: Run is the skill that reads a
// folder, RunDocument the one that reads one document. They run in a jail that holds nothing
// but the documents, because those may be hostile.
//
// A document is cut into passages where its structure has seams (headings, definitions,
// pages, rows), each with the place that it comes from. Markdown, HTML, text, source code
// and CSV are read line by line or token by token, in memory that does not grow with their
// nesting. PDF and DOCX documents are each read by a process of their own, which has a
// time-out and a limit of memory: one that is damaged or a bomb is skipped, and the others
// are read.
package extract

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/outline"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are the arguments of Run.
type Args struct {
	// Path is the folder or the file to read.
	Path string `json:"path"`
	// Out is the file that the records are written to.
	Out string `json:"out"`
	// Known, if set, is a file with a JSON object of digests by path: documents that have
	// theirs are not read again.
	Known string `json:"known"`
}

// DocumentArgs are the arguments of RunDocument, which writes to standard output.
type DocumentArgs struct {
	Path   string `json:"path"`
	Format string `json:"format"`
}

const (
	// documentTime is how long one document that has a process of its own may take.
	documentTime = 60 * time.Second
	maxKnown     = 64 << 20
	maxOut       = 512 << 20
)

// Run reads a folder and writes records to a file.
func Run(ctx context.Context, args Args) (*report.Answer, int64, error) {
	known := map[string]string{}
	if args.Known != "" {
		data, err := readSome(args.Known, maxKnown)
		if err != nil {
			return nil, 0, err
		}
		if err := json.Unmarshal(data, &known); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", args.Known, err)
		}
	}
	if args.Out == "" {
		return nil, 0, errors.New("out is empty: name the file to write to")
	}
	out, err := os.OpenFile(args.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, input.Say(err)
	}
	defer out.Close()
	w := &writer{out: bufio.NewWriterSize(out, 1<<20)}
	note, err := w.folder(ctx, args.Path, known)
	if err != nil {
		return nil, w.read, err
	}
	if err := ctx.Err(); err != nil {
		return nil, w.read, err
	}
	w.end.Note = oneLine(note, extracted.MaxNote)
	if err := errors.Join(w.write(extracted.Record{End: &w.end}), w.out.Flush(), out.Close()); err != nil {
		return nil, w.read, err
	}
	answer := report.New(0)
	answer.Line("%d documents, %d passages", w.end.Files, w.end.Passages)
	return answer, w.read, nil
}

// writer writes the records of a folder.
type writer struct {
	out  *bufio.Writer
	size int64
	read int64
	end  extracted.End
	// cut is how many documents are cut, and firstCut says which and how the first is.
	cut      int
	firstCut string
}

func (w *writer) write(r extracted.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if w.size += int64(len(data)) + 1; w.size > maxOut {
		return errors.New("the documents have over 512 MiB of text together: index a part of them")
	}
	if _, err := w.out.Write(append(data, '\n')); err != nil {
		return err
	}
	return nil
}

var errEnough = errors.New("enough files")

// folder writes the documents of a folder, and returns what was left out. A folder that cannot
// be read at all is an error: it does not look like an empty one.
func (w *writer) folder(ctx context.Context, root string, known map[string]string) (note string, err error) {
	if err := readable(root); err != nil {
		return "", err
	}
	tree := &input.Tree{Root: root}
	tree.Each = func(e input.Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.end.Files == extracted.MaxFiles {
			return errEnough
		}
		rel := filepath.ToSlash(e.Rel)
		if hidden(rel) || !utf8.ValidString(rel) || len(rel) > extracted.MaxPath || clean(rel) != rel || strings.ContainsFunc(rel, unicode.IsControl) {
			return nil
		}
		w.end.Files++
		return w.file(ctx, e, rel, known[rel])
	}
	var notes []string
	switch err := tree.Walk(ctx); {
	case errors.Is(err, errEnough):
		notes = append(notes, fmt.Sprintf("only the first %d files are read: index a smaller folder", extracted.MaxFiles))
	case err != nil:
		return "", err
	case len(tree.Unread) > 0:
		notes = append(notes, fmt.Sprintf("%d folders may not be read, the first: %s", len(tree.Unread), tree.Unread[0]))
	case tree.Stopped != "":
		notes = append(notes, tree.Stopped)
	}
	w.end.Partial = len(notes) > 0
	if w.cut > 0 {
		notes = append(notes, fmt.Sprintf("%d documents are cut, the first: %s", w.cut, w.firstCut))
	}
	return strings.Join(notes, "; "), nil
}

// readable returns an error if a folder cannot be listed.
func readable(root string) error {
	f, err := os.Open(root)
	if err != nil {
		return input.Say(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		return err
	}
	if _, err := f.ReadDir(1); err != nil && !errors.Is(err, io.EOF) {
		return input.Say(err)
	}
	return nil
}

// hidden reports whether a path is below a hidden folder or is a hidden file.
func hidden(rel string) bool {
	return strings.HasPrefix(rel, ".") || strings.Contains(rel, "/.")
}

// file writes one file's records.
func (w *writer) file(ctx context.Context, e input.Entry, rel, known string) error {
	f := &extracted.File{Path: rel, Bytes: e.Info.Size()}
	data, err := readSome(e.Path, extracted.MaxFile)
	if err != nil {
		f.Skipped = oneLine(err.Error(), extracted.MaxNote)
		return w.write(extracted.Record{File: f})
	}
	w.read += int64(len(data))
	sum := sha256.Sum256(data)
	f.Digest, f.Bytes, f.Format = hex.EncodeToString(sum[:]), int64(len(data)), FormatOf(rel, data)
	if f.Format == "" {
		f.Skipped = "it is neither text nor a document that is read"
		return w.write(extracted.Record{File: f})
	}
	if f.Digest == known {
		f.Same = true
		return w.write(extracted.Record{File: f})
	}
	// The passages are held until the document is known to be readable.
	var held []extracted.Passage
	emit := func(p extracted.Passage) error {
		held = append(held, p)
		return nil
	}
	if f.Format == "pdf" || f.Format == "docx" {
		f.Title, f.Cut, err = apart(ctx, e.Path, f.Format, emit)
	} else {
		f.Title, f.Cut, err = document(ctx, f.Format, rel, data, emit)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.Skipped, f.Cut, held = oneLine(err.Error(), extracted.MaxNote), "", nil
	} else if len(held) == 0 {
		f.Skipped = "it has no text"
	}
	if f.Cut != "" {
		if w.cut++; w.cut == 1 {
			w.firstCut = rel + ": " + f.Cut
		}
	}
	if err := w.write(extracted.Record{File: f}); err != nil {
		return err
	}
	w.end.Passages += len(held)
	for i := range held {
		if err := w.write(extracted.Record{Passage: &held[i]}); err != nil {
			return err
		}
	}
	return nil
}

// readSome reads a regular file of at most some bytes.
func readSome(path string, most int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, input.Say(err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	case info.Size() > most:
		return nil, fmt.Errorf("it has %s: at most %s are read", report.Bytes(info.Size()), report.Bytes(most))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, input.Say(err)
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// FormatOf returns the format of a file, by its content and its name; empty for one that is
// not read.
func FormatOf(name string, data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("%PDF-")):
		return "pdf"
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		if strings.EqualFold(filepath.Ext(name), ".docx") {
			return "docx"
		}
		return ""
	case input.Binary(data) || !mostlyText(data):
		return ""
	}
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".md", ".markdown", ".mdx", ".rst":
		return "markdown"
	case ".html", ".htm", ".xhtml":
		return "html"
	case ".csv", ".tsv":
		return "csv"
	case ".txt", ".text", ".log", ".svg", ".json", ".jsonl", ".xml", ".lock", ".sum", ".min.js", ".map":
		return "text"
	case "":
		if head := strings.ToLower(string(data[:min(len(data), 256)])); strings.Contains(head, "<!doctype html") || strings.Contains(head, "<html") {
			return "html"
		}
		return "text"
	default:
		if outline.Known(name) {
			return "code"
		}
		return "text"
	}
}

// mostlyText reports whether the begin of a file is UTF-8, but for a few bytes.
func mostlyText(data []byte) bool {
	head := data[:min(len(data), 8<<10)]
	wrong := 0
	for rest := head; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			wrong++
		}
		rest = rest[size:]
	}
	return wrong*20 <= len(head)
}

// document reads one that needs no process of its own, and returns its title and what is not
// taken of it.
func document(ctx context.Context, format, name string, data []byte, emit func(extracted.Passage) error) (title, cut string, err error) {
	m := &maker{emit: emit}
	switch format {
	case "markdown":
		title = markdown(m, data)
	case "html":
		title, err = webPage(m, data)
	case "csv":
		err = table(m, name, data)
	case "code":
		code(m, name, data)
	case "docx":
		title, err = docx(m, data)
	case "pdf":
		title, err = pdf(ctx, m, data)
	default:
		plain(m, data)
	}
	m.flush()
	return oneLine(title, extracted.MaxHeading), m.cut, errors.Join(err, m.err)
}

// RunDocument reads one document and writes its passages to standard output, the title as
// the record of a file. It is run by Run only.
func RunDocument(ctx context.Context, args DocumentArgs) (*report.Answer, int64, error) {
	data, err := readSome(args.Path, extracted.MaxFile)
	if err != nil {
		return nil, 0, err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	title, cut, err := document(ctx, args.Format, args.Path, data, func(p extracted.Passage) error {
		return encoder.Encode(extracted.Record{Passage: &p})
	})
	if err == nil {
		err = encoder.Encode(extracted.Record{File: &extracted.File{Title: title, Cut: cut}})
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return nil, int64(len(data)), err
	}
	return report.New(0), int64(len(data)), nil
}

// apart reads a document in a process of its own.
func apart(ctx context.Context, path, format string, emit func(extracted.Passage) error) (title, cut string, err error) {
	arguments, err := json.Marshal(DocumentArgs{Path: path, Format: format})
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", extracted.Document, string(arguments))
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stderr = &bounded{to: &said, left: 4 << 10}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", "", err
	}
	if err := cmd.Start(); err != nil {
		return "", "", err
	}
	lines := bufio.NewScanner(io.LimitReader(out, 2*extracted.MaxText))
	lines.Buffer(nil, extracted.MaxLine)
	for lines.Scan() && err == nil {
		var r extracted.Record
		switch {
		case json.Unmarshal(lines.Bytes(), &r) != nil:
			continue
		case r.File != nil:
			title, cut = oneLine(r.File.Title, extracted.MaxHeading), oneLine(r.File.Cut, extracted.MaxNote)
		case r.Passage != nil && r.Check() == nil:
			err = emit(*r.Passage)
		}
	}
	if err = errors.Join(err, lines.Err()); err != nil {
		cancel()
	}
	switch werr := cmd.Wait(); {
	case err != nil:
		return "", "", err
	case ctx.Err() != nil:
		return "", "", fmt.Errorf("it could not be read within %s", documentTime)
	case werr != nil:
		why := strings.TrimPrefix(oneLine(said.String(), 200), "deckhand-skill: ")
		var exit *exec.ExitError
		if errors.As(werr, &exit) && exit.ExitCode() == 1 && why != "" {
			return "", "", errors.New(why)
		}
		return "", "", errors.New("its reader ran out of memory or crashed")
	}
	return title, cut, nil
}

// bounded keeps the first bytes of what is written to it.
type bounded struct {
	to   *bytes.Buffer
	left int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.to.Write(p[:n])
	b.left -= n
	return len(p), nil
}
