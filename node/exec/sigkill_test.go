package exec_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/deckhand-sh/deckhand/node/exec"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/ledger"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// envDaemon makes this test's program a daemon of its own; it holds the parts
// of a jail.Config that a process can be handed.
const envDaemon = "DECKHAND_TEST_EXEC_DAEMON"

type daemonConfig struct{ DataDir, Containerd, InitPath, Namespace string }

// daemon serves until it is killed.
func daemon(text string) {
	var cfg daemonConfig
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fail(json.Unmarshal([]byte(text), &cfg))
	ctx := context.Background()
	jails, err := jail.NewManager(ctx, jail.Config{
		DataDir: cfg.DataDir, Containerd: cfg.Containerd, InitPath: cfg.InitPath, Namespace: cfg.Namespace,
	})
	fail(err)
	book, err := ledger.Open(ledger.Config{Path: filepath.Join(cfg.DataDir, "ledger.db")})
	fail(err)
	svc, err := exec.NewService(exec.Config{Ledger: book, Jails: jails})
	fail(err)
	fail(svc.Start(ctx))
	listener, err := net.Listen("unix", filepath.Join(cfg.DataDir, "killed.sock"))
	fail(err)
	server := grpc.NewServer()
	nodev1.RegisterExecServiceServer(server, svc)
	nodev1.RegisterJailServiceServer(server, jail.NewServer(jails))
	fmt.Println("ready")
	fail(server.Serve(listener))
}

// The daemon is killed, while commands start and print; not one of them
// notices, runs twice, or loses a byte.
func TestADaemonThatIsKilled(t *testing.T) {
	t.Parallel()
	n := prepared(t)
	for round := range 3 {
		config, err := json.Marshal(daemonConfig{n.cfg.DataDir, n.cfg.Containerd, n.cfg.InitPath, n.cfg.Namespace})
		require.NoError(t, err)
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := osexec.Command(self)
		cmd.Env = append(os.Environ(), envDaemon+"="+string(config))
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
		socket := filepath.Join(n.cfg.DataDir, "killed.sock")
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		first := &node{tb: t, cfg: n.cfg, api: nodev1.NewExecServiceClient(conn), jail: nodev1.NewJailServiceClient(conn)}
		id := first.ensure()

		printing := shell(id, `i=0; while [ $i -lt 2000 ]; do echo "line $i"; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.02; done; exit 7`)
		first.startExec(printing)
		first.until(printing.GetExecId(), "line 10\n")
		// Some of these are in the ledger only, some with init, when it dies.
		started := make(chan struct{}, 40)
		for i := range 40 {
			go func() {
				spec := shell(id, fmt.Sprintf("echo %d >> counter-%d", i, i))
				spec.ExecId = fmt.Sprintf("killed-%d-%d", round, i)
				_, _ = first.api.StartExec(context.Background(), &nodev1.StartExecRequest{Spec: spec})
				started <- struct{}{}
			}()
		}
		for range 3 + 10*round {
			<-started
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		require.NoError(t, conn.Close())

		n.start()
		require.EqualValues(t, 7, n.wait(printing.GetExecId()).GetExitCode())
		var want strings.Builder
		for i := range 2000 {
			want.WriteString("line " + strconv.Itoa(i) + "\n")
		}
		require.Equal(t, want.String(), string(n.log(printing.GetExecId(), false)[0]))
		workspace, err := n.jails.Workspace(id)
		require.NoError(t, err)
		for i := range 40 {
			ran, _ := os.ReadFile(filepath.Join(workspace, fmt.Sprintf("counter-%d", i)))
			rec, err := n.ledger.GetExec(t.Context(), fmt.Sprintf("killed-%d-%d", round, i))
			require.NoError(t, err)
			if rec == nil {
				require.Empty(t, ran, "it ran without a record")
				continue
			}
			require.Equal(t, nodev1.EndReason_END_REASON_EXITED, n.wait(rec.GetSpec().GetExecId()).GetEndReason())
			ran, err = os.ReadFile(filepath.Join(workspace, fmt.Sprintf("counter-%d", i)))
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%d\n", i), string(ran), "it did not run once")
		}
		n.stop()
		require.NoError(t, os.Remove(socket))
	}
}
