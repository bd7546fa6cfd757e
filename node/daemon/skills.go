package daemon

import (
	"path"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/agentskill"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// shownSkills returns the folders of the skills that jails see, by name.
func (d *Daemon) shownSkills() map[string]string {
	shown := map[string]string{}
	for _, s := range d.skills {
		if s.Problem != "" {
			d.cfg.Log.Warn("a skill is not shown to agents", "skill", s.Dir, "problem", s.Problem)
			continue
		}
		shown[s.Name] = s.Dir
	}
	return shown
}

// The hub accepts no more skills than this, and no longer texts.
const (
	maxSkills = 100
	maxText   = 1024 // characters
)

func cut(text string) string {
	return textcut.Runes(strings.ToValidUTF8(text, ""), maxText, "")
}

// helloSkills returns the skills as they are reported to the hub.
func (d *Daemon) helloSkills() []*nodev1.SessionResponse_Skill {
	told := d.skills[:min(len(d.skills), maxSkills)]
	out := make([]*nodev1.SessionResponse_Skill, len(told))
	for i, s := range told {
		out[i] = &nodev1.SessionResponse_Skill{
			Name: strings.ToValidUTF8(s.Name, "?"), Description: cut(s.Description), Problem: cut(s.Problem),
		}
		if s.Problem == "" {
			out[i].Path = path.Join(nodelink.SkillsPath, s.Name, agentskill.File)
		}
	}
	return out
}
