package env

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/internal/config"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/sdk"
)

// Flags are the flags by which every command finds its hub.
type Flags struct {
	// Hub is its URL, and Token the caller's.
	Hub, Token string
	dataDir    string
}

// Register adds the flags to a set.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.Hub, "hub", "", "the hub's URL (DECKHAND_HUB_URL)")
	flags.StringVar(&f.Token, "token", "", "token for the hub's API (DECKHAND_TOKEN)")
	flags.StringVar(&f.dataDir, "data-dir", "", "data folder of `deckhand up` on this machine (DECKHAND_DATA_DIR)")
}

// Settings are the client's flags and their environment variables.
type Settings struct {
	HubURL  string        `koanf:"hub-url"`
	Token   config.Secret `koanf:"token"`
	DataDir string        `koanf:"data-dir"`
}

// Settings returns what flags and environment say.
func (e *Env) Settings() (Settings, error) {
	var out Settings
	flags := pflag.NewFlagSet("hub", pflag.ContinueOnError)
	for name, value := range map[string]string{"hub-url": e.Flags.Hub, "token": e.Flags.Token, "data-dir": e.Flags.dataDir} {
		flags.String(name, "", "")
		if value == "" {
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return out, err
		}
	}
	err := config.Load(flags, "", &out)
	return out, err
}

// hubAccess is a hub and the right to call it. A token is only ever sent to
// the hub that it was stored with.
type hubAccess struct {
	url   string
	token config.Secret
}

// findHub returns the hub to call. Flags beat the environment, which beats the
// current context, which beats what `deckhand up` left on this machine. A data
// folder that was named beats the context.
func (e *Env) findHub() (hubAccess, error) {
	set, err := e.Settings()
	if err != nil {
		return hubAccess{}, err
	}
	found := hubAccess{url: strings.TrimRight(set.HubURL, "/"), token: set.Token}
	if found.url != "" && found.token != "" {
		return found, nil
	}
	known, err := knownHubs(set.DataDir)
	if err != nil {
		return hubAccess{}, err
	}
	for _, k := range known {
		if found.url == "" {
			found.url = k.url
		}
		if found.token == "" && found.url == k.url {
			found.token = k.token
		}
	}
	if found.url == "" {
		if err := hubOfRoot(); err != nil {
			return hubAccess{}, err
		}
		return hubAccess{}, Failed(ExitUnreachable, fault.New(fault.Unavailable,
			"not connected to a hub. Start one with `sudo deckhand up`, or pass --hub URL --token TOKEN"))
	}
	return found, nil
}

// hubOfRoot returns the error for a user who has no hub, where root runs one on
// this machine; nil where it does not.
func hubOfRoot() error {
	url, err := os.ReadFile(filepath.Join(datadir.System, datadir.URLFile))
	if err != nil || os.Geteuid() == 0 {
		return nil //nolint:nilerr // whether there is one cannot be known
	}
	at := strings.TrimSpace(string(url))
	return Failed(ExitDenied, fault.New(fault.Unauthenticated, "a hub runs on this machine (%s), started by root, and you have no token for it", at).
		WithFix("use sudo, or start it with `sudo deckhand up`, which gives you a token of your own; or `sudo deckhand token create laptop`, and then `deckhand context use local --hub %s --token TOKEN`", at))
}

// knownHubs returns the hubs that files on this machine name, best first.
func knownHubs(dataDir string) ([]hubAccess, error) {
	if dataDir != "" {
		local, err := localHub(dataDir)
		if err != nil {
			return nil, err
		}
		if local.url == "" {
			return nil, Failed(ExitUnreachable, fault.New(fault.Unavailable, "the data folder %s tells of no hub", dataDir).
				WithFix("start one there with `deckhand up --data-dir %s`", dataDir))
		}
		return []hubAccess{local}, nil
	}
	contexts, err := LoadContexts()
	if err != nil {
		return nil, err
	}
	known := contexts.hubs()
	dir, err := datadir.Default()
	if err != nil {
		return nil, err
	}
	local, err := localHub(dir)
	if err != nil {
		return nil, err
	}
	if local.url != "" {
		known = append(known, local)
	}
	return known, nil
}

// localHub returns the hub whose `deckhand up` uses a data folder; empty when
// none does.
func localHub(dir string) (hubAccess, error) {
	url, err := readLine(filepath.Join(dir, datadir.URLFile))
	if err != nil || url == "" {
		return hubAccess{}, err
	}
	token, err := readLine(filepath.Join(dir, datadir.AdminTokenFile))
	if err != nil {
		return hubAccess{}, err
	}
	return hubAccess{url: strings.TrimRight(url, "/"), token: config.Secret(token)}, nil
}

// readLine returns a small file's text; empty when there is no such file.
func readLine(path string) (string, error) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case errors.Is(err, fs.ErrPermission):
		return "", Failed(ExitDenied, fault.New(fault.Denied, "this user may not read %s", path).
			WithFix("run as the user that runs `deckhand up`, or give --hub and --token"))
	case err != nil:
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}

// Client returns a client of the hub.
func (e *Env) Client() (*sdk.Client, error) {
	access, err := e.findHub()
	if err != nil {
		return nil, err
	}
	e.hubURL = access.url
	// A person waits: a hub that cannot be reached is reported at once, and a call ends at the
	// hub when the command is interrupted, which one with an idempotency key would not.
	client, err := sdk.New(sdk.Config{URL: access.url, Token: access.token.Reveal(), UserAgent: "deckhand-cli/" + version.Version, Retries: -1})
	if err != nil {
		return nil, Failed(ExitUsage, fault.New(fault.Invalid, "%s", err))
	}
	return client, nil
}

// Hub returns the address of the hub and the token, for callers that speak another
// protocol with it. Client must have succeeded.
func (e *Env) Hub() (url, token string, err error) {
	access, err := e.findHub()
	return access.url, access.token.Reveal(), err
}

// PageSize is the largest page of a list that the hub returns.
const PageSize = 500
