// Command bleve is the peer of the benchmark "knowledge": it indexes passages with Bleve,
// scored by BM25, and prints for how many questions the place that answers them is among the
// first results. It is a module of its own so that Bleve does not weigh on ours.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"github.com/blevesearch/bleve_index_api"
)

type corpus struct {
	Passages []struct {
		Path, Heading, Text string
	}
	Questions []struct{ Words, Path, Text string }
	At        int
	Rounds    int
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var in corpus
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	mapping := bleve.NewIndexMapping()
	mapping.DefaultAnalyzer = en.AnalyzerName
	mapping.ScoringModel = index.BM25Scoring
	idx, err := bleve.NewMemOnly(mapping)
	if err != nil {
		return err
	}
	batch := idx.NewBatch()
	for i, p := range in.Passages {
		if err := batch.Index(strconv.Itoa(i), map[string]string{"text": p.Path + "\n" + p.Heading + "\n" + p.Text}); err != nil {
			return err
		}
		if batch.Size() == 1000 {
			if err := idx.Batch(batch); err != nil {
				return err
			}
			batch = idx.NewBatch()
		}
	}
	if err := idx.Batch(batch); err != nil {
		return err
	}
	found := make([]bool, len(in.Questions))
	var took []time.Duration
	for round := range in.Rounds {
		for at, q := range in.Questions {
			query := bleve.NewMatchQuery(q.Words)
			query.SetField("text")
			begin := time.Now()
			res, err := idx.Search(bleve.NewSearchRequestOptions(query, in.At, 0, false))
			if err != nil {
				return err
			}
			took = append(took, time.Since(begin))
			if round > 0 {
				continue
			}
			for _, hit := range res.Hits {
				n, err := strconv.Atoi(hit.ID)
				if err != nil {
					return err
				}
				p := in.Passages[n]
				if p.Path == q.Path && strings.Contains(strings.ToLower(p.Heading+"\n"+p.Text), strings.ToLower(q.Text)) {
					found[at] = true
					break
				}
			}
		}
	}
	slices.Sort(took)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"found": found, "p95": float64(took[len(took)*95/100].Microseconds()) / 1000})
}
