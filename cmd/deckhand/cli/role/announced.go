package role

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/greeting"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/remote"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/up"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/sdk"
)

// The log of an `up` at a terminal: one file and one before it.
const (
	logMegabytes = 64
	logsBefore   = 1
)

// announced is an Up that says when everything runs: to a person in words, and
// otherwise in the log.
type announced struct {
	*up.Up

	log      hclog.Logger
	greeting *greeting.Greeting // nil without a person
	file     *lumberjack.Logger // set with the greeting

	tasks sync.WaitGroup
	stop  context.CancelFunc
}

// greet prepares the greeting of a person: the log goes to a file of the data
// folder.
func (s *announced) greet(cfg *up.Config, w *words) error {
	dir, err := filepath.Abs(cfg.Hub.DataDir)
	if err != nil || cfg.Hub.DataDir == "" {
		return nil //nolint:nilerr // Complete refuses it, in better words
	}
	// Jails pass through the data folder in a user namespace of their own.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fault.New(fault.Precondition, "cannot make data-dir %s: %v", dir, err).WithFix("use a folder you may write to, or sudo")
	}
	if os.Geteuid() == 0 {
		// Before anything is written where another user may have laid a link.
		if err := up.CheckOwner(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(datadir.LogFile)), 0o700); err != nil {
		return fault.New(fault.Precondition, "cannot make the folder of the log: %v", err).WithFix("use a folder you may write to, or sudo")
	}
	s.file = &lumberjack.Logger{Filename: filepath.Join(dir, datadir.LogFile), MaxSize: logMegabytes, MaxBackups: logsBefore}
	s.greeting = greeting.New(greeting.Config{
		Out: w.terminal, DataDir: dir, LogFile: s.file.Filename, Slots: cfg.Worker.Slots, Limits: cfg.Node.Pressure, SSH: remote.Host(),
	})
	w.log.to(s.greeting.Errors(s.file))
	cfg.Started = s.greeting.Started
	return nil
}

// Start starts everything and says so.
func (s *announced) Start(ctx context.Context) error {
	if err := s.Up.Start(ctx); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	who := ""
	if sudo, used := sudoUser(); used {
		if who, err = sudo.connect(ctx, client, s.DataDir()); err != nil {
			s.log.Warn("the user who ran sudo has no access of their own", "user", sudo.name, "error", err)
			who = fmt.Sprintf("%s cannot use this hub without sudo: %s.", sudo.name, err)
		}
	}
	s.log.Info("Deckhand is up", "url", s.URL(), "data", s.DataDir(), "version", version.Version)
	if s.greeting == nil {
		return nil
	}
	s.greeting.Up(ctx, client, who)
	watch, stop := context.WithCancel(ctx)
	s.stop = stop
	s.tasks.Go(func() { s.greeting.Tasks(watch, client) })
	return nil
}

// Stop ends everything.
func (s *announced) Stop() {
	if s.stop != nil {
		s.stop()
		s.tasks.Wait()
	}
	s.Up.Stop()
	if s.file != nil {
		// What cannot be written any more is lost with the process.
		_ = s.file.Close()
	}
}

// client calls the hub as its administrator.
func (s *announced) client() (*sdk.Client, error) { return adminAt(s.DataDir(), s.URL()) }

// adminOf calls the hub of a data folder as its administrator.
func adminOf(dataDir string) (*sdk.Client, error) {
	url, err := os.ReadFile(filepath.Join(dataDir, datadir.URLFile))
	if err != nil {
		return nil, fmt.Errorf("read the hub's URL: %w", err)
	}
	return adminAt(dataDir, strings.TrimSpace(string(url)))
}

func adminAt(dataDir, url string) (*sdk.Client, error) {
	token, err := os.ReadFile(filepath.Join(dataDir, datadir.AdminTokenFile))
	if err != nil {
		return nil, fmt.Errorf("read the administrator's token: %w", err)
	}
	return sdk.New(sdk.Config{URL: url, Token: strings.TrimSpace(string(token)), UserAgent: "deckhand-up/" + version.Version})
}
