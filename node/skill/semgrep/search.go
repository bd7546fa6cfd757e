// Package semgrep searches a tree of files with a question in words and returns
// a few passages with file and line, the best first. There is no index; every
// file is read once. Words are matched by their stems and inside identifiers.
// Passages are ranked by BM25 (Robertson and Zaragoza, "The Probabilistic
// Relevance Framework", 2009), with extra weight for names of definitions and
// of files; a passage that contains more of the question's words ranks before
// one that repeats a few of them.
package semgrep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/deckhand-sh/deckhand/node/skill/input"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// Args are what can be asked.
type Args struct {
	// Query is a question in words, or identifiers.
	Query string `json:"query"`
	// Path is the tree; empty for the working folder.
	Path string `json:"path"`
	// Include keeps only files whose name matches the pattern, such as *.go.
	Include string `json:"include"`
	// Results is how many places are wanted at most; 0 for 8.
	Results int `json:"results"`
	// MaxBytes limits the answer; 0 means 4 kB.
	MaxBytes int `json:"max_bytes"`
}

const (
	defaultResults = 8
	maxResults     = 40
	// maxFile is how much of a file is read.
	maxFile = 4 << 20
	// keep is how many passages each reader keeps when it has too many.
	keep    = 1 << 13
	tooMany = 1 << 16
	perFile = 3
)

// search is a call.
type search struct {
	args  Args
	terms []term

	files                                      []input.Entry
	read, binary, generated, unreadable, large atomic.Int64
}

// Run searches; read is how many bytes were read.
func Run(ctx context.Context, args Args) (_ *report.Answer, read int64, err error) {
	if args.Path == "" {
		args.Path = "."
	}
	if args.Results == 0 {
		args.Results = defaultResults
	}
	args.Results = min(args.Results, maxResults)
	s := &search{args: args, terms: terms(args.Query)}
	if len(s.terms) == 0 {
		return nil, 0, errors.New("query has no words: describe what to find, in words or identifiers")
	}
	if _, err := filepath.Match(args.Include, ""); err != nil {
		return nil, 0, fmt.Errorf("include %q is not a pattern: write it like *.go", args.Include)
	}
	tree, scanners, err := s.scan(ctx)
	if err != nil {
		return nil, s.read.Load(), err
	}
	ranked := s.rank(scanners)
	out := report.New(args.MaxBytes)
	s.report(out, ranked, tree)
	return out, s.read.Load(), nil
}

// scan reads the tree with all processors.
func (s *search) scan(ctx context.Context) (*input.Tree, []*scanner, error) {
	type job struct {
		id    int32
		entry input.Entry
	}
	jobs := make(chan job, 256)
	scanners := make([]*scanner, max(1, runtime.GOMAXPROCS(0)))
	var wg sync.WaitGroup
	for i := range scanners {
		sc := &scanner{m: newMatcher(s.terms)}
		scanners[i] = sc
		wg.Go(func() {
			buf := make([]byte, 0, 64<<10)
			for j := range jobs {
				if ctx.Err() == nil {
					buf = s.file(sc, j.id, j.entry, buf)
				}
			}
		})
	}
	tree := &input.Tree{Root: s.args.Path}
	tree.Each = func(e input.Entry) error {
		if s.args.Include != "" {
			if ok, _ := filepath.Match(s.args.Include, filepath.Base(e.Rel)); !ok {
				return nil
			}
		}
		id := int32(len(s.files))
		s.files = append(s.files, e)
		jobs <- job{id, e}
		return nil
	}
	err := tree.Walk(ctx)
	close(jobs)
	wg.Wait()
	if err == nil && ctx.Err() != nil {
		tree.Stopped = "the time of the call was over before all files were read: name a folder further down"
	}
	return tree, scanners, err
}

var proseNames = map[string]bool{".md": true, ".txt": true, ".rst": true, ".adoc": true, ".html": true, "": true}

var cNames = map[string]bool{
	".c": true, ".h": true, ".cc": true, ".cpp": true, ".hpp": true, ".cxx": true, ".java": true, ".cs": true, ".m": true, ".s": true,
}

// never are files that tools write and people do not read.
var never = map[string]bool{
	"go.sum": true, "package-lock.json": true, "yarn.lock": true, "pnpm-lock.yaml": true, "Cargo.lock": true, "poetry.lock": true,
	"composer.lock": true, "Gemfile.lock": true, "tags": true, "TAGS": true,
}

// file reads one file and has it scanned; it returns its buffer.
func (s *search) file(sc *scanner, id int32, e input.Entry, buf []byte) []byte {
	name := filepath.Base(e.Rel)
	if never[name] || strings.Contains(name, ".min.") || e.Info.Size() == 0 {
		s.generated.Add(1)
		return buf
	}
	f, err := os.OpenFile(e.Path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		s.unreadable.Add(1)
		return buf
	}
	defer f.Close()
	size := int(min(e.Info.Size(), maxFile))
	if e.Info.Size() > maxFile {
		s.large.Add(1)
	}
	buf = slices.Grow(buf[:0], size)[:size]
	head := min(size, 8<<10)
	n, err := io.ReadFull(f, buf[:head])
	if err != nil && n == 0 {
		s.unreadable.Add(1)
		return buf
	}
	switch {
	case input.Binary(buf[:n]):
		s.binary.Add(1)
		return buf
	case input.Generated(buf[:n]):
		s.generated.Add(1)
		return buf
	}
	if n == head && size > head {
		more, _ := io.ReadFull(f, buf[head:])
		n += more
	}
	s.read.Add(int64(n))
	ext := strings.ToLower(filepath.Ext(name))
	sc.file, sc.cFamily, sc.prose = id, cNames[ext], proseNames[ext] && ext != ""
	sc.scan(buf[:n])
	if len(sc.found) > tooMany {
		sc.found = sc.best(sc.found, keep)
	}
	return buf
}

// best returns the passages with the most of the question, by what is known of
// its words so far.
func (s *scanner) best(of []passage, n int) []passage {
	idf := idfOf(s.df, s.passages)
	quick := func(p *passage) (sum float64) {
		for i := range s.m.terms {
			if p.tf[i] > 0 {
				sum += idf[i] * (1 + 2*float64(p.name[i]))
			}
		}
		return sum
	}
	slices.SortFunc(of, func(a, b passage) int { return cmp.Compare(quick(&b), quick(&a)) })
	return of[:min(n, len(of))]
}

func idfOf(df [maxTerms]int64, passages int64) (idf [maxTerms]float64) {
	for i, n := range df {
		idf[i] = math.Log(1 + (float64(passages)-float64(n)+0.5)/(float64(n)+0.5))
	}
	return idf
}

// result is a passage with its rank.
type result struct {
	passage
	score float64
}

const (
	k1 = 1.2
	b  = 0.6
)

// rank returns the passages, the best first.
func (s *search) rank(scanners []*scanner) []result {
	var df [maxTerms]int64
	var passages, words int64
	for _, sc := range scanners {
		for i, n := range sc.df {
			df[i] += n
		}
		passages += sc.passages
		words += sc.wordsSum
	}
	idf := idfOf(df, passages)
	average := float64(words) / float64(max(1, passages))
	all := 0.0
	for i := range s.terms {
		all += idf[i]
	}
	m := newMatcher(s.terms)
	paths := map[int32][2][maxTerms]float32{}
	var out []result
	for _, sc := range scanners {
		for _, p := range sc.found {
			in, ok := paths[p.file]
			if !ok {
				in = m.path(s.files[p.file].Rel)
				paths[p.file] = in
			}
			out = append(out, result{p, score(&p, in, idf, average, all, len(s.terms)) * s.worth(s.files[p.file].Rel)})
		}
	}
	slices.SortFunc(out, func(a, b result) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(s.files[a.file].Rel, s.files[b.file].Rel), cmp.Compare(a.start, b.start))
	})
	return out
}

// path returns which words of the question are in a file's name, and in the
// folders above.
func (m *matcher) path(rel string) (in [2][maxTerms]float32) {
	for i, part := range []string{filepath.Base(rel), filepath.Dir(rel)} {
		for _, w := range subwords(part) {
			for _, h := range m.of([]byte(w)) {
				in[i][h.term] = max(in[i][h.term], h.weight)
			}
		}
	}
	return in
}

func score(p *passage, path [2][maxTerms]float32, idf [maxTerms]float64, average, all float64, terms int) float64 {
	length := 1 - b + b*float64(p.words)/average
	sum, covered := 0.0, 0.0
	for i := range terms {
		tf := float64(p.tf[i])/length + 3*float64(p.name[i]) + 1.5*float64(path[0][i]) + 0.75*float64(path[1][i])
		if tf == 0 {
			continue
		}
		sum += idf[i] * tf * (k1 + 1) / (tf + k1)
		// A form that is only related to the word covers it in part.
		best := max(float64(min(p.tf[i], 1)), float64(p.name[i]), 0.8*float64(path[0][i]), 0.6*float64(path[1][i]))
		covered += idf[i] * min(1, best)
	}
	share := covered / max(all, 1e-9)
	return sum * (0.2 + 0.8*share*share) * (1 + 0.25*min(2, float64(p.named)))
}

// worth is less than 1 for files that rarely are the place.
func (s *search) worth(rel string) float64 {
	low := "/" + strings.ToLower(filepath.ToSlash(rel))
	worth := 1.0
	for _, m := range []struct {
		part string
		by   float64
	}{
		{"_test.", 0.55}, {"/test/", 0.6}, {"/tests/", 0.6}, {"/testdata/", 0.4}, {".test.", 0.55}, {".spec.", 0.55}, {"/vendor/", 0.5},
		{"/third_party/", 0.5}, {"/example", 0.8}, {"/fixtures/", 0.4}, {"changelog", 0.6}, {"/api/go1", 0.3}, {".txt", 0.8}, {".html", 0.8},
		{"/internal/", 0.95}, {"/cmd/", 0.9},
	} {
		if strings.Contains(low, m.part) && !strings.Contains(strings.ToLower(s.args.Query), strings.Trim(m.part, "/_.")) {
			worth *= m.by
		}
	}
	return worth
}
