// Package agentskill parses skills in the Agent Skills format
// (https://agentskills.io/specification): folders with a SKILL.md file whose
// front matter names and describes the skill. Parse returns a Skill, or an
// error that says which field is missing or invalid.
package agentskill

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// File is what says, in a skill's folder, what the skill is.
	File = "SKILL.md"
	// MaxHead is how many bytes at the beginning of that file the front matter
	// may take.
	MaxHead = 8 << 10
	// maxName and maxDescription are in characters.
	maxName        = 64
	maxDescription = 1024
)

var name = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Skill is what the front matter says.
type Skill struct {
	// Name consists of lower-case letters, digits and single hyphens, at most
	// 64 characters.
	Name string
	// Description says what the skill is for and when to use it: 1 to 1024
	// characters.
	Description string
}

// Parse reads the beginning of a SKILL.md.
func Parse(head string) (Skill, error) {
	rest, ok := strings.CutPrefix(strings.ReplaceAll(head, "\r\n", "\n"), "---\n")
	front, _, closed := strings.Cut(rest, "\n---")
	if !ok || !closed {
		return Skill{}, fmt.Errorf("%s has no front matter in its first %d bytes; begin it with --- and end that with ---", File, MaxHead)
	}
	var s struct{ Name, Description string }
	if err := yaml.Unmarshal([]byte(front), &s); err != nil {
		return Skill{}, fmt.Errorf("the front matter of %s is not YAML: %w", File, err)
	}
	switch s.Description = strings.TrimSpace(s.Description); {
	case !name.MatchString(s.Name) || len(s.Name) > maxName:
		return Skill{}, fmt.Errorf("name is %.80q; use small letters, digits and single hyphens, at most %d", s.Name, maxName)
	case s.Description == "":
		return Skill{}, errors.New("description is empty; say what the skill is for and when to use it")
	case utf8.RuneCountInString(s.Description) > maxDescription:
		return Skill{}, fmt.Errorf("description is longer than %d characters", maxDescription)
	}
	return Skill(s), nil
}
