package allowlist

import (
	"maps"
	"slices"
)

// presets are lists of hosts that many agents need.
var presets = map[string][]Rule{
	// Hosts that source code is fetched from and pushed to, over https.
	"git": https(
		"github.com", "api.github.com", "codeload.github.com", "*.githubusercontent.com", "gitlab.com", "bitbucket.org",
		"codeberg.org", "git.sr.ht",
	),
	// Registries of packages, as their usual programs reach them.
	"packages": append(https(
		"pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "registry.yarnpkg.com", "proxy.golang.org", "sum.golang.org",
		"index.crates.io", "static.crates.io", "crates.io", "rubygems.org", "index.rubygems.org",
		"repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org", "api.nuget.org", "repo.packagist.org",
		"hex.pm", "repo.hex.pm",
	), web(
		"deb.debian.org", "security.debian.org", "snapshot.debian.org", "archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com",
		"dl-cdn.alpinelinux.org", "mirrors.fedoraproject.org", "dl.fedoraproject.org",
	)...),
	// The APIs of model providers.
	"models": https(
		"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "api.mistral.ai",
		"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "openrouter.ai", "huggingface.co", "*.huggingface.co",
	),
}

func https(hosts ...string) []Rule { return rules([]uint16{443}, hosts) }

func web(hosts ...string) []Rule { return rules(nil, hosts) }

func rules(ports []uint16, hosts []string) []Rule {
	out := make([]Rule, len(hosts))
	for i, host := range hosts {
		out[i] = Rule{Host: host, Ports: ports}
	}
	return out
}

// PresetNames returns the names of the presets in order.
func PresetNames() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset returns the rules of a preset, or nil if there is no preset of that
// name.
func Preset(name string) []Rule { return slices.Clone(presets[name]) }
