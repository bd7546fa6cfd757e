package role

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/sdnotify"
)

// supervisor is systemd, where it started this process: it is told when the role is
// ready and when it stops, and its watchdog is fed while the role is alive.
type supervisor struct {
	address string
	// watchdog is after how long without a message systemd restarts the role; 0 for never.
	watchdog time.Duration
	log      hclog.Logger

	feeding sync.WaitGroup
	stop    context.CancelFunc
}

// newSupervisor reads what systemd says in the environment, and takes it out, so that
// processes that the role starts do not speak in its name.
func newSupervisor(log hclog.Logger) *supervisor {
	s := &supervisor{address: os.Getenv("NOTIFY_SOCKET"), log: log, stop: func() {}}
	if usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		s.watchdog = time.Duration(usec) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		// It fails for names with "=" only.
		_ = os.Unsetenv(name)
	}
	return s
}

// ready says that the role serves, and feeds the watchdog from now on.
func (s *supervisor) ready(service lifecycle.Service) {
	s.send(sdnotify.Ready)
	if s.address == "" || s.watchdog == 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	tick := time.NewTicker(s.watchdog / 3)
	alive := func(context.Context) error { return nil }
	if api, ok := service.(interface{ URL() string }); ok {
		alive = func(ctx context.Context) error { return answers(ctx, api.URL(), s.watchdog/3) }
	}
	s.feeding.Go(func() {
		defer tick.Stop()
		sdnotify.Watch(ctx, s.address, tick.C, alive, func(err error) {
			s.log.Warn("the watchdog was not fed", "error", err)
		})
	})
}

// stopping says that the role ends in order, and how long that may take.
func (s *supervisor) stopping(within time.Duration) {
	s.stop()
	s.feeding.Wait()
	s.send(sdnotify.StoppingWithin(within))
}

func (s *supervisor) send(text string) {
	if err := sdnotify.Send(s.address, text); err != nil {
		s.log.Warn("cannot notify systemd", "message", text, "error", err)
	}
}

// answers reports whether the API of this process answers.
func answers(ctx context.Context, url string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// It asks itself, by an address for which its certificate need not be.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above: nothing is sent or believed
	}}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the API does not answer: %w", err)
	}
	if err := res.Body.Close(); err != nil {
		return fmt.Errorf("the API does not answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the API answers %s", res.Status)
	}
	return nil
}
