package daemon

import (
	"path"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/agentskill"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// shownSkills answers the folders of the skills that jails see, by name.
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

// helloSkills answers what the hub is told of the skills.
func (d *Daemon) helloSkills() []*nodev1.SessionResponse_Skill {
	out := make([]*nodev1.SessionResponse_Skill, len(d.skills))
	for i, s := range d.skills {
		out[i] = &nodev1.SessionResponse_Skill{
			Name: strings.ToValidUTF8(s.Name, "?"), Description: s.Description, Problem: strings.ToValidUTF8(s.Problem[:min(len(s.Problem), 1000)], ""),
		}
		if s.Problem == "" {
			out[i].Path = path.Join(nodelink.SkillsPath, s.Name, agentskill.File)
		}
	}
	return out
}
