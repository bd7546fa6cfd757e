package extract

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/node/skill/outline"
)

// lines calls each with every line of a text and its number, from 1.
func lines(data []byte, each func(number int, line string)) {
	number := 0
	for line := range bytes.Lines(data) {
		number++
		each(number, strings.TrimRight(string(line), "\r\n"))
	}
}

// headings are those above a passage, by their level.
type headings [7]string

// set puts one at a level, and forgets those below.
func (h *headings) set(level int, text string) {
	h[level] = oneLine(text, extracted.MaxHeading/4)
	for i := level + 1; i < len(h); i++ {
		h[i] = ""
	}
}

// String returns the path of headings.
func (h *headings) String() string {
	var out []string
	for _, one := range h {
		if one != "" {
			out = append(out, one)
		}
	}
	return strings.Join(out, " > ")
}

var (
	atxHeading = regexp.MustCompile(`^ {0,3}(#{1,6})\s+(.+?)\s*#*\s*$`)
	fence      = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	underline  = regexp.MustCompile(`^ {0,3}(=+|-+)\s*$`)
)

// markdown makes a passage of each section, or several of a long one, cut between paragraphs.
func markdown(m *maker, data []byte) (title string) {
	var (
		above     headings
		paragraph []string
		begin     int
		open      string
		header    bool
	)
	end := func(last int) {
		if len(paragraph) > 0 {
			m.add(piece{text: strings.Join(paragraph, "\n"), first: begin, last: last})
		}
		paragraph = nil
	}
	section := func(level int, text string) {
		if title == "" {
			title = text
		}
		above.set(level, text)
		m.under(above.String())
	}
	total := 0
	lines(data, func(number int, line string) {
		total = number
		switch {
		case number == 1 && line == "---":
			header = true
			return
		case header:
			// The fields before the text of a page.
			if line == "---" || line == "..." {
				header = false
			} else if name, ok := strings.CutPrefix(line, "title:"); ok && title == "" {
				title = strings.Trim(strings.TrimSpace(name), `"'`)
			}
			return
		}
		if f := fence.FindStringSubmatch(line); f != nil {
			switch {
			case open == "":
				open = f[1]
			case strings.HasPrefix(f[1], open[:1]) && len(f[1]) >= len(open):
				open = ""
			}
		} else if open == "" {
			if h := atxHeading.FindStringSubmatch(line); h != nil {
				end(number - 1)
				section(len(h[1]), h[2])
				return
			}
			if underline.MatchString(line) && len(paragraph) == 1 && strings.TrimSpace(paragraph[0]) != "" {
				text := paragraph[0]
				paragraph = nil
				section(1+strings.Count(strings.TrimSpace(line)[:1], "-"), text)
				return
			}
			if strings.TrimSpace(line) == "" {
				end(number - 1)
				return
			}
		}
		if len(paragraph) == 0 {
			begin = number
		}
		paragraph = append(paragraph, line)
		// A block of code without an end is no reason for a passage without one.
		if len(paragraph) >= 60 {
			end(number)
		}
	})
	end(total)
	return title
}

// plain makes passages of paragraphs.
func plain(m *maker, data []byte) {
	lines(data, func(number int, line string) {
		// A long paragraph is as good a seam as a blank line.
		if strings.TrimSpace(line) == "" && m.size > target/2 {
			m.flush()
			return
		}
		m.add(piece{text: line, first: number, last: number})
	})
}

// comment is a line before a definition that belongs to it.
var comment = regexp.MustCompile(`^\s*(//|#|/\*|\*|--|;|@|"""|''')`)

// code makes a passage of each definition with the comment above it; short ones are put
// together, long ones are cut.
func code(m *maker, name string, data []byte) {
	defines := outline.Defines(name)
	var names []string
	heading := func() {
		m.heading = oneLine(strings.Join(names, "; "), extracted.MaxHeading)
	}
	finish := func() {
		heading()
		m.flush()
		names = nil
	}
	var above []piece
	put := func(p piece) {
		if m.size+len(p.text) > target && len(m.held) > 0 {
			last := names
			finish()
			// What goes on belongs to the last definition.
			if len(last) > 0 {
				names = last[len(last)-1:]
			}
		}
		heading()
		m.add(p)
	}
	lines(data, func(number int, line string) {
		p := piece{text: line, first: number, last: number}
		isComment := comment.MatchString(line)
		switch {
		case !isComment && defines.MatchString(line[:min(len(line), 1024)]):
			if m.size >= least || len(above) > 3 {
				finish()
			}
			for _, one := range above {
				put(one)
			}
			above = nil
			names = append(names, definition(line))
			put(p)
		case isComment:
			above = append(above, p)
		case strings.TrimSpace(line) == "" && m.size >= target/2 && len(above) == 0:
			last := names
			finish()
			if len(last) > 0 {
				names = last[len(last)-1:]
			}
		default:
			for _, one := range above {
				put(one)
			}
			above = nil
			put(p)
		}
	})
	for _, one := range above {
		put(one)
	}
	finish()
}

// definition returns what a line defines, without what follows.
func definition(line string) string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), " {")
	return oneLine(strings.TrimRight(line, "{:( "), 120)
}

// table makes passages of rows, each with the names of the columns.
func table(m *maker, name string, data []byte) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	if strings.EqualFold(filepath.Ext(name), ".tsv") {
		r.Comma = '\t'
	} else if head, _, _ := bytes.Cut(data, []byte("\n")); bytes.Count(head, []byte(";")) > bytes.Count(head, []byte(",")) {
		r.Comma = ';'
	}
	var columns []string
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("row at line %d: %w", parseLine(err), errors.New("it is no CSV"))
		}
		first, _ := r.FieldPos(0)
		if columns == nil {
			for _, c := range record {
				columns = append(columns, oneLine(c, 80))
			}
			continue
		}
		var fields []string
		for i, value := range record {
			if value = oneLine(value, 400); value == "" {
				continue
			}
			if i < len(columns) && columns[i] != "" {
				value = columns[i] + ": " + value
			}
			fields = append(fields, value)
		}
		last, _ := r.FieldPos(len(record) - 1)
		m.add(piece{text: strings.Join(fields, "; "), first: first, last: max(first, last)})
	}
}

func parseLine(err error) int {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return p.Line
	}
	return 0
}

// unread are elements of which no text is shown, block those that end a paragraph.
var (
	unread = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Svg: true, atom.Nav: true, atom.Iframe: true, atom.Textarea: true}
	block  = map[atom.Atom]bool{
		atom.P: true, atom.Div: true, atom.Li: true, atom.Tr: true, atom.Pre: true, atom.Br: true, atom.Section: true, atom.Article: true, atom.Blockquote: true,
		atom.Dt: true, atom.Dd: true, atom.Table: true, atom.Ul: true, atom.Ol: true, atom.Main: true, atom.Header: true, atom.Footer: true, atom.Hr: true, atom.Figcaption: true,
	}
	levels = map[atom.Atom]int{atom.H1: 1, atom.H2: 2, atom.H3: 3, atom.H4: 4, atom.H5: 5, atom.H6: 6}
)

// webPage makes passages of the paragraphs of an HTML document. It reads tokens, so that
// nesting costs nothing; text that a page hides by a style or an attribute is left out.
func webPage(m *maker, data []byte) (title string, err error) {
	z := html.NewTokenizer(bytes.NewReader(data))
	z.SetMaxBuf(4 << 20)
	var (
		above      headings
		text       strings.Builder
		line       = 1
		begin      = 1
		skip       atom.Atom
		depth      int
		inner      int
		level      int
		inTitle    bool
		whiteSpace int
	)
	end := func() {
		said := text.String()
		if whiteSpace == 0 {
			said = strings.Join(strings.Fields(said), " ")
		}
		text.Reset()
		if strings.TrimSpace(said) != "" {
			m.add(piece{text: said, first: begin, last: line})
		}
		begin = line
	}
	for {
		kind := z.Next()
		raw := z.Raw()
		if kind == html.ErrorToken {
			end()
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return title, errors.New("it is no HTML that can be read")
			}
			return title, nil
		}
		switch kind {
		case html.TextToken:
			said := html.UnescapeString(string(raw))
			switch {
			case skip != 0:
			case inTitle:
				title += said
			case text.Len() < extracted.MaxText:
				text.WriteString(said)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := atom.Lookup(name)
			hides := unread[tag]
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				style := strings.ReplaceAll(strings.ToLower(string(value)), " ", "")
				hides = hides || string(key) == "hidden" || string(key) == "aria-hidden" && style == "true" ||
					string(key) == "style" && (strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") || strings.Contains(style, "font-size:0"))
			}
			if skip != 0 && implied[skip] != nil {
				// An element that needs no end tag ends where another one begins.
				if inner == 0 && implied[skip][tag] {
					skip = 0
				} else if nested[tag] {
					inner++
				}
			}
			switch {
			case kind == html.SelfClosingTagToken:
			case skip != 0 && skip == tag:
				depth++
			case skip == 0 && hides && tag != 0 && !void[tag]:
				skip, depth, inner = tag, 1, 0
			}
			if skip == 0 || skip == tag && depth == 1 {
				switch {
				case tag == atom.Title:
					inTitle = true
				case levels[tag] > 0:
					end()
					level = levels[tag]
				case block[tag]:
					end()
				case tag == atom.Td || tag == atom.Th:
					text.WriteString(" | ")
				}
				if tag == atom.Pre {
					whiteSpace = 1
				}
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			switch {
			case skip != 0 && implied[skip] != nil:
				switch {
				case inner > 0 && nested[tag]:
					inner--
				case inner == 0 && tag == skip:
					skip = 0
				case inner == 0 && (nested[tag] || skip == atom.P && block[tag]):
					skip = 0 // what it is in ends
					end()
				}
			case skip != 0 && tag == skip:
				if depth--; depth == 0 {
					skip = 0
				}
			case skip != 0:
			case tag == atom.Title:
				inTitle = false
			case levels[tag] > 0 && level > 0:
				above.set(level, text.String())
				text.Reset()
				m.under(above.String())
				level, begin = 0, line
			case block[tag]:
				end()
				if tag == atom.Pre {
					whiteSpace = 0
				}
			}
		}
		line += bytes.Count(raw, []byte("\n"))
	}
}

// implied are elements that need no end tag, with those that end them by their begin; nested
// are those that may hold others of the kind.
var (
	implied = map[atom.Atom]map[atom.Atom]bool{
		atom.Li: {atom.Li: true},
		atom.Dt: {atom.Dt: true, atom.Dd: true}, atom.Dd: {atom.Dt: true, atom.Dd: true},
		atom.Tr: {atom.Tr: true, atom.Tbody: true, atom.Tfoot: true},
		atom.Td: {atom.Td: true, atom.Th: true, atom.Tr: true, atom.Tbody: true, atom.Tfoot: true},
		atom.Th: {atom.Td: true, atom.Th: true, atom.Tr: true, atom.Tbody: true, atom.Tfoot: true},
		atom.P: {
			atom.P: true, atom.Div: true, atom.Pre: true, atom.Section: true, atom.Article: true, atom.Aside: true, atom.Nav: true, atom.Blockquote: true,
			atom.Table: true, atom.Ul: true, atom.Ol: true, atom.Dl: true, atom.Main: true, atom.Header: true, atom.Footer: true, atom.Hr: true, atom.Form: true,
			atom.Figure: true, atom.Figcaption: true, atom.Fieldset: true, atom.Details: true, atom.Address: true, atom.Li: true, atom.Dt: true, atom.Dd: true,
			atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
		},
	}
	nested = map[atom.Atom]bool{atom.Ul: true, atom.Ol: true, atom.Dl: true, atom.Menu: true, atom.Table: true}
)

// void are elements without an end.
var void = map[atom.Atom]bool{
	atom.Area: true, atom.Base: true, atom.Br: true, atom.Col: true, atom.Embed: true, atom.Hr: true, atom.Img: true, atom.Input: true,
	atom.Link: true, atom.Meta: true, atom.Source: true, atom.Track: true, atom.Wbr: true,
}

const (
	// maxUnzipped is how much of a DOCX document's text is unzipped, and maxEntries how many
	// files it may have.
	maxUnzipped = 32 << 20
	maxEntries  = 10_000
)

// docx makes passages of the paragraphs of a DOCX document.
func docx(m *maker, data []byte) (title string, err error) {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", errors.New("it is no ZIP archive that can be read")
	}
	if len(archive.File) > maxEntries {
		return "", fmt.Errorf("it has over %d files", maxEntries)
	}
	for _, f := range archive.File {
		if f.Name != "word/document.xml" {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return "", errors.New("its text cannot be unzipped")
		}
		defer in.Close()
		bound := &io.LimitedReader{R: in, N: maxUnzipped}
		title, err = paragraphs(m, bound)
		if bound.N <= 0 {
			return title, errors.New("its text is over 32 MiB when unzipped")
		}
		return title, err
	}
	return "", errors.New("it is no DOCX document: word/document.xml is missing")
}

var headingStyle = regexp.MustCompile(`(?i)^(?:heading|.?berschrift|titre|titolo|t.tulo)\s?([1-6])$|^(title)$`)

// paragraphs reads word/document.xml.
func paragraphs(m *maker, in io.Reader) (title string, err error) {
	d := xml.NewDecoder(in)
	var (
		above  headings
		text   strings.Builder
		style  string
		inText bool
		hidden bool
		number int
	)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return title, nil
		}
		if err != nil {
			return title, errors.New("its text is damaged")
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "p":
				text.Reset()
				style = ""
			case "pStyle":
				style = attribute(t, "val")
			case "r":
				hidden = false
			case "vanish":
				hidden = attribute(t, "val") != "0" && attribute(t, "val") != "false"
			case "t":
				inText = true
			case "tab":
				text.WriteByte('\t')
			case "br", "cr":
				text.WriteByte('\n')
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				inText = false
			case "tc":
				text.WriteString(" | ")
			case "p":
				number++
				said := text.String()
				text.Reset()
				if h := headingStyle.FindStringSubmatch(style); h != nil && strings.TrimSpace(said) != "" {
					level := 1
					if h[1] != "" {
						level = int(h[1][0] - '0')
					}
					if title == "" {
						title = said
					}
					above.set(level, said)
					m.under(above.String())
					break
				}
				if strings.TrimSpace(said) != "" {
					m.add(piece{text: said, first: number, last: number})
				}
			}
		case xml.CharData:
			if inText && !hidden && text.Len() < extracted.MaxText {
				text.Write(t)
			}
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// instanceTime bounds the start of PDFium.
const instanceTime = 30 * time.Second

// pdf makes passages of the pages of a PDF document.
func pdf(ctx context.Context, m *maker, data []byte) (title string, err error) {
	// Interpreted: to compile it would take longer than to read some pages.
	features := api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling
	pool, err := webassembly.Init(webassembly.Config{
		Context: ctx, MinIdle: 1, MaxIdle: 1, MaxTotal: 1, FSConfig: wazero.NewFSConfig(),
		RuntimeConfig: wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features).WithCloseOnContextDone(true),
	})
	if err != nil {
		return "", fmt.Errorf("start PDFium: %w", err)
	}
	defer pool.Close()
	reader, err := pool.GetInstance(instanceTime)
	if err != nil {
		return "", fmt.Errorf("start PDFium: %w", err)
	}
	doc, err := reader.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		return "", errors.New("it is damaged, or protected by a password")
	}
	count, err := reader.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: doc.Document})
	if err != nil {
		return "", errors.New("its pages cannot be counted")
	}
	if meta, err := reader.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: doc.Document, Tag: "Title"}); err == nil {
		title = meta.Value
	}
	for i := range min(count.PageCount, extracted.MaxPages) {
		page, err := reader.GetPageText(&requests.GetPageText{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: doc.Document, Index: i}}})
		if err != nil {
			continue // the others may be read
		}
		m.flush()
		for line := range strings.Lines(page.Text) {
			m.add(piece{text: line, page: i + 1})
		}
	}
	return title, nil
}
