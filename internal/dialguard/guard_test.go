package dialguard_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/deckhand-sh/deckhand/internal/dialguard"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

// nothing but public addresses is reached, however they are written.
func TestOnlyPublicAddressesAreReached(t *testing.T) {
	t.Parallel()
	var g dialguard.Guard
	for _, address := range []string{
		"127.0.0.1", "127.255.0.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8",
		"198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "203.0.113.7",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
		"64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "100::1", "fec0::1", "3fff::1",
	} {
		require.ErrorIs(t, g.Check(netip.MustParseAddr(address), false), dialguard.ErrRefused, address)
	}
	for _, address := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:1.1.1.1"} {
		require.NoError(t, g.Check(netip.MustParseAddr(address), false), address)
		require.ErrorIs(t, g.Check(netip.MustParseAddr(address), true), dialguard.ErrRefused, "%s without encryption", address)
	}
	allow, err := dialguard.ParseAllow("notify-allow", " 10.20.0.0/16, 127.0.0.1 ,fd00::/8,1.1.1.1,")
	require.NoError(t, err)
	g.Allow = allow
	for _, address := range []string{"10.20.3.4", "127.0.0.1", "::ffff:10.20.0.1", "fd00::9", "1.1.1.1"} {
		require.NoError(t, g.Check(netip.MustParseAddr(address), true), address)
	}
	for _, address := range []string{"10.21.0.1", "127.0.0.2", "fc00::1"} {
		require.Error(t, g.Check(netip.MustParseAddr(address), false), address)
	}
	for _, wrong := range []string{"10.20.0.0/33", "example.com", "10.0.0.1:80", "*"} {
		_, err := dialguard.ParseAllow("notify-allow", wrong)
		require.True(t, fault.Is(err, fault.Invalid), wrong)
	}
}

// resolver is a DNS server that answers each question for an IPv4 address with
// the next of its addresses, and the last forever.
func resolver(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(answers[0]).As4()},
				}}
				if len(answers) > 1 {
					answers = answers[1:]
				}
			}
			if data, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(data, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// a name whose resolver answers otherwise the second time leads nowhere: what
// is looked at is the address that is dialled.
func TestANameThatIsBoundAnewLeadsNowhere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	accepted := make(chan struct{}, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			_ = conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	dial := func(g dialguard.Guard, host string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		conn, err := g.Dialer(false).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	// 127.0.0.2 stands for a public address: it may be dialled, and nobody is
	// there.
	public := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}
	g := dialguard.Guard{Allow: public, Resolver: resolver(t, "127.0.0.2", "127.0.0.1")}
	err = dial(g, "rebind.example.com")
	require.Error(t, err)
	require.NotErrorIs(t, err, dialguard.ErrRefused, "the first answer may be dialled")
	require.ErrorIs(t, dial(g, "rebind.example.com"), dialguard.ErrRefused)
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "::1", "::ffff:127.0.0.1"} {
		require.Error(t, dial(dialguard.Guard{}, host), host)
	}
	select {
	case <-accepted:
		require.Fail(t, "somebody was connected")
	default:
	}
	require.NoError(t, dial(dialguard.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Resolver: g.Resolver}, "rebind.example.com"))
	_, err = dialguard.Guard{}.Dialer(false).Dial("unix", "/tmp/x")
	require.Error(t, err)
	require.True(t, errors.Is(err, dialguard.ErrRefused) || strings.Contains(err.Error(), "no such file"), err)
}
