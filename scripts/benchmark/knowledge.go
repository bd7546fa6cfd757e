package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/node/skill/extract"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	// knownPassages is how many passages are indexed, and answersAt among how many results
	// the place that answers a question must be.
	knownPassages   = 50_000
	answersAt       = 10
	knowledgeRounds = 3
)

// labelled is one of scripts/benchmark/knowledge/questions.tsv, with the place that answers
// it: a passage of a file that has a text.
type labelled struct {
	Words string `json:"words"`
	Path  string `json:"path"`
	Text  string `json:"text"`
}

// answers reports whether a passage is the place.
func (q labelled) answers(path, text string) bool {
	return path == q.Path && strings.Contains(strings.ToLower(text), strings.ToLower(q.Text))
}

// indexed is a passage of the corpus.
type indexed struct {
	Path    string `json:"path"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

// known measures the search in the knowledge base over 50,000 passages of the documentation
// of this project and of Go's standard library: how long it takes, and for how many of 200
// questions the place that answers them is among the first ten results, compared with
// Bleve's BM25 on the same passages.
func known(ctx context.Context) (result, error) {
	questions, err := readQuestions("scripts/benchmark/knowledge/questions.tsv")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "knowledge")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	records, passages, err := readCorpus(ctx, dir)
	if err != nil {
		return nil, err
	}
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	took, err := indexAll(ctx, s, records)
	if err != nil {
		return nil, err
	}
	out := result{"unit": "ms, p95", "passages": len(passages), "questions": len(questions), "index_s": took.Seconds()}
	var each []time.Duration
	found, missed := make([]bool, len(questions)), []string{}
	for round := range knowledgeRounds {
		for at, q := range questions {
			begin := time.Now()
			res, err := s.client.Knowledge.SearchKnowledge(ctx, &deckhandv1.SearchKnowledgeRequest{Query: q.Words, Limit: answersAt})
			if err != nil {
				return nil, fmt.Errorf("search for %q: %w", q.Words, err)
			}
			each = append(each, time.Since(begin))
			if round > 0 {
				continue
			}
			if slices.ContainsFunc(res.GetPassages(), func(p *deckhandv1.Passage) bool { return q.answers(p.GetPath(), p.GetHeading()+"\n"+p.GetText()) }) {
				found[at] = true
			} else {
				missed = append(missed, q.Words+" ("+q.Path+")")
			}
		}
	}
	slices.Sort(each)
	out["ours"], out["ours_p50"], out["n"] = percentile(each, 95), percentile(each, 50), len(each)
	out["recall_at_10"], out["recall_tuned"], out["recall_held_out"] = recall(found)
	peer, err := bleve(ctx, dir, passages, questions)
	if err != nil {
		return nil, err
	}
	out["peer"], out["peer_name"] = peer.P95, "Bleve, BM25, English, in memory"
	out["peer_recall_at_10"], out["peer_recall_tuned"], out["peer_recall_held_out"] = recall(peer.Found)
	out["ratio"] = percentile(each, 95) / peer.P95
	if os.Getenv("MISSED") != "" {
		fmt.Fprintln(os.Stderr, strings.Join(missed, "\n"))
	}
	return out, nil
}

// recall returns the part of questions whose answers were found: of all, of those with an even
// index, on which alone the search may be tuned, and of the others.
func recall(found []bool) (all, even, odd float64) {
	var n, of [2]float64
	for i, yes := range found {
		of[i%2]++
		if yes {
			n[i%2]++
		}
	}
	return (n[0] + n[1]) / (of[0] + of[1]), n[0] / of[0], n[1] / of[1]
}

func readQuestions(path string) (out []labelled, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s: a line has %d fields", path, len(fields))
		}
		out = append(out, labelled{fields[0], fields[1], fields[2]})
	}
	return out, nil
}

// readCorpus reads the documents as a sync does: those of this project first, then Go's library,
// its tests last, until there are enough passages.
func readCorpus(ctx context.Context, dir string) (records []byte, passages []indexed, err error) {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	var later [][]byte
	files := 0
	for _, from := range []struct{ root, prefix string }{{"docs", "docs/"}, {filepath.Join(strings.TrimSpace(string(goroot)), "src"), ""}} {
		file := filepath.Join(dir, fmt.Sprintf("%d.jsonl", len(from.prefix)))
		if _, _, err := extract.Run(ctx, extract.Args{Path: from.root, Out: file}); err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", from.root, err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		for _, one := range documentsIn(data, from.prefix) {
			if name := one[0].File.Path; strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "cmd/") || strings.Contains(name, "testdata/") || strings.Contains(name, "vendor/") {
				later = append(later, encode(one))
				continue
			}
			files++
			out.Write(encode(one))
			passages = append(passages, passagesOf(one)...)
		}
	}
	for _, data := range later {
		if len(passages) >= knownPassages {
			break
		}
		files++
		out.Write(data)
		passages = append(passages, passagesOf(documentsIn(data, "")[0])...)
	}
	out.Write(encode([]extracted.Record{{End: &extracted.End{Files: files}}}))
	return out.Bytes(), passages, nil
}

// documentsIn returns the records of each document that was read.
func documentsIn(data []byte, prefix string) (out [][]extracted.Record) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, extracted.MaxLine)
	for lines.Scan() {
		var r extracted.Record
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.End != nil {
			continue
		}
		if r.File != nil {
			r.File.Path = prefix + r.File.Path
			out = append(out, []extracted.Record{r})
			continue
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return slices.DeleteFunc(out, func(one []extracted.Record) bool { return one[0].File.Skipped != "" })
}

func encode(records []extracted.Record) (out []byte) {
	for _, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			panic(err) // they were decoded from JSON
		}
		out = append(append(out, data...), '\n')
	}
	return out
}

func passagesOf(document []extracted.Record) (out []indexed) {
	for _, r := range document[1:] {
		out = append(out, indexed{document[0].File.Path, r.Passage.Heading, r.Passage.Text})
	}
	return out
}

// indexAll stores the documents in a collection of the organisation, and returns how long that
// took.
func indexAll(ctx context.Context, s *stack, records []byte) (time.Duration, error) {
	made, err := s.client.Knowledge.CreateCollection(ctx, &deckhandv1.CreateCollectionRequest{
		Name: "known", Scope: &deckhandv1.Scope{Kind: deckhandv1.ScopeKind_SCOPE_KIND_ORGANISATION},
	})
	if err != nil {
		return 0, err
	}
	id := made.GetCollection().GetId()
	added, err := s.client.Knowledge.AddSource(ctx, &deckhandv1.AddSourceRequest{
		CollectionId: id, Source: &deckhandv1.KnowledgeSource{Kind: deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_UPLOAD},
	})
	if err != nil {
		return 0, err
	}
	database, err := store.Open(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return 0, err
	}
	defer database.Close()
	begin := time.Now()
	// Not as uploads, of which those without a file are left out.
	err = knowledge.New(knowledge.Config{Store: database, Redact: &redact.Redactor{}}).Load(ctx, db.KnowledgeSource{
		ID: added.GetSource().GetId(), OrgID: "org_default", CollectionID: id, Kind: knowledge.Git,
	}, bytes.NewReader(records))
	if err != nil {
		return 0, err
	}
	took := time.Since(begin)
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it is over
	_, err = conn.Exec(ctx, "VACUUM (ANALYZE) knowledge_passages, knowledge_words, knowledge_documents")
	return took, err
}

// bleveFigures is what the peer prints.
type bleveFigures struct {
	// Found says for each question whether the place that answers it was found.
	Found []bool  `json:"found"`
	P95   float64 `json:"p95"`
}

// bleve runs the peer, which is in a module of its own, on the same passages.
func bleve(ctx context.Context, dir string, passages []indexed, questions []labelled) (figures bleveFigures, err error) {
	data, err := json.Marshal(map[string]any{"passages": passages, "questions": questions, "at": answersAt, "rounds": knowledgeRounds})
	if err != nil {
		return figures, err
	}
	file := filepath.Join(dir, "corpus.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return figures, err
	}
	//nolint:gosec // a fixed program
	cmd := exec.CommandContext(ctx, "go", "run", "-C", "scripts/benchmark/bleve", ".", file)
	cmd.Stderr = os.Stderr
	runtime.GC() // it shares the machine
	out, err := cmd.Output()
	if err != nil {
		return figures, fmt.Errorf("run Bleve: %w", err)
	}
	return figures, json.Unmarshal(out, &figures)
}
