package knowledge

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
)

// The parameters of the score, which is BM25 over the parts of a passage (BM25F: Robertson,
// Zaragoza and Taylor, 2004).
const (
	// saturation and byLength are k1 and b.
	saturation, byLength = 1.2, 0.75
	// inHeading and inName are as how many words of the text a word of the heading, or of the
	// path or title of the document, counts.
	inHeading, inName = 1, 2
	// usualHeading and usualName are how many words those have.
	usualHeading, usualName = 10, 4
	// ofDocument is the share of its document's score that a passage gets. So of two equal
	// passages, the one whose document is about the question comes first.
	ofDocument = 0.1
)

// term is a word that is looked for, what it is worth, and in how many passages it is.
type term struct {
	word     string
	weight   float64
	passages int64
}

// byScore returns passages, the best first, by how often they have some words. average is how
// many words a passage has.
func byScore(rows []db.RankKnowledgeRow, terms []term, average float64) []int64 {
	score := map[int64]float64{}
	documents := map[string][]float64{}
	for _, row := range rows {
		whole := documents[row.DocumentID]
		if whole == nil {
			whole = make([]float64, len(terms))
			documents[row.DocumentID] = whole
		}
		heading, name := norm(wordsIn(row.Heading), usualHeading), norm(wordsIn(nameOf(row.Path)+" "+row.Title), usualName)
		text := norm(float64(row.Length), average)
		for i, t := range terms {
			n := row.Counts[3*i : 3*i+3]
			often := inHeading*float64(n[0])/heading + inName*float64(n[1])/name + float64(n[2])/text
			worth := t.weight * often * (saturation + 1) / (often + saturation)
			score[row.ID] += worth
			whole[i] = max(whole[i], worth)
		}
	}
	for _, row := range rows {
		for _, worth := range documents[row.DocumentID] {
			score[row.ID] += ofDocument * worth
		}
	}
	slices.SortFunc(rows, func(a, b db.RankKnowledgeRow) int {
		return cmp.Or(cmp.Compare(score[b.ID], score[a.ID]), cmp.Compare(a.ID, b.ID))
	})
	out := make([]int64, min(len(rows), ranked))
	for i := range out {
		out[i] = rows[i].ID
	}
	return out
}

// norm returns the divisor of how often a word is in a part: long parts have each word more often.
func norm(length, usual float64) float64 { return 1 - byLength + byLength*length/usual }

func wordsIn(text string) (n float64) {
	tokens(text, func(t token) {
		if t.name == "" {
			n++
		}
	})
	return n
}

// nameOf returns a document's path without its extension.
func nameOf(file string) string { return strings.TrimSuffix(file, path.Ext(file)) }
