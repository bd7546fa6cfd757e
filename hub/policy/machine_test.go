package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/policy"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// Commands on a machine are decided by the persona's host and by rules for commands of jails
// that are stricter, and writes outside of its folders are asked about.
func TestCommandsOnAMachine(t *testing.T) {
	t.Parallel()
	org, err := policy.Parse("p.yaml", []byte(`
rules:
  - {name: no-reboot, effect: deny, tool: shell_exec, command: [reboot]}
  - {name: all-cat, effect: allow, tool: shell_exec, command: [cat]}
`))
	require.NoError(t, err)
	host := persona.Host{Nodes: []string{"a"}, Paths: []string{"/etc/nginx"}, Commands: []string{"systemctl reload *", "nginx -t", "tee", "cp", "reboot"}}
	set := policy.Set{{Name: "organisation", Policy: org}, policy.Machine(host)}
	for command, want := range map[string]policy.Effect{
		"systemctl reload nginx":                         policy.Allow,
		"nginx -t && systemctl reload nginx":             policy.Allow,
		"systemctl restart nginx":                        policy.None,
		"nginx -t; id":                                   policy.None,
		"cat /etc/hostname":                              policy.None, // allowed in jails only
		"reboot":                                         policy.Deny,
		"nginx -t > /etc/nginx/result":                   policy.Allow,
		"nginx -t > /etc/cron.d/x":                       policy.Ask,
		"cd /etc/cron.d && nginx -t > x":                 policy.Ask,
		"cd /etc/nginx && nginx -t > x":                  policy.Allow,
		"nginx -t > /etc/nginx/../cron.d/x":              policy.Ask,
		"nginx -t > /workspace/x":                        policy.Ask,
		"nginx -t > /tmp/x":                              policy.Ask,
		"nginx -t 2>/dev/null":                           policy.Allow,
		"tee /etc/nginx/x":                               policy.Allow,
		"tee /etc/passwd":                                policy.Ask,
		"cp /etc/nginx/a /root/.ssh/authorized_keys":     policy.Ask,
		`nginx -t > "$(cat /where)"`:                     policy.Ask,
		"bash -c 'systemctl reload nginx > /etc/shadow'": policy.Ask,
	} {
		d := set.Decide(policy.Call{Tool: "host_exec", Arguments: map[string]any{"command": command}, Folders: host.Paths})
		require.Equal(t, want, d.Effect, "%s: %s", command, d.Why)
	}
	// What allows calls in general does not allow those on a machine.
	for text, want := range map[string]policy.Effect{
		"default: allow\n": policy.None,
		"rules:\n  - {name: all, effect: allow, tool: '*'}\n":                 policy.None,
		"rules:\n  - {name: dangerous, effect: allow, category: dangerous}\n": policy.None,
		"rules:\n  - {name: named, effect: allow, tool: host_exec}\n":         policy.Allow,
		"default: deny\n": policy.Deny,
	} {
		general, err := policy.Parse("p.yaml", []byte(text))
		require.NoError(t, err)
		d := policy.Set{{Policy: general}, policy.Machine(persona.Host{})}.Decide(policy.Call{Tool: "host_exec", Category: "dangerous", Arguments: map[string]any{"command": "ls"}})
		require.Equal(t, want, d.Effect, "%s: %s", text, d.Why)
	}
	// Rules for commands of jails read paths as they are on the machine.
	files, err := policy.Parse("p.yaml", []byte("rules:\n  - {name: keys, effect: deny, tool: shell_exec, path: ['/root/.ssh/**', '/etc/shadow']}\n"))
	require.NoError(t, err)
	for command, cwd := range map[string]string{"cat .ssh/id_rsa": "", "cat ~/.ssh/id_rsa": "/tmp", "cat $HOME/.ssh/id_rsa": "/tmp", "cd && cat .ssh/id_rsa": "/tmp", "cat shadow": "/etc"} {
		d := policy.Set{{Policy: files}}.Decide(policy.Call{Tool: "host_exec", Arguments: map[string]any{"command": command, "cwd": cwd}})
		require.Equal(t, policy.Deny, d.Effect, "%s in %s: %s", command, cwd, d.Why)
	}
	d := set.Decide(policy.Call{Tool: "host_exec", Arguments: map[string]any{"command": "nginx -t > x", "cwd": "/etc/nginx"}, Folders: host.Paths})
	require.Equal(t, policy.Allow, d.Effect, "%s", d.Why)
	d = set.Decide(policy.Call{Tool: "host_exec", Arguments: map[string]any{"command": "nginx -t > x", "cwd": "/etc"}, Folders: host.Paths})
	require.Equal(t, policy.OutsideHostPaths, d.Rule)
	require.Empty(t, policy.ShapeOf("host_exec", map[string]any{"command": "ls"}), "no rule is offered")
	remember := func(scope string) string {
		return policy.ShapeOf("memory_store", map[string]any{"type": "fact", "key": "k", "value": "v", "scope": scope})
	}
	require.Equal(t, "memory_store(key, scope=user, type, value)", remember("user"))
	require.NotEqual(t, remember("user"), remember("organisation"), "a rule for one scope allows no other")
}
