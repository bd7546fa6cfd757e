// Package extracted declares what deckhand-skill writes when it reads documents for the
// knowledge base: JSON Lines, of which each is one Record. The program runs in a jail and
// its input is hostile, so that a reader of these lines trusts none of them: it checks every
// length and number with Record.Check, and what it stores is data, never an instruction.
//
// A document comes first, then its passages in order, then the next document. The last line
// is an End; a reader that misses it knows that the rest is missing.
package extracted

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Names of the skills. Neither is a tool: the hub runs the first in a jail of its own, and
// that runs the second for each document whose format is dangerous to read.
const (
	Folder   = "knowledge_extract"
	Document = "knowledge_document"
)

// Bounds of what is read and written. A document over one of them is cut or skipped, and its
// Note says so.
const (
	// MaxFile is the largest file that is read, in bytes.
	MaxFile = 16 << 20
	// MaxFiles is how many files of one source are read.
	MaxFiles = 20_000
	// MaxText is how many bytes of text are taken of one document.
	MaxText = 8 << 20
	// MaxPages is how many pages of a PDF document are read.
	MaxPages = 1000
	// MaxPassages is how many passages a document has.
	MaxPassages = 10_000
	// MaxPassage, MaxHeading and MaxPath are their lengths in bytes.
	MaxPassage = 4 << 10
	MaxHeading = 300
	MaxPath    = 1024
	MaxNote    = 300
	// MaxLine is the longest line that a reader accepts.
	MaxLine = 256 << 10
)

// Record is one line; exactly one of its fields is set.
type Record struct {
	File    *File    `json:"file,omitempty"`
	Passage *Passage `json:"passage,omitempty"`
	End     *End     `json:"end,omitempty"`
}

// File is a document, or a file that is none.
type File struct {
	// Path is below the folder that was read, with /.
	Path string `json:"path"`
	// Digest is the SHA-256 of its content in hex.
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
	// Format is markdown, html, text, code, pdf, docx or csv.
	Format string `json:"format"`
	Title  string `json:"title,omitempty"`
	// Same reports that the document has the digest that the caller knows: no passages
	// follow.
	Same bool `json:"same,omitempty"`
	// Skipped is why nothing of the file is taken; empty for a document. Cut is what is not
	// taken of a document; empty for nothing.
	Skipped string `json:"skipped,omitempty"`
	Cut     string `json:"cut,omitempty"`
}

// Passage is a part of the document before it.
type Passage struct {
	Text string `json:"text"`
	// Heading is the path of headings above it, joined by " > ", or what it defines.
	Heading string `json:"heading,omitempty"`
	// First and Last are its lines, from 1; 0 where the format has none.
	First int `json:"first,omitempty"`
	Last  int `json:"last,omitempty"`
	// Page is its page, from 1; 0 where the format has none.
	Page int `json:"page,omitempty"`
}

// End is the last line.
type End struct {
	Files    int `json:"files"`
	Passages int `json:"passages"`
	// Partial reports that the folder may have documents that were not seen. Nobody may
	// conclude that a document is gone.
	Partial bool `json:"partial,omitempty"`
	// Note says what was left out of the folder or of documents; empty for nothing.
	Note string `json:"note,omitempty"`
}

// Formats are the formats of documents.
var formats = map[string]bool{"markdown": true, "html": true, "text": true, "code": true, "pdf": true, "docx": true, "csv": true}

// Check returns an error if a record is not one that the program writes.
func (r Record) Check() error {
	set := 0
	for _, is := range []bool{r.File != nil, r.Passage != nil, r.End != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("a line has %d records", set)
	}
	switch {
	case r.File != nil:
		f := r.File
		switch {
		case !text(f.Path, MaxPath) || f.Path == "" || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, "../") || f.Path == "..":
			return fmt.Errorf("a file has the path %.100q", f.Path)
		case f.Bytes < 0 || f.Skipped == "" && (len(f.Digest) != 64 || strings.Trim(f.Digest, "0123456789abcdef") != ""):
			return fmt.Errorf("file %q has no digest", f.Path)
		case f.Skipped == "" && !formats[f.Format]:
			return fmt.Errorf("file %q has the format %.20q", f.Path, f.Format)
		case !text(f.Title, MaxHeading) || !text(f.Skipped, MaxNote) || !text(f.Cut, MaxNote):
			return fmt.Errorf("file %q has a title or a note that is too long", f.Path)
		}
	case r.Passage != nil:
		p := r.Passage
		switch {
		case !text(p.Text, MaxPassage) || strings.TrimSpace(p.Text) == "" || !text(p.Heading, MaxHeading):
			return fmt.Errorf("a passage is empty or has over %d bytes", MaxPassage)
		case p.First < 0 || p.Last < p.First || p.Page < 0 || p.Page > MaxPages || p.Last > MaxFile:
			return fmt.Errorf("a passage is in lines %d to %d of page %d", p.First, p.Last, p.Page)
		}
	default:
		if !text(r.End.Note, MaxNote) {
			return fmt.Errorf("the note at the end has over %d bytes", MaxNote)
		}
	}
	return nil
}

// text reports whether a text can be stored.
func text(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}
