package persona_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
)

// A persona says on which machines its agent may work, and what is wrong with that.
func TestHost(t *testing.T) {
	t.Parallel()
	file := func(tools, host string) string {
		text := "---\nname: ops\ndescription: For tests.\nprovider: anthropic\nmodel: m\ntools: [" + tools + "]\n"
		if host != "" {
			text += "host: " + host + "\n"
		}
		return text + "---\nDo it.\n"
	}
	const tools = "node_lock, host_exec, host_read, complete_task"
	p, err := persona.Parse("ops.md", []byte(file(tools, `{nodes: [web-1, role=db], paths: [/etc/nginx, /srv], commands: ["systemctl reload *", nginx -t]}`)), persona.Vocabulary{})
	require.NoError(t, err)
	require.True(t, p.Host.Set())
	require.True(t, p.Host.Allows("web-1", nil))
	require.True(t, p.Host.Allows("x", map[string]string{"role": "db"}))
	require.False(t, p.Host.Allows("x", map[string]string{"role": "web"}))
	require.False(t, p.Host.Allows("role=db", nil))
	folder, rel, ok := p.Host.Folder("/etc/nginx/conf.d/../nginx.conf")
	require.True(t, ok)
	require.Equal(t, "/etc/nginx nginx.conf", folder+" "+rel)
	_, _, ok = p.Host.Folder("/etc/nginx2/x")
	require.False(t, ok)

	for name, c := range map[string]struct{ tools, host, says string }{
		"tools without host":     {tools, "", "tools has node_lock, which works on a machine itself: add host: {nodes: [NAME]}"},
		"host without tools":     {"complete_task", "{nodes: [a]}", "host does nothing: list tools that work on machines"},
		"no nodes":               {tools, "{paths: [/etc/nginx]}", "host.nodes is missing"},
		"no lock":                {"host_exec, complete_task", "{nodes: [a]}", "tools has host_exec, which works under a lock: add node_lock"},
		"files without folders":  {tools, "{nodes: [a]}", "host.paths is missing"},
		"a relative folder":      {tools, "{nodes: [a], paths: [etc]}", `host.paths has "etc": write an absolute folder`},
		"the whole machine":      {tools, "{nodes: [a], paths: [/]}", "write an absolute folder"},
		"files of the kernel":    {tools, "{nodes: [a], paths: [/proc/sys]}", "cannot be recorded"},
		"a folder in another":    {tools, "{nodes: [a], paths: [/etc, /etc/nginx]}", "one of which contains the other"},
		"a label without value":  {tools, "{nodes: [role=], paths: [/etc]}", "host.nodes has"},
		"a command of two":       {tools, `{nodes: [a], paths: [/etc], commands: ["ls; rm x"]}`, "write the first words of one command"},
		"a command that is open": {tools, `{nodes: [a], paths: [/etc], commands: ["*"]}`, "write the first words of one command"},
	} {
		_, err := persona.Parse("ops.md", []byte(file(c.tools, c.host)), persona.Vocabulary{})
		require.ErrorContains(t, err, c.says, name)
	}
}
