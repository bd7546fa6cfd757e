// Package report builds a skill's answer: text for a model, bounded in bytes,
// in which every line cites its source. If lines do not fit, the answer says
// that some were left out.
package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultBytes is the default limit of an answer; MaxBytes and MinBytes are the
// highest and the lowest limit.
const (
	DefaultBytes = 4 << 10
	MaxBytes     = 64 << 10
	MinBytes     = 512
)

const (
	// notesPart is the part of an answer that is reserved for the notes at its
	// end, at most notesBytes.
	notesPart  = 5
	notesBytes = 320
)

// Answer is a text whose size is limited.
type Answer struct {
	max   int
	kept  int // for the notes
	limit int // of the section that is being written
	text  strings.Builder
	notes []string
	// Images are pictures that belong to it.
	Images []Image
}

// Image is a picture of an answer.
type Image struct {
	// MediaType is image/png, image/jpeg, image/gif or image/webp.
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
	// SHA256 lets a reader of the log verify that the picture is complete.
	SHA256 string `json:"sha256"`
	// ForPeople reports that the model does not get it.
	ForPeople bool `json:"for_people,omitempty"`
	// Mark is where in it the element is that the call is about: left, top, width and height
	// in pixels; nil for none.
	Mark []int32 `json:"mark,omitempty"`
}

// NewImage returns a picture with its sum.
func NewImage(mediaType string, data []byte) Image {
	sum := sha256.Sum256(data)
	return Image{MediaType: mediaType, Data: data, SHA256: hex.EncodeToString(sum[:])}
}

// Attach adds a picture.
func (a *Answer) Attach(mediaType string, data []byte) {
	a.Images = append(a.Images, NewImage(mediaType, data))
}

// New returns an empty text of at most so many bytes; 0 for DefaultBytes.
func New(maxBytes int) *Answer {
	if maxBytes == 0 {
		maxBytes = DefaultBytes
	}
	a := &Answer{max: min(max(maxBytes, MinBytes), MaxBytes)}
	a.kept = min(a.max/notesPart, notesBytes)
	a.limit = a.max - a.kept
	return a
}

// Room returns how many bytes are left for the section that is being written.
func (a *Answer) Room() int { return a.limit - a.text.Len() }

// Section gives what is written from now on a part of the room that is left,
// between 0 and 1.
func (a *Answer) Section(part float64) {
	left := a.max - a.kept - a.text.Len()
	a.limit = a.text.Len() + int(float64(left)*min(max(part, 0), 1))
}

// Begin adds a section's title and its first line, both or none of them, and
// reports whether there was room. What is written from then on is limited to a
// part of the room that was left before.
func (a *Answer) Begin(part float64, title, first string) bool {
	had := a.max - a.kept - a.text.Len()
	start := a.text.Len()
	a.Section(1)
	if !a.Line("%s", "\n"+title+"\n"+first) {
		return false
	}
	a.limit = min(a.limit, max(a.text.Len(), start+int(float64(had)*part)))
	return true
}

// Line adds a line if there is room for the whole of it, and says whether there
// was. What comes of files must have been through Clean.
func (a *Answer) Line(format string, args ...any) bool {
	line := format
	if len(args) > 0 {
		line = fmt.Sprintf(format, args...)
	}
	if len(line)+1 > a.Room() {
		return false
	}
	a.text.WriteString(line)
	a.text.WriteByte('\n')
	return true
}

// Note adds a remark to the end, as often as it is made once.
func (a *Answer) Note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	for _, have := range a.notes {
		if have == note {
			return
		}
	}
	a.notes = append(a.notes, note)
}

// String returns the text with its notes; it is never longer than asked.
func (a *Answer) String() string {
	var b strings.Builder
	b.WriteString(a.text.String())
	room := a.max - a.text.Len()
	for _, note := range a.notes {
		if len(note)+3 > room {
			if line := "[more is left unsaid]\n"; len(line) <= room {
				b.WriteString(line)
			}
			break
		}
		b.WriteString("[" + note + "]\n")
		room -= len(note) + 3
	}
	return b.String()
}

// Clean returns what bytes of a file are shown as: one line of valid UTF-8
// without control characters, at most so many bytes, with … where it was cut.
func Clean(raw []byte, maxBytes int) string {
	// Read no more than can be shown: a line may be long.
	looked := raw[:min(len(raw), 4*maxBytes+utf8.UTFMax)]
	text := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, strings.TrimRight(string(looked), " \t\r\n"))
	if len(text) <= maxBytes && len(looked) == len(raw) {
		return text
	}
	end := min(len(text), max(0, maxBytes-len("…")))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Bytes returns a size as people write it.
func Bytes(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB"}
	size, unit := float64(n), 0
	for size >= 1000 && unit < len(units)-1 {
		size, unit = size/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[unit])
}

// Count returns a number with spaces between its thousands.
func Count(n int64) string {
	digits := fmt.Sprint(n)
	if len(digits) <= 4 {
		return digits
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(d)
	}
	return b.String()
}
