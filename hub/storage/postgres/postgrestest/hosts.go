package postgrestest

import (
	"net"
	"net/url"
	"testing"
)

// Silent returns the address of a server that takes connections and never responds.
func Silent(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// BehindHosts returns a database URL that names other servers before its own.
func BehindHosts(t testing.TB, database string, before ...string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	hosts, ports := "", ""
	for _, address := range before {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		hosts, ports = hosts+host+",", ports+port+","
	}
	query.Set("host", hosts+query.Get("host"))
	query.Set("port", ports+query.Get("port"))
	u.RawQuery = query.Encode()
	return u.String()
}
