package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/drain"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/jointoken"
	"github.com/deckhand-sh/deckhand/internal/metricsserver"
	"github.com/deckhand-sh/deckhand/internal/pressure"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/node/doctor"
	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
)

// DefaultDataDir is where the daemon keeps what it knows.
const DefaultDataDir = "/var/lib/deckhand-node"

// DefaultReleaseKey is where the public key of Deckhand's releases is.
const DefaultReleaseKey = "/etc/deckhand/release.pub"

// Config is what a node is made with.
type Config struct {
	// DataDir holds identity, ledger, jails, workspaces and logs. One daemon at
	// a time uses it. The folders above it must be searchable by everyone.
	DataDir string `koanf:"data-dir"`
	// HubURL is the hub's API, http or https. It is needed to enrol; afterwards
	// it may be empty for the one of the enrolment.
	HubURL string `koanf:"hub-url"`
	// EdgeAddress is the host:port of the hub's edge, which the link dials;
	// empty means the address that the hub returned at enrolment.
	EdgeAddress string `koanf:"edge-address"`
	// JoinToken enrols this machine. If the machine is already enrolled, the
	// token is only checked to be of the same hub.
	JoinToken config.Secret `koanf:"join-token"`
	// Name is the node's, unique in its organisation; empty for the host name.
	Name string `koanf:"name"`
	// Labels are what personas select nodes by.
	Labels Labels `koanf:"labels"`
	// Containerd is the address of containerd's socket.
	Containerd string `koanf:"containerd"`
	// Namespace is containerd's namespace for this node's jails.
	Namespace string `koanf:"containerd-namespace"`
	// UIDBase is the first of the 65 536 host user and group ids that jails use.
	UIDBase uint32 `koanf:"uid-base"`
	// EgressUID is the host user and group id of the egress proxy, and of nothing else; 0
	// for the one after those of the jails.
	EgressUID uint32 `koanf:"egress-uid"`
	// RootPaths are host folders that jails see read-only beside /usr.
	RootPaths Paths `koanf:"root-paths"`
	// ShowPaths are host folders that personas may show in their jails, with all
	// below them.
	ShowPaths Paths `koanf:"show-paths"`
	// SpecialAddresses are addresses and networks of special kinds, such as
	// 127.0.0.1 or 169.254.169.254, that jails may reach where a persona that an
	// administrator applied names them.
	SpecialAddresses Paths `koanf:"special-addresses"`
	// MaxJailShare is how much of the machine one jail may have, in percent, and
	// MaxJailsOvercommit how many times the machine the limits of all jails may
	// come to together, but for CPUs. Zero: 75, 10.
	MaxJailShare       int     `koanf:"max-jail-share"`
	MaxJailsOvercommit float64 `koanf:"max-jails-overcommit"`
	// SkillsDir is a folder of skills, each with a SKILL.md, that jails see
	// read-only; empty for none.
	SkillsDir string `koanf:"skills-dir"`
	// GVisorPlatform is the platform that gVisor runs with: systrap, ptrace or kvm;
	// empty for systrap if the installed runsc has it, and else ptrace.
	GVisorPlatform string `koanf:"gvisor-platform"`
	// SoftWorkspaces makes workspaces plain folders, whose size limit is not
	// enforced.
	SoftWorkspaces bool `koanf:"soft-workspaces"`
	// InitPath is a deckhand-init to use instead of the embedded one.
	InitPath string `koanf:"init-path"`
	// IdleStop is after how long a jail in which nothing runs is stopped; 0 for
	// 30 minutes, negative for never.
	IdleStop time.Duration `koanf:"idle-stop"`
	// KeepResults is how long the result of a command is kept after the hub has
	// recorded it (results that the hub has not recorded are kept for 30 days).
	// KeepLogs is how long its output is kept, and KeepLogBytes limits the
	// total size of all output; the oldest output of the jail with the most is
	// deleted first. Zero: 7 days, 7 days, 20 GiB.
	KeepResults  time.Duration `koanf:"keep-results"`
	KeepLogs     time.Duration `koanf:"keep-logs"`
	KeepLogBytes int64         `koanf:"keep-log-bytes"`
	// MaxOutputBytes is after how much output a command is stopped; 0 for 4 GiB.
	MaxOutputBytes int64 `koanf:"max-output-bytes"`
	// KeepChanges is how long what a command changed in its workspace can be
	// undone, KeepChangesBytes how much the contents kept for that may take
	// in one workspace. Zero: 7 days, 20 GiB.
	KeepChanges      time.Duration `koanf:"keep-changes"`
	KeepChangesBytes int64         `koanf:"keep-changes-bytes"`
	// JournalUnits are the systemd units whose state and journal agents and administrators may
	// read, with * and ? as in file names; none by default. JournalFields are the fields of an
	// entry that they see beside its time and message, and JournalDir is a folder of journal
	// files to read in place of the machine's own.
	JournalUnits  Paths  `koanf:"journal-units"`
	JournalFields Paths  `koanf:"journal-fields"`
	JournalDir    string `koanf:"journal-dir"`
	// BrowsePaths are the folders of the machine whose files administrators may read through
	// the hub; none by default.
	BrowsePaths Paths `koanf:"browse-paths"`
	// NoHostMode refuses all commands outside of jails, for every user.
	NoHostMode bool `koanf:"no-host-mode"`
	// Images says where jails get their images from.
	Images Images `koanf:",squash"`
	// Pressure is from when on nothing new may start on this machine. The disk is
	// that of DataDir.
	Pressure pressure.Limits `koanf:",squash"`

	// DrainTimeout is how long the hub's calls in progress may go on once the daemon is told
	// to stop; 0 for 3 s, at most 1 h. Commands go on in any case.
	DrainTimeout time.Duration `koanf:"drain-timeout"`
	// MetricsListen is where metrics are served; empty for nowhere.
	MetricsListen string `koanf:"metrics-listen"`
	// Registry takes the metrics; nil for one of the node's own.
	Registry *prometheus.Registry `koanf:"-"`

	// MakeJoinToken, if set, is asked for a token when this machine is not
	// enrolled and JoinToken is empty: for a hub in the same process.
	// EndJails stops every jail when the daemon is stopped in order, instead of
	// leaving them to a successor: for everything on one machine.
	EndJails      bool                                      `koanf:"-"`
	MakeJoinToken func(ctx context.Context) (string, error) `koanf:"-"`
	// ReleaseKey is the file of the public key of Deckhand's releases, for upgrades that the
	// hub asks for; see package upgrade.
	ReleaseKey string `koanf:"release-key"`
	// Upgrades allows them: whoever calls Run can put another program in the place of this
	// one. Linked, if set, is called when the hub has accepted a session, by which the
	// program that tries this one knows that it works.
	Upgrades bool   `koanf:"-"`
	Linked   func() `koanf:"-"`
	// Measure reads the machine's figures; nil for the real ones.
	Measure func(ctx context.Context) (pressure.Figures, error) `koanf:"-"`
	// NotifySocket is the socket on which systemd receives the daemon's status
	// (sd_notify(3)); empty for none.
	NotifySocket string       `koanf:"-"`
	Log          hclog.Logger `koanf:"-"`
	// Redact masks what is read of command logs; nil for the shapes of keys only.
	Redact *redact.Redactor `koanf:"-"`
}

// Flags registers the flags that fill a Config, with their defaults.
func Flags(flags *pflag.FlagSet) {
	flags.String("data-dir", DefaultDataDir, "folder for identity, ledger, jails, workspaces and logs")
	flags.String("hub-url", "", "the hub's API, for example https://hub.example:7800; needed to enrol")
	flags.String("edge-address", "", "host:port of the hub's edge, if it is not what the hub told when the machine was enrolled")
	flags.String("join-token", "", "single-use token that enrols this machine, from `deckhand node token`; rather set DECKHAND_JOIN_TOKEN, since others on the machine can see the flags")
	flags.String("name", "", "the node's name, unique in its organisation (default the host name)")
	flags.StringToString("labels", nil, "what personas select nodes by: zone=a,disk=ssd")
	flags.String("containerd", jail.DefaultContainerd, "containerd's socket")
	flags.String("containerd-namespace", jail.DefaultNamespace, "containerd's namespace for the jails")
	flags.Uint32("uid-base", jail.DefaultUIDBase, "first of the 65536 user and group ids of the machine that jails use, and nothing else may")
	flags.Uint32("egress-uid", 0, "user and group id of the machine that the egress proxy runs as, and nothing else may (default the one after those of the jails)")
	flags.StringSlice("root-paths", nil, "folders of the machine that jails see read-only beside /usr: /opt,/srv/tools")
	GrantFlags(flags)
	ImageFlags(flags)
	flags.Int("max-jail-share", jail.DefaultJailShare, "how much of the machine's CPUs, memory, processes and disk one jail may have, in percent, though never less than a persona has by default")
	flags.Float64("max-jails-overcommit", jail.DefaultOvercommit, "how many times the machine's memory, processes and disk the limits of all its jails may come to together")
	flags.String("skills-dir", "", "folder of skills, each a folder with a SKILL.md, that agents are told of and jails see read-only")
	flags.String("gvisor-platform", "", "platform of gVisor, for personas with trust verified: systrap, ptrace or kvm (default systrap if the installed runsc has it, else ptrace)")
	flags.String("init-path", "", "a deckhand-init to use in place of the one inside this binary")
	flags.Duration("idle-stop", jail.DefaultIdleStop, "stop a jail in which nothing ran for so long, until it is wanted again; negative for never")
	flags.StringSlice("journal-units", nil, "systemd units whose state and journal agents and administrators may read: nginx.service,app-*.service; none by default")
	flags.StringSlice("journal-fields", nil, "fields of the journal that agents see beside the time and the message: PRIORITY,_PID")
	flags.String("journal-dir", "", "folder of journal files to read in place of the machine's own journal")
	flags.StringSlice("browse-paths", nil, "folders of the machine whose files administrators may read in the console: /var/log,/etc/nginx; none by default")
	flags.Bool("no-host-mode", false, "refuse all commands outside of jails, even of administrators")
	flags.Duration("keep-results", 7*24*time.Hour, "how long what a command came to is kept once the hub has it on record; what it has not is kept for 30 days")
	flags.Duration("keep-logs", 7*24*time.Hour, "how long a command's output is kept after its end")
	flags.Int64("keep-log-bytes", 20<<30, "how much the output of ended commands may take, the oldest of the jail that has most going first")
	flags.Int64("max-output-bytes", exec.DefaultOutputBytes, "after how much output a command is stopped; a persona may say less")
	flags.Duration("keep-changes", 7*24*time.Hour, "how long what a command changed in its workspace can be undone")
	flags.Int64("keep-changes-bytes", 20<<30, "how much the contents kept for that may take in one workspace, the oldest going first")
	flags.String("release-key", "", "public key of Deckhand's releases (minisign), by which upgrades that the hub asks for are verified; without the file there are none (default "+DefaultReleaseKey+")")
	drain.Flags(flags)
	pressure.Flags(flags)
	flags.String(metricsserver.Flag, "", metricsserver.Usage)
	flags.Bool("soft-workspaces", false, "make workspaces plain folders, whose size is not held")
}

// GrantFlags registers the flags by which an operator lets jails have more of
// the machine.
func GrantFlags(flags *pflag.FlagSet) {
	flags.StringSlice("show-paths", jail.DefaultShowPaths, "folders of the machine, with all below them, that a persona may have its jail show read-only; none with an empty list")
	flags.StringSlice("special-addresses", nil, "addresses and networks of special kinds, such as 127.0.0.1 or 169.254.169.254, that jails may reach where a persona that an administrator applied names them")
}

// uidRange is how many ids jails use.
const uidRange = 1 << 16

// name is what the hub takes for a node's name.
var name = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)

// maxLabels is how many labels the hub takes, and maxLabel how long a name or
// a value may be.
const (
	maxLabels = 64
	maxLabel  = 128
)

// Checks returns what "deckhand-node doctor" checks of a machine with this
// configuration.
func (c Config) Checks() (doctor.Config, error) {
	if err := c.fill(); err != nil {
		return doctor.Config{}, err
	}
	return doctor.Config{
		DataDir: c.DataDir, IdentityDir: IdentityDir, HubURL: c.HubURL, EdgeAddress: c.EdgeAddress,
		Containerd: c.Containerd, InitPath: c.InitPath, UIDBase: c.UIDBase, DiskHistory: filepath.Join(c.DataDir, diskHistoryFile),
	}, nil
}

// fill checks the configuration and fills in its defaults.
func (c *Config) fill() error {
	invalid := func(format string, args ...any) *fault.Error { return fault.New(fault.Invalid, format, args...) }
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return invalid("data-dir %s cannot be resolved", c.DataDir).WithCause(err)
	}
	c.DataDir = dir
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("read the host name: %w", err)
		}
		c.Name = host
	}
	if c.ReleaseKey == "" {
		c.ReleaseKey = DefaultReleaseKey
	}
	if c.Registry == nil {
		c.Registry = metricsserver.NewRegistry()
	}
	if !name.MatchString(c.Name) {
		return invalid("name %q is not a node's name", c.Name).
			WithFix("use 1 to 128 letters, digits, dots, dashes and underscores with --name")
	}
	if len(c.Labels) > maxLabels {
		return invalid("labels: there are %d", len(c.Labels)).WithFix("use at most %d", maxLabels)
	}
	for key, value := range c.Labels {
		if key == "" || len(key) > maxLabel || len(value) > maxLabel || strings.ContainsFunc(key+value, unicode.IsControl) || !utf8.ValidString(key+value) {
			return invalid("labels: %q=%q is not a label", key, value).WithFix("use at most %d bytes of printable text for each of name and value", maxLabel)
		}
	}
	if c.HubURL != "" {
		parsed, err := url.Parse(c.HubURL)
		if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
			return invalid("hub-url %q is not an address", c.HubURL).WithFix("give it as https://host:port")
		}
	}
	if c.EdgeAddress != "" {
		if _, port, err := net.SplitHostPort(c.EdgeAddress); err != nil || port == "" {
			return invalid("edge-address %q is not an address", c.EdgeAddress).WithFix("give it as host:port")
		}
	}
	if c.JoinToken != "" {
		if _, err := jointoken.Parse(c.JoinToken.Reveal()); err != nil {
			return err
		}
	}
	if _, err := c.SpecialAddresses.prefixes(); err != nil {
		return err
	}
	if _, err := c.Images.config(); err != nil {
		return err
	}
	if c.EgressUID == 0 {
		c.EgressUID = cmp.Or(c.UIDBase, jail.DefaultUIDBase) + uidRange
	}
	if base := cmp.Or(c.UIDBase, jail.DefaultUIDBase); c.EgressUID-base < uidRange {
		return invalid("egress-uid %d is one of the ids of the jails", c.EgressUID).WithFix("use one that is not between uid-base and the 65536th after it")
	}
	if err := drain.Check(c.DrainTimeout); err != nil {
		return err
	}
	if c.Measure == nil {
		c.Measure = pressure.Machine(c.DataDir)
	}
	if c.Redact == nil {
		c.Redact = &redact.Redactor{}
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return nil
}

// Labels is a map that the environment writes as zone=a,disk=ssd.
type Labels map[string]string

// UnmarshalText reads what the environment says.
func (l *Labels) UnmarshalText(text []byte) error {
	*l = Labels{}
	for pair := range strings.SplitSeq(string(text), ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return fmt.Errorf("labels %q: write them as zone=a,disk=ssd", text)
		}
		(*l)[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return nil
}

// Paths is a list that the environment writes with commas.
type Paths []string

// UnmarshalText reads what the environment says.
func (p *Paths) UnmarshalText(text []byte) error {
	*p = strings.Split(string(text), ",")
	return nil
}

// prefixes reads the list as addresses and networks.
func (p Paths) prefixes() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range p {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fault.New(fault.Invalid, "special-addresses: %q is neither an address nor a network", text).
				WithFix("write it as 127.0.0.1 or 169.254.0.0/16")
		}
		out = append(out, network)
	}
	return out, nil
}
