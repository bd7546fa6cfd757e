// Package jsonquery runs a jq query over JSON of any length: one value, or a
// sequence of values as in JSON Lines. Each result names the input value that
// it comes from and the line on which that value begins.
package jsonquery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are what can be asked.
type Args struct {
	Path string `json:"path"`
	// Query is in the language of jq.
	Query string `json:"query"`
	// MaxBytes limits the answer; 0 means 4 kB.
	MaxBytes int `json:"max_bytes"`
}

const (
	maxText  = 4 << 30
	maxValue = 16 << 20 // of one value's text: in memory it is many times that
	maxShown = 2000     // bytes of one result
)

// Run runs the query over each value of the file.
func Run(ctx context.Context, args Args) (_ *report.Answer, read int64, err error) {
	parsed, err := gojq.Parse(args.Query)
	if err != nil {
		return nil, 0, fmt.Errorf("query: %w", err)
	}
	// Without its environment and without modules: it asks about the file only.
	code, err := gojq.Compile(parsed, gojq.WithEnvironLoader(func() []string { return nil }))
	if err != nil {
		return nil, 0, fmt.Errorf("query: %w", err)
	}
	f, err := input.Open(ctx, args.Path, maxText)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	in := &valueReader{r: f}
	decoder := json.NewDecoder(in)
	decoder.UseNumber()
	q := &query{out: report.New(args.MaxBytes), code: code}
	for {
		in.left = maxValue
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if q.values == 0 {
				return nil, in.read, broken(args.Path, in, err)
			}
			q.out.Note("stopped: %v", broken(args.Path, in, err))
			break
		}
		q.values++
		q.line = in.lineAt(decoder.InputOffset(), value)
		if err := q.run(ctx, value); err != nil {
			return nil, in.read, err
		}
		if ctx.Err() != nil {
			q.out.Note("stopped after %s, because the time of the call was over", report.Bytes(in.read))
			break
		}
	}
	q.end(in.read)
	return q.out, in.read, nil
}

func broken(path string, in *valueReader, err error) error {
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Errorf("%s: a value is longer than %s, which is more than a query can keep in memory", path, report.Bytes(maxValue))
	case errors.Is(err, input.ErrTooMuch), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%s is not JSON at about line %d: %w", path, in.lines+1, err)
}

// query is a call in progress.
type query struct {
	out    *report.Answer
	code   *gojq.Code
	values int64
	line   int64

	results, unsaid, failed int64
}

// run returns what the query makes of one value.
func (q *query) run(ctx context.Context, value any) error {
	iter := q.code.RunWithContext(ctx, value)
	for {
		got, ok := iter.Next()
		if !ok || ctx.Err() != nil {
			return nil
		}
		if err, ok := got.(error); ok {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil
			}
			// Values are not all alike: one that does not fit is counted.
			if q.failed++; q.failed == 1 {
				q.out.Note("error at value %d (line %d): %s", q.values, q.line, report.Clean([]byte(err.Error()), 160))
			}
			return nil
		}
		q.results++
		text, err := gojq.Marshal(got)
		if err != nil {
			return fmt.Errorf("encode a result: %w", err)
		}
		if q.unsaid > 0 || !q.out.Line("%d: %s", q.line, report.Clean(text, maxShown)) {
			q.unsaid++
		}
	}
}

func (q *query) end(read int64) {
	if q.results == 0 {
		q.out.Line("no results")
	}
	if q.unsaid > 0 {
		q.out.Note("%s of %s results are not shown: narrow the query, or count with length, group_by or reduce",
			report.Count(q.unsaid), report.Count(q.results))
	}
	if q.failed > 0 {
		q.out.Note("%s values had an error", report.Count(q.failed))
	}
	q.out.Note("each line begins with the line of the file in which its value ends; %s values, %s read", report.Count(q.values), report.Bytes(read))
}

var errTooLarge = errors.New("value too large")

// valueReader counts lines, and ends the reading of a value that is too large.
type valueReader struct {
	r     io.Reader
	left  int64
	read  int64
	lines int64
	// ends are where the newest lines end, to find the line of an offset.
	ends []int64
	base int64 // number of the line that ends at ends[0]
}

// maxEnds is more lines than a decoder reads ahead.
const maxEnds = 1 << 16

func (v *valueReader) Read(p []byte) (int, error) {
	if v.left <= 0 {
		return 0, errTooLarge
	}
	n, err := v.r.Read(p[:min(int64(len(p)), v.left)])
	for i, c := range p[:n] {
		if c == '\n' {
			v.lines++
			v.ends = append(v.ends, v.read+int64(i))
		}
	}
	if len(v.ends) > 2*maxEnds {
		drop := len(v.ends) - maxEnds
		v.base += int64(drop)
		v.ends = append(v.ends[:0], v.ends[drop:]...)
	}
	v.left -= int64(n)
	v.read += int64(n)
	return n, err
}

// lineAt returns the line that an offset is in, from 1.
func (v *valueReader) lineAt(offset int64, _ any) int64 {
	drop := 0
	for drop < len(v.ends) && v.ends[drop] < offset {
		drop++
	}
	v.base += int64(drop)
	v.ends = v.ends[drop:]
	return v.base + 1
}
