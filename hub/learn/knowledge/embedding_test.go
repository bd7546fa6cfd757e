package knowledge_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/model/budget"
	"github.com/deckhand-sh/deckhand/hub/model/credential"
	"github.com/deckhand-sh/deckhand/hub/model/inference"
	"github.com/deckhand-sh/deckhand/hub/model/inference/inferencetest"
	"github.com/deckhand-sh/deckhand/hub/model/price"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// library is a knowledge base whose passages a test server embeds.
type library struct {
	*tasktest.Fixture
	*knowledge.Knowledge

	server *inferencetest.Server
	ledger *budget.Ledger
	mask   *redact.Redactor
}

func newLibrary(t *testing.T) library {
	f, server, mask := tasktest.New(t), inferencetest.New(t), &redact.Redactor{}
	f.User("ann", "admin")
	f.User("bob", "basic")
	ledger := budget.New(budget.Config{
		Store: f.Store, Recorder: f.Recorder, MaxCall: time.Minute,
		Cap: func(context.Context, string, string, int32, json.RawMessage) (int64, error) { return 0, nil },
	})
	t.Cleanup(ledger.Wait)
	models := inference.New(inference.Config{
		Usable: func(context.Context, string, string, string) error { return nil },
		Price: func(context.Context, string, string, string) (price.Model, error) {
			return price.Model{Input: 1_000_000}, nil // a dollar for each token
		},
		Access:  func(context.Context, string, string) (credential.Access, error) { return server.Access(), nil },
		Refused: func(context.Context, string, credential.Access) error { return nil },
		Turn:    func(context.Context, string, string) error { return nil },
		Reserve: ledger.Reserve, Settle: ledger.Settle, Redact: mask,
	})
	t.Cleanup(models.Close)
	l := library{f, knowledge.New(knowledge.Config{Store: f.Store, Recorder: f.Recorder, Redact: mask, Models: models, Log: hclog.NewNullLogger()}), server, ledger, mask}
	l.limit(1_000_000)
	return l
}

// limit sets the organisation's budget, in dollars.
func (l library) limit(dollars int64) {
	for _, every := range []budget.Every{budget.Day, budget.Month} {
		micros := dollars * 1_000_000
		_, err := l.ledger.Set(l.T.Context(), tasktest.Org, budget.Name{Scope: budget.Organisation, ObjectID: tasktest.Org, Every: every}, &micros, tasktest.By("ann"))
		require.NoError(l.T, err)
	}
}

func (l library) spent() int64 {
	b, err := l.ledger.Get(l.T.Context(), tasktest.Org, budget.Name{Scope: budget.Organisation, ObjectID: tasktest.Org, Every: budget.Day})
	require.NoError(l.T, err)
	require.Zero(l.T, b.Reserved)
	return b.Spent / 1_000_000
}

// put stores documents of one passage each in a source of a collection of somebody's own, and
// returns the source.
func (l library) put(who, name string, documents map[string]string) (source string) {
	t := l.T
	v := visibility.As(tasktest.Org, who, "admin")
	id, err := l.Find(t.Context(), v, name)
	if err != nil {
		id, err = l.Create(t.Context(), v, scope.Scope{Kind: scope.User}, name, "", tasktest.By(who))
		require.NoError(t, err)
	}
	_, source, err = l.Add(t.Context(), v, id, knowledge.Source{Kind: knowledge.Web, URL: "https://example.com/" + name}, "admin", tasktest.By(who))
	require.NoError(t, err)
	l.load(id, source, knowledge.Web, documents)
	return source
}

func (l library) load(collection, source, kind string, documents map[string]string) {
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	for path, text := range documents {
		require.NoError(l.T, w.Encode(extracted.Record{File: &extracted.File{Path: path, Digest: digestOf(text), Bytes: int64(len(text)), Format: "text"}}))
		require.NoError(l.T, w.Encode(extracted.Record{Passage: &extracted.Passage{Text: text, First: 1, Last: 1}}))
	}
	require.NoError(l.T, w.Encode(extracted.Record{End: &extracted.End{}}))
	require.NoError(l.T, l.Load(l.T.Context(), db.KnowledgeSource{ID: source, OrgID: tasktest.Org, CollectionID: collection, Kind: kind}, &out))
}

// embed has everything embedded with a model.
func (l library) embed(model string, dimensions int32) knowledge.Embedding {
	require.NoError(l.T, l.named(model, dimensions))
	return l.again()
}

// named sets the model.
func (l library) named(model string, dimensions int32) error {
	_, err := l.Embeddings.Set(l.T.Context(), inference.Model{OrgID: tasktest.Org, Provider: "compatible", Name: model}, dimensions, tasktest.By("ann"))
	return err
}

// again embeds what is due now.
func (l library) again() knowledge.Embedding {
	l.Exec("UPDATE knowledge_embeddings SET next_at = now()")
	require.NoError(l.T, l.Embeddings.Embed(l.T.Context()))
	e, err := l.Embeddings.Get(l.T.Context(), tasktest.Org)
	require.NoError(l.T, err)
	return e
}

func (l library) search(who, text string) (paths []string, found knowledge.Found) {
	found, err := l.Search(l.T.Context(), visibility.As(tasktest.Org, who, "basic"), knowledge.Query{Text: text, Limit: 5})
	require.NoError(l.T, err)
	for _, h := range found.Hits {
		paths = append(paths, h.Path)
	}
	return paths, found
}

func (l library) vectors() (n int) {
	require.NoError(l.T, l.SQL.QueryRow(l.T.Context(), "SELECT count(*) FROM knowledge_vectors WHERE cardinality(vector) > 0").Scan(&n))
	return n
}

// What nobody has written in these words is found by meaning, beside what is found by words, and
// only by those who may read it. What is removed leaves no vector.
func TestPassagesAreFoundByMeaning(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.mask.Org(tasktest.Org).Learn("test", "blackbird-secret-value")
	source := l.put("ann", "garage", map[string]string{
		"vehicles.md": "Every automobile is parked in the basement", "kitchen.md": "Plates are washed blackbird-secret-value", "roof.md": "A car park on the roof",
	})
	l.put("bob", "bobs", map[string]string{"bob.md": "Every automobile of bob"})
	before, _ := l.search("ann", "car")
	require.Equal(t, []string{"roof.md"}, before, "by words only")
	require.Zero(t, l.server.Calls(), "nothing is sent before an administrator has named a model")

	e := l.embed("test-embedding", 0)
	require.Equal(t, knowledge.Embedding{KnowledgeEmbedding: e.KnowledgeEmbedding, KnowledgeVectorTotalsRow: db.KnowledgeVectorTotalsRow{Passages: 4, Embedded: 4}}, e)
	require.EqualValues(t, 64, e.Size)
	for _, text := range l.server.Texts() {
		require.NotContains(t, text, "blackbird-secret-value")
	}
	after, found := l.search("ann", "car")
	require.Equal(t, "roof.md", after[0], "both found it")
	require.ElementsMatch(t, []string{knowledge.ByWords, knowledge.ByMeaning}, found.Hits[0].FoundBy)
	require.Equal(t, "vehicles.md", after[1])
	require.Equal(t, []string{knowledge.ByMeaning}, found.Hits[1].FoundBy)
	require.NotContains(t, after, "bob.md")
	bobs, _ := l.search("bob", "car")
	require.Equal(t, []string{"bob.md"}, bobs)

	// A document that is read again is embedded again, and the others are not.
	l.server.Texts()
	l.put("ann", "garage", map[string]string{
		"vehicles.md": "Every automobile is parked elsewhere", "kitchen.md": "Plates are washed blackbird-secret-value", "roof.md": "A car park on the roof",
	})
	l.again()
	require.Equal(t, 4, l.vectors())
	_, found = l.search("ann", "vehicle")
	require.Equal(t, "Every automobile is parked elsewhere", found.Hits[0].Body)

	require.NoError(t, l.Remove(t.Context(), visibility.As(tasktest.Org, "ann", "admin"), "garage", source, tasktest.By("ann")))
	require.Equal(t, 1, l.vectors(), "that of bob")
	gone, _ := l.search("ann", "car")
	require.Empty(t, gone)
	e, err := l.Embeddings.Set(t.Context(), inference.Model{OrgID: tasktest.Org}, 0, tasktest.By("ann"))
	require.NoError(t, err)
	require.Empty(t, e.Provider)
	require.Zero(t, l.vectors())
}

// A call is reserved in the budget before it is made: where that is spent, nothing is sent, and
// it goes on when it is raised.
func TestEmbeddingsDrawOnTheBudget(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.put("ann", "docs", map[string]string{"one.md": "one two three", "two.md": "four five six"})
	require.NoError(t, l.named("test-embedding", 0))
	require.Equal(t, 1, l.server.Calls(), "the model is tried")
	l.limit(0)
	e := l.again()
	require.Contains(t, e.Error, "budget")
	require.Equal(t, 1, l.server.Calls())
	require.Zero(t, l.vectors())
	l.limit(1_000_000)
	e = l.again()
	require.Empty(t, e.Error)
	require.Equal(t, 2, l.vectors())
	require.EqualValues(t, 6, l.spent(), "what the server has reported, a dollar for each word")
	_, found := l.search("ann", "seven")
	require.Empty(t, found.Note)
	require.EqualValues(t, 7, l.spent(), "and the question")
	report, err := l.ledger.Report(t.Context(), budget.Asked{OrgID: tasktest.Org, By: "agent", Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.Len(t, report.Rows, 1)
	require.Equal(t, "(hub)", report.Rows[0].Key)
	require.EqualValues(t, 3, report.Rows[0].Calls)
	require.Zero(t, report.Rows[0].Tasks)
	l.limit(0)
	_, found = l.search("ann", "seven one")
	require.Contains(t, found.Note, "searched by words only")
	require.Equal(t, "one.md", found.Hits[0].Path)
}

// With another model, or vectors of another size, everything is embedded again.
func TestAnotherModelEmbedsEverythingAgain(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.put("ann", "docs", map[string]string{"one.md": "one", "two.md": "two"})
	require.EqualValues(t, 64, l.embed("test-embedding", 0).Size)
	require.EqualValues(t, 32, l.embed("test-embedding", 32).Size)
	sizes := func() (least, most int) {
		require.NoError(t, l.SQL.QueryRow(t.Context(), "SELECT min(cardinality(vector)), max(cardinality(vector)) FROM knowledge_vectors").Scan(&least, &most))
		return least, most
	}
	least, most := sizes()
	require.Equal(t, [2]int{32, 32}, [2]int{least, most})
	// The provider has another model under that name now.
	require.EqualValues(t, 64, l.embed("other", 0).Size)
	calls := l.server.Calls()
	l.server.Resize(16)
	_, _ = l.search("ann", "one")
	require.Equal(t, 2, l.vectors(), "a question deletes nothing")
	l.server.Resize(64)
	require.Empty(t, l.again().Error)
	require.Equal(t, calls+2, l.server.Calls(), "the pass has looked, and nothing was embedded again")
	l.server.Resize(16)
	_, found := l.search("ann", "one")
	require.Equal(t, []string{knowledge.ByWords}, found.Hits[0].FoundBy, "vectors of two sizes are not compared")
	l.put("ann", "more", map[string]string{"three.md": "three"})
	l.again()
	require.EqualValues(t, 16, l.again().Size)
	require.Equal(t, 3, l.vectors())
	least, most = sizes()
	require.Equal(t, [2]int{16, 16}, [2]int{least, most})
}

// Where the database has the type of pgvector, it compares the vectors. What is there in the test
// has the type, the cast and the operator of pgvector, which is not on every machine, and is not
// pgvector itself.
func TestTheDatabaseComparesVectorsWhereItCan(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	for _, statement := range []string{
		"CREATE TYPE vector AS (x real[])",
		"CREATE FUNCTION array_to_vector(real[]) RETURNS vector LANGUAGE sql IMMUTABLE AS 'SELECT ROW($1)::vector'",
		"CREATE CAST (real[] AS vector) WITH FUNCTION array_to_vector(real[])",
		"CREATE FUNCTION vector_negative_inner_product(a vector, b vector) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT -sum(p * q)::float8 FROM unnest((a).x, (b).x) AS u (p, q)'",
		"CREATE OPERATOR <#> (LEFTARG = vector, RIGHTARG = vector, FUNCTION = vector_negative_inner_product)",
	} {
		l.Exec(statement)
	}
	l.put("ann", "garage", map[string]string{"vehicles.md": "Every automobile is parked in the basement", "kitchen.md": "Plates are washed"})
	l.put("bob", "bobs", map[string]string{"bob.md": "Every automobile of bob"})
	require.True(t, l.embed("test-embedding", 0).InDatabase)
	paths, found := l.search("ann", "car")
	require.Equal(t, "vehicles.md", paths[0])
	require.Equal(t, []string{knowledge.ByMeaning}, found.Hits[0].FoundBy)
	require.NotContains(t, paths, "bob.md")
}

// A model that fails is asked again later, and the search goes on by words. A text that it
// refuses does not keep it from the others.
func TestModelsThatFailOrRefuse(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	l.put("ann", "docs", map[string]string{"one.md": "one", "two.md": "two forbidden"})
	l.server.Fail(http.StatusInternalServerError)
	require.ErrorContains(t, l.named("test-embedding", 0), "does not embed", "it is tried before it is taken")
	l.server.Fail(0)
	require.NoError(t, l.named("test-embedding", 0))
	l.server.Fail(http.StatusInternalServerError)
	e := l.again()
	require.Contains(t, e.Error, "HTTP 500")
	require.EqualValues(t, 1, e.Failures)
	require.True(t, e.NextAt.After(time.Now()))
	require.Zero(t, l.spent(), "errors cost nothing")
	l.server.Fail(0)
	l.server.Refuse("forbidden")
	e = l.again()
	require.Empty(t, e.Error)
	require.EqualValues(t, 1, e.Embedded)
	require.EqualValues(t, 1, e.Refused)
	calls := l.server.Calls()
	l.again()
	require.Equal(t, calls, l.server.Calls(), "it is not sent again")
	l.put("ann", "more", map[string]string{"three.md": "three forbidden"})
	e = l.again()
	require.Empty(t, e.Error)
	require.EqualValues(t, 2, e.Refused, "also if there is no other one")
	// What has nothing to do with a text is an error of the pass, and loses no text.
	l.put("ann", "spent", map[string]string{"four.md": "four"})
	l.server.Fail(http.StatusBadRequest)
	e = l.again()
	require.Contains(t, e.Error, "HTTP 400")
	require.EqualValues(t, 2, e.Refused)
	l.server.Fail(0)
	l.server.Refuse("nothing")
	e = l.again()
	require.Empty(t, e.Error)
	require.EqualValues(t, 2, e.Embedded)
	require.EqualValues(t, 2, e.Refused)
	require.NoError(t, l.named("test-embedding", 0))
	require.Zero(t, l.again().Refused, "the same model gets what it has refused again")
	l.server.Fail(http.StatusBadRequest)
	_, found := l.search("ann", "two")
	require.Equal(t, "searched by words only: compatible answered with HTTP 400", found.Note)
	l.server.Fail(http.StatusUnauthorized)
	paths, found := l.search("ann", "two")
	require.Equal(t, []string{"two.md"}, paths)
	require.Contains(t, found.Note, "searched by words only: compatible refuses the key")
}

// Vectors of the model before are not compared with a question of the new one, although they have
// as many dimensions and were in memory.
func TestVectorsOfTheModelBeforeAreNotCompared(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	documents := map[string]string{}
	for i := range 20 {
		documents[fmt.Sprintf("%d.md", i)] = fmt.Sprintf("noise%d filler%d", i, i)
	}
	documents["vehicles.md"] = "automobile"
	l.put("ann", "docs", documents)
	for _, model := range []string{"first", "second"} {
		l.embed(model, 0)
		paths, _ := l.search("ann", "car")
		require.Equal(t, "vehicles.md", paths[0], model)
	}
}

// A provider that takes few texts in a call gets as many as it takes, and one text that it refuses
// is the only one that is left out.
func TestBatchesAreAsLargeAsTheProviderTakes(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	documents := map[string]string{}
	for i := range 100 {
		documents[fmt.Sprintf("%d.md", i)] = fmt.Sprintf("text %d", i)
	}
	documents["bad.md"] = "forbidden"
	l.put("ann", "docs", documents)
	l.server.Limit(10)
	l.server.Refuse("forbidden")
	e := l.embed("test-embedding", 0)
	require.Empty(t, e.Error)
	require.EqualValues(t, 100, e.Embedded)
	require.EqualValues(t, 1, e.Refused)
	require.Less(t, l.server.Calls(), 50)
}

// An upload that is deleted after it was copied into the jail of a sync is not found again.
func TestAnUploadThatIsDeletedDuringASyncStaysDeleted(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	v, by := visibility.As(tasktest.Org, "ann", "admin"), tasktest.By("ann")
	id, err := l.Create(t.Context(), v, scope.Scope{Kind: scope.User}, "docs", "", by)
	require.NoError(t, err)
	var source string
	for path, text := range map[string]string{"kept.md": "kept", "gone.md": "gone"} {
		_, source, err = l.Put(t.Context(), v, id, path, []byte(text), by)
		require.NoError(t, err)
	}
	rows, _, err := l.Documents(t.Context(), v, id, "", 10)
	require.NoError(t, err)
	require.Len(t, rows, 2, "uploads are listed before they are read")
	require.Contains(t, rows[0].Skipped, "not read yet")
	require.NoError(t, l.RemoveUpload(t.Context(), v, id, "gone.md", by))
	l.load(id, source, knowledge.Upload, map[string]string{"kept.md": "kept", "gone.md": "gone"})
	rows, _, err = l.Documents(t.Context(), v, id, "", 10)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, "kept.md", rows[0].Path)
	paths, _ := l.search("ann", "gone kept")
	require.Equal(t, []string{"kept.md"}, paths)
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
