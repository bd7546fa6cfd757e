// Package csvprofile summarises a CSV table of any length: its columns, the
// kind of values in each, how many are empty or distinct, the minimum, the
// maximum and the most common values, and the lines that do not fit.
package csvprofile

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are what can be asked.
type Args struct {
	Path string `json:"path"`
	// Delimiter is one character; empty to find out.
	Delimiter string `json:"delimiter"`
	// NoHeader says that the first line is data.
	NoHeader bool `json:"no_header"`
	// MaxBytes limits the answer; 0 means 4 kB.
	MaxBytes int `json:"max_bytes"`
}

const (
	maxText    = 4 << 30
	maxColumns = 500
	maxField   = 200
	// maxDistinct is how many values of a column are counted one by one.
	maxDistinct = 10_000
	maxRecord   = 4 << 20
)

// column is what is known of one.
type column struct {
	name                    string
	empty, filled           int64
	ints, floats, bools     int64
	times                   int64
	least, most, sum        float64
	shortest, longest       string // as text, in order
	counts                  map[string]int64
	crowded                 bool // more different values than are counted
	leastLine, greatestLine int64
}

// Run profiles the file.
func Run(ctx context.Context, args Args) (_ *report.Answer, read int64, err error) {
	f, err := input.Open(ctx, args.Path, maxText)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	counted := &recordReader{r: f}
	in := bufio.NewReaderSize(counted, 64<<10)
	head, _ := in.Peek(32 << 10)
	if input.Binary(head) {
		return nil, 0, fmt.Errorf("%s is binary", args.Path)
	}
	reader := csv.NewReader(in)
	reader.LazyQuotes, reader.FieldsPerRecord, reader.ReuseRecord = true, -1, true
	reader.Comma = delimiter(head)
	if args.Delimiter != "" {
		if len([]rune(args.Delimiter)) != 1 {
			return nil, 0, fmt.Errorf("delimiter %q is not one character", args.Delimiter)
		}
		reader.Comma = []rune(args.Delimiter)[0]
	}
	t := &table{out: report.New(args.MaxBytes)}
	why := t.read(ctx, reader, counted, args.NoHeader)
	if why != nil && t.rows == 0 {
		return nil, counted.n, fmt.Errorf("%s: %w", args.Path, why)
	}
	t.report(args.Path, reader.Comma, counted.n, why)
	return t.out, counted.n, nil
}

// delimiter returns the character that parts the first lines most evenly.
func delimiter(head []byte) rune {
	best, most := ',', 0
	lines := bytes.SplitN(head, []byte("\n"), 12)
	if len(lines) > 1 {
		lines = lines[:len(lines)-1]
	}
	for _, d := range []rune{',', '\t', ';', '|'} {
		first := bytes.Count(lines[0], []byte(string(d)))
		even := 0
		for _, line := range lines {
			if first > 0 && bytes.Count(line, []byte(string(d))) == first {
				even++
			}
		}
		if score := even*100 + min(first, 99); first > 0 && score > most {
			best, most = d, score
		}
	}
	return best
}

var errRecord = errors.New("a record is longer than 4 MB: a quote may not be closed")

// recordReader ends a record that does not.
type recordReader struct {
	r    io.Reader
	n    int64
	left int64
}

func (r *recordReader) Read(p []byte) (int, error) {
	if r.left < 0 {
		return 0, errRecord
	}
	n, err := r.r.Read(p)
	r.n += int64(n)
	r.left -= int64(n)
	return n, err
}

type table struct {
	out     *report.Answer
	columns []*column
	rows    int64
	uneven  int64
	unevenL int64 // the first of them
	wide    bool
}

func (t *table) read(ctx context.Context, reader *csv.Reader, in *recordReader, noHeader bool) error {
	for {
		in.left = maxRecord
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if t.columns == nil {
			t.begin(record, noHeader)
			if !noHeader {
				continue
			}
		}
		line, _ := reader.FieldPos(0)
		t.rows++
		if len(record) != len(t.columns) && !t.wide {
			if t.uneven++; t.uneven == 1 {
				t.unevenL = int64(line)
			}
		}
		for i, value := range record[:min(len(record), len(t.columns))] {
			t.columns[i].add(value, int64(line))
		}
		if t.rows%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (t *table) begin(record []string, noHeader bool) {
	if t.wide = len(record) > maxColumns; t.wide {
		record = record[:maxColumns]
	}
	t.columns = []*column{}
	for i, name := range record {
		if noHeader {
			name = fmt.Sprintf("#%d", i+1)
		}
		t.columns = append(t.columns, &column{name: strings.TrimPrefix(name, "\ufeff"), counts: map[string]int64{}, least: math.Inf(1), most: math.Inf(-1)})
	}
}

var emptyWords = map[string]bool{"": true, "null": true, "NULL": true, "NA": true, "N/A": true, "NaN": true, "nan": true, "None": true, `\N`: true}

func (c *column) add(value string, line int64) {
	value = strings.TrimSpace(value)
	if emptyWords[value] {
		c.empty++
		return
	}
	c.filled++
	if len(value) > maxField {
		value = value[:maxField]
	}
	if n, ok := c.counts[value]; ok || len(c.counts) < maxDistinct {
		if !ok {
			value = strings.Clone(value)
		}
		c.counts[value] = n + 1
	} else {
		c.crowded = true
	}
	if n, err := strconv.ParseFloat(value, 64); err == nil && !math.IsInf(n, 0) {
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			c.ints++
		} else {
			c.floats++
		}
		if n < c.least {
			c.least, c.leastLine = n, line
		}
		if n > c.most {
			c.most, c.greatestLine = n, line
		}
		c.sum += n
		return
	}
	switch strings.ToLower(value) {
	case "true", "false", "yes", "no", "t", "f", "y", "n":
		c.bools++
	}
	if isTime(value) {
		c.times++
	}
	if c.shortest == "" || value < c.shortest {
		c.shortest = strings.Clone(value)
	}
	if value > c.longest {
		c.longest = strings.Clone(value)
	}
}

func isTime(value string) bool {
	if len(value) < 8 || len(value) > 35 || value[0] < '0' || value[0] > '9' {
		return false
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02", "2006-01-02 15:04:05", "2006-01-02T15:04:05", "01/02/2006", "02.01.2006", "2006/01/02"} {
		if _, err := time.Parse(layout, value); err == nil {
			return true
		}
	}
	return false
}

// kind returns what nearly all values are, and how many are not.
func (c *column) kind() (kind string, others int64) {
	for _, k := range []struct {
		name string
		n    int64
	}{{"integer", c.ints}, {"number", c.ints + c.floats}, {"time", c.times}, {"boolean", c.bools}} {
		if c.filled > 0 && k.n*100 >= c.filled*95 {
			return k.name, c.filled - k.n
		}
	}
	return "text", 0
}

func (t *table) report(path string, comma rune, read int64, why error) {
	t.out.Line("%s: %s rows, %d columns, delimiter %q", report.Clean([]byte(path), 300), report.Count(t.rows), len(t.columns), comma)
	for i, c := range t.columns {
		if !t.out.Line("%s", c.line()) {
			t.out.Note("%d more columns are not shown", len(t.columns)-i)
			break
		}
	}
	if t.wide {
		t.out.Note("only the first %d columns are looked at", maxColumns)
	}
	if t.uneven > 0 {
		t.out.Note("%s rows have another number of fields, the first in line %d", report.Count(t.uneven), t.unevenL)
	}
	if why != nil {
		t.out.Note("stopped after %s rows: %s", report.Count(t.rows), report.Clean([]byte(why.Error()), 160))
	}
	t.out.Note("%s read", report.Bytes(read))
}

func (c *column) line() string {
	kind, others := c.kind()
	distinct := report.Count(int64(len(c.counts)))
	if c.crowded {
		distinct = "over " + distinct
	}
	text := fmt.Sprintf("- %s: %s, %s filled, %s empty, %s different", report.Clean([]byte(c.name), 80), kind,
		report.Count(c.filled), report.Count(c.empty), distinct)
	if others > 0 {
		text += fmt.Sprintf(", %s of another kind", report.Count(others))
	}
	if c.ints+c.floats > 0 && (kind == "integer" || kind == "number") {
		text += fmt.Sprintf("; %.6g (line %d) to %.6g (line %d), mean %.6g", c.least, c.leastLine, c.most, c.greatestLine, c.sum/float64(c.ints+c.floats))
	} else if c.shortest != "" {
		text += fmt.Sprintf("; %s … %s", report.Clean([]byte(c.shortest), 40), report.Clean([]byte(c.longest), 40))
	}
	type pair struct {
		value string
		n     int64
	}
	var common []pair
	for value, n := range c.counts {
		if n > 1 {
			common = append(common, pair{value, n})
		}
	}
	slices.SortFunc(common, func(a, b pair) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.value, b.value)) })
	for i, p := range common[:min(3, len(common))] {
		if text += "; most common "; i > 0 {
			text = strings.TrimSuffix(text, "; most common ") + ", "
		}
		text += fmt.Sprintf("%s %s×", report.Clean([]byte(p.value), 40), report.Count(p.n))
	}
	return text
}
