package doctor

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

const defaultRoute = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
	"eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"

// Jails reach other networks by a default route, and names by a name server that answers.
func TestTheWayOutIsChecked(t *testing.T) {
	t.Parallel()
	c := machine(t)
	look := func(state State, says string) {
		t.Helper()
		f := egress(t.Context(), c)
		require.Equal(t, state, f.State, f.Says)
		require.Contains(t, f.Says, says)
		require.Equal(t, state != OK, f.Fix != "")
	}
	look(Warn, "no default route")
	c.write(t, "/proc/net/route", defaultRoute)
	look(Warn, "no name server")

	// It answers every question with "no such name".
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			answer := append([]byte{}, buffer[:n]...)
			answer[2], answer[3] = 0x81, 0x83 // a response: NXDOMAIN
			_, _ = server.WriteTo(answer, from)
		}
	}()
	_, c.DNSPort, err = net.SplitHostPort(server.LocalAddr().String())
	require.NoError(t, err)
	c.write(t, "/etc/resolv.conf", "# comment\nsearch example\nnameserver 127.0.0.1\n")
	look(OK, "127.0.0.1 answers")
	require.NoError(t, server.Close())
	look(Warn, "does not answer")

	c.remove(t, "/proc/net/route")
	c.write(t, "/proc/net/ipv6_route", "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n")
	look(Warn, "no default route")
}
