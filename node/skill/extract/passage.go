package extract

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/textcut"
)

const (
	// target is how long a passage becomes: a model reads it in a moment, and a search
	// shows it whole.
	target = 1500
	// least is the length below which definitions of a source file are put together.
	least = 300
)

// piece is a line, a paragraph or a page that passages are made of.
type piece struct {
	text string
	// first and last are its lines, page its page; 0 for none.
	first, last, page int
}

// maker makes passages of the pieces of one document.
type maker struct {
	emit func(extracted.Passage) error

	heading  string
	held     []piece
	size     int
	taken    int
	passages int
	// cut says what was left out.
	cut string
	err error
}

// add takes a piece, under the current heading.
func (m *maker) add(p piece) {
	p.text = clean(p.text)
	if m.err != nil || m.cut != "" {
		return
	}
	if m.taken += len(p.text); m.taken > extracted.MaxText {
		m.cut = "only the first 8 MiB of its text are taken"
		return
	}
	if len(p.text) > target {
		m.flush()
		for part := range parts(p.text) {
			m.put(piece{part, p.first, p.last, p.page})
		}
		return
	}
	if m.size+len(p.text) > target || len(m.held) > 0 && m.held[0].page != p.page {
		m.flush()
	}
	m.held = append(m.held, p)
	m.size += len(p.text) + 1
}

// under ends the passage before and sets the heading of what follows.
func (m *maker) under(heading string) {
	m.flush()
	m.heading = oneLine(heading, extracted.MaxHeading)
}

// flush makes a passage of what is held.
func (m *maker) flush() {
	if len(m.held) == 0 {
		return
	}
	var out strings.Builder
	for i, p := range m.held {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(p.text)
	}
	m.put(piece{out.String(), m.held[0].first, m.held[len(m.held)-1].last, m.held[0].page})
	m.held, m.size = nil, 0
}

// put emits one passage.
func (m *maker) put(p piece) {
	body := strings.Trim(p.text, "\n")
	if m.err != nil || strings.TrimSpace(body) == "" {
		return
	}
	if m.passages == extracted.MaxPassages {
		m.cut = "only its first 10,000 passages are taken"
		return
	}
	m.passages++
	m.err = m.emit(extracted.Passage{Text: body, Heading: m.heading, First: p.first, Last: p.last, Page: p.page})
}

// parts returns a long text in parts of at most the target length, cut at white space where
// there is some.
func parts(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(text) > target {
			at := strings.LastIndexAny(text[:target], " \t\n")
			if at < target/2 {
				at = target
				for at > 0 && !utf8.RuneStart(text[at]) {
					at--
				}
			}
			if !yield(text[:at]) {
				return
			}
			text = text[at:]
		}
		yield(text)
	}
}

// unseen are characters that nobody sees and that change what others look like: controls,
// and marks that reverse the direction of writing.
var unseen = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2069}\x{feff}\x{e0000}-\x{e007f}]`)

// clean returns a text that can be stored and shown.
func clean(text string) string {
	return strings.TrimRight(unseen.ReplaceAllString(strings.ToValidUTF8(text, "\uFFFD"), ""), " \t\n")
}

// oneLine returns a text in one line of at most some bytes.
func oneLine(text string, most int) string {
	return textcut.Bytes(strings.Join(strings.Fields(clean(text)), " "), most, "…")
}
