package node

import (
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Skill is one of the operator's own skills on a node.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Path is its SKILL.md in a jail.
	Path string `json:"path,omitempty"`
	// Problem is why agents do not get the skill; empty for a valid one.
	Problem string `json:"problem,omitempty"`
}

// Skills reads the column nodes.skills, in the order of their names.
func Skills(column []byte) []Skill {
	var skills []Skill
	// It is written by encodeSkills only.
	_ = json.Unmarshal(column, &skills)
	return skills
}

func encodeSkills(mask *redact.Redactor, said []*nodev1.SessionResponse_Skill) ([]byte, error) {
	skills := make([]Skill, len(said))
	for i, s := range said {
		skills[i] = Skill{words(mask, s.GetName(), maxWords), words(mask, s.GetDescription(), maxDescription), words(mask, s.GetPath(), maxDescription), words(mask, s.GetProblem(), maxDescription)}
	}
	data, err := json.Marshal(skills)
	if err != nil {
		return nil, fmt.Errorf("encode skills: %w", err)
	}
	return data, nil
}
