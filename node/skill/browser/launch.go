package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/skill/keeper"
)

// programs are where Chromium may be in a jail, the best first. Scripts that start it are
// last: they read settings of the machine.
var programs = []string{
	"/usr/lib/chromium/chromium",
	"/usr/lib64/chromium-browser/chromium-browser",
	"/usr/lib/chromium-browser/chromium-browser",
	"/opt/google/chrome/chrome",
	"/opt/chromium.org/chromium/chromium",
	"/headless-shell/headless-shell",
	"/usr/bin/chromium",
	"/usr/bin/chromium-browser",
	"/usr/bin/google-chrome-stable",
}

// errNoBrowser is returned where there is no Chromium.
var errNoBrowser = errors.New("there is no Chromium in this jail: use a jail.image that has it, or have the node's operator install it: as the package chromium for jails without an image, or as a pack for all jails, with deckhand node pack fetch NODE chromium")

// startWait bounds the browser's start.
const startWait = 30 * time.Second

// The page's size in pixels.
const (
	viewWidth  = 1280
	viewHeight = 800
)

// process is a running Chromium.
type process struct {
	cmd   *exec.Cmd
	conn  *conn
	said  *keeper.Tail
	ended chan struct{} // closed when it has been waited for
}

// launch starts Chromium with its profile in a folder and its requests going through a proxy.
func launch(program, folder, proxy string, handle func(event)) (*process, error) {
	// Nothing knows of the downloads of a browser that has ended.
	if err := os.RemoveAll(filepath.Join(folder, "downloads")); err != nil {
		return nil, fmt.Errorf("empty the browser's folder: %w", err)
	}
	for _, name := range []string{"profile", "home", "downloads", "tmp"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			return nil, fmt.Errorf("make the browser's folder: %w", err)
		}
	}
	if err := writePreferences(filepath.Join(folder, "profile", "Default")); err != nil {
		return nil, err
	}
	// What a browser that was killed leaves behind.
	_ = os.Remove(filepath.Join(folder, "profile", "SingletonLock"))
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe: %w", err), theirIn.Close(), in.Close())
	}
	p := &process{said: &keeper.Tail{Max: 4 << 10}, ended: make(chan struct{})}
	p.cmd = exec.Command(program, flags(folder, proxy)...)
	p.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3, which it reads, and 4, which it writes
	p.cmd.Dir = folder
	p.cmd.Env = environment(folder)
	if lib := filepath.Join(filepath.Dir(program), "lib"); strings.HasPrefix(program, packs) {
		p.cmd.Env = append(p.cmd.Env, "LD_LIBRARY_PATH="+lib) // what images lack besides
	}
	p.cmd.Stderr = p.said
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = p.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), in.Close(), out.Close())
	}
	p.conn = newConn(out, in, handle)
	go func() {
		defer close(p.ended)
		<-p.conn.done
		_ = out.Close()
		p.kill()
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// kill ends the browser and all its processes, unless they have ended: their number may then
// be that of others.
func (p *process) kill() {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// close ends the browser and waits until it has ended.
func (p *process) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = p.conn.call(ctx, "", "Browser.close", nil, nil)
	p.kill()
	<-p.ended
}

// how says how it ended, once it has.
func (p *process) how() string {
	<-p.ended
	how := "the browser ended"
	if state := p.cmd.ProcessState; state != nil {
		how += " (" + state.String() + ")"
	}
	if last := fatal(p.said.String()); last != "" {
		how += ": " + last
	}
	return how
}

// flags are Chromium's. The folder is the only one that it writes to.
func flags(folder, proxy string) []string {
	return []string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + filepath.Join(folder, "profile"),
		// The jail is the sandbox: it permits no nested user namespaces.
		"--no-sandbox", "--no-zygote",
		// /dev/shm of a jail is small.
		"--disable-dev-shm-usage",
		"--disable-gpu", "--disable-gpu-compositing", "--hide-scrollbars", "--mute-audio", fmt.Sprintf("--window-size=%d,%d", viewWidth, viewHeight),
		"--force-color-profile=srgb", "--lang=en-US",
		// Loopback is the jail's own: there no proxy is needed. All else goes to it, names unresolved.
		"--proxy-server=" + proxy, "--disable-quic", "--webrtc-ip-handling-policy=disable_non_proxied_udp",
		// Nothing is asked for that no page needs.
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
		"--disable-sync", "--disable-extensions", "--disable-breakpad", "--disable-crash-reporter", "--disable-domain-reliability", "--disable-client-side-phishing-detection",
		"--disable-field-trial-config", "--metrics-recording-only", "--no-pings", "--no-service-autorun", "--password-store=basic", "--disable-search-engine-choice-screen",
		// Clients of Google's services that no setting turns off; this port is one that the browser refuses.
		// Pages of the host of the login have a process of their own, in which they cannot be looked into
		// as frames of others: this host has none.
		"--gcm-checkin-url=http://127.0.0.9:9/", "--gcm-registration-url=http://127.0.0.9:9/",
		"--gaia-url=http://127.0.0.9:9/", "--google-base-url=http://127.0.0.9:9/", "--allow-browser-signin=false",
		// What would wait for a person, or show one something.
		"--deny-permission-prompts", "--disable-print-preview", "--noerrdialogs", "--disable-prompt-on-repost", "--disable-speech-api",
		// One process for the frames of a page, so that its tree is read at once. Without a
		// sandbox, keeping sites apart by processes protects nothing.
		"--disable-site-isolation-trials", "--renderer-process-limit=4",
		"--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,AcceptCHFrame,DialMediaRouteProvider,PaintHolding,HttpsUpgrades,AutofillServerCommunication,NetworkTimeServiceQuerying,PasswordLeakDetection,PreconnectToSearch,PreconnectToSearchDesktop,PreconnectToSearchNonGoogle",
		// A tab in the background works as any other.
		"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--disable-hang-monitor", "--disable-ipc-flooding-protection",
		"--disk-cache-size=33554432", "--js-flags=--max-old-space-size=1024",
		"about:blank",
	}
}

// preferences have no flags: no requests for what might be opened next or might be searched
// for, and no offers to keep passwords.
const preferences = `{"net":{"network_prediction_options":2},"search":{"suggest_enabled":false},"credentials_enable_service":false,` +
	`"profile":{"password_manager_enabled":false,"password_manager_leak_detection":false},"alternate_error_pages":{"enabled":false},"signin":{"allowed":false}}`

// writePreferences begins a profile with them.
func writePreferences(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the browser's folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(folder, "Preferences"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = file.WriteString(preferences)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write the browser's preferences: %w", err)
	}
	return nil
}

// environment is Chromium's: nothing of it names the agent's files.
func environment(folder string) []string {
	env := []string{
		"HOME=" + filepath.Join(folder, "home"), "TMPDIR=" + filepath.Join(folder, "tmp"), "PATH=/usr/bin:/bin", "LANG=C.UTF-8",
		"XDG_CONFIG_HOME=" + filepath.Join(folder, "home"), "XDG_CACHE_HOME=" + filepath.Join(folder, "home"), "DBUS_SESSION_BUS_ADDRESS=disabled:", "DBUS_SYSTEM_BUS_ADDRESS=disabled:",
	}
	if zone := os.Getenv("TZ"); zone != "" {
		env = append(env, "TZ="+zone)
	}
	return env
}

// find returns the program of the browser.
func find(named string) (string, error) { return findIn(named, programs, packs) }

func findIn(named string, programs []string, packs string) (string, error) {
	for _, program := range append([]string{named}, programs...) {
		if runs(program) {
			return program, nil
		}
	}
	// The pack is for images without one. It is run by the path of its version, which says that
	// the version is in use.
	folder, err := filepath.EvalSymlinks(filepath.Join(packs, "current"))
	if err != nil {
		return "", errNoBrowser
	}
	for _, pattern := range packed {
		found, _ := filepath.Glob(filepath.Join(folder, pattern)) // the pattern is a valid one
		for _, program := range found {
			if runs(program) {
				return program, nil
			}
		}
	}
	return "", errNoBrowser
}

// packs is the folder of the pack chromium, which the node may have.
const packs = nodelink.PacksPath + "/chromium"

// packed are where the program may be in it.
var packed = []string{"chromium", "chrome", "headless_shell", "chrome-headless-shell", "*/chromium", "*/chrome", "*/headless_shell", "*/chrome-headless-shell"}

// runs reports whether a path is one of a program.
func runs(program string) bool {
	info, err := os.Stat(program)
	return program != "" && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// fatal returns the last line of the browser's standard error that says why it ended, or "".
func fatal(text string) (line string) {
	for one := range strings.Lines(text) {
		if strings.Contains(one, "FATAL") || strings.Contains(one, "error while loading shared libraries") || strings.Contains(one, "out of memory") || strings.Contains(one, "Out of memory") {
			line = strings.TrimSpace(one)
		}
	}
	return line[:min(len(line), 300)]
}
