package allowlist_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/allowlist"
)

func list(t *testing.T, rules ...string) *allowlist.List {
	t.Helper()
	out := &allowlist.List{}
	for _, text := range rules {
		r, err := allowlist.Parse(text)
		require.NoError(t, err, text)
		out.Rules = append(out.Rules, r)
	}
	return out
}

func target(t *testing.T, text string) allowlist.Target {
	t.Helper()
	out, err := allowlist.ParseTarget(text, 443)
	require.NoError(t, err, text)
	return out
}

// Default deny, wildcards, ports, and the rule that would allow it.
func TestARuleAllowsItsHostsAndPortsAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules   []string
		to      string
		allow   bool
		suggest string
	}{
		"nothing is allowed by nothing":         {nil, "api.example.com", false, `egress: {allow: ["api.example.com"]}`},
		"a name":                                {[]string{"api.example.com"}, "API.example.com.", true, ""},
		"on port 80 as well":                    {[]string{"api.example.com"}, "api.example.com:80", true, ""},
		"on no other port":                      {[]string{"api.example.com"}, "api.example.com:22", false, `egress: {allow: ["api.example.com:22"]}`},
		"on the ports it names":                 {[]string{"api.example.com:22,8443"}, "api.example.com:8443", true, ""},
		"on those only":                         {[]string{"api.example.com:22"}, "api.example.com", false, `egress: {allow: ["api.example.com"]}`},
		"another name":                          {[]string{"api.example.com"}, "example.com", false, `egress: {allow: ["example.com"]}`},
		"names below a name":                    {[]string{"*.example.com"}, "a.b.example.com", true, ""},
		"but not the name itself":               {[]string{"*.example.com"}, "example.com", false, `egress: {allow: ["example.com"]}`},
		"nor one that ends the same":            {[]string{"*.example.com"}, "badexample.com", false, `egress: {allow: ["badexample.com"]}`},
		"every name":                            {[]string{"*"}, "anything.example", true, ""},
		"but no address":                        {[]string{"*"}, "9.9.9.9", false, `egress: {allow: ["9.9.9.9"]}`},
		"an address":                            {[]string{"9.9.9.9"}, "9.9.9.9", true, ""},
		"an address however it is written":      {[]string{"9.9.9.9"}, "[::ffff:9.9.9.9]:443", true, ""},
		"an address of a network":               {[]string{"10.1.0.0/16:5432"}, "10.1.2.3:5432", true, ""},
		"an address of another":                 {[]string{"10.1.0.0/16:5432"}, "10.2.2.3:5432", false, `egress: {allow: ["10.2.2.3:5432"]}`},
		"an address of IPv6":                    {[]string{"[2606:4700::/32]:443"}, "[2606:4700::1]:443", true, ""},
		"an address of IPv6 that is not":        {nil, "[2606:4700::1]:8443", false, `egress: {allow: ["[2606:4700::1]:8443"]}`},
		"a preset is named where one covers it": {nil, "proxy.golang.org", false, "egress: {presets: [packages]}"},
		"the first preset in order":             {nil, "github.com", false, "egress: {presets: [git]}"},
		"not on another port":                   {nil, "github.com:22", false, `egress: {allow: ["github.com:22"]}`},
		"no rule is named for what none should": {nil, "169.254.169.254:80", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusal := list(t, c.rules...).Match(target(t, c.to), allowlist.Opaque)
			if c.allow {
				require.Nil(t, refusal)
				return
			}
			require.NotNil(t, refusal)
			assert.Equal(t, c.suggest, refusal.Allow)
			assert.Contains(t, refusal.Reason, target(t, c.to).Host)
		})
	}
}

func TestMethodsAreAllowedWhereTheyAreSeen(t *testing.T) {
	t.Parallel()
	l := &allowlist.List{Rules: []allowlist.Rule{
		{Host: "some.example", Methods: []string{"GET", "POST"}},
		{Host: "read.example", ReadOnly: true},
	}}
	some, read := target(t, "some.example:80"), target(t, "read.example:80")
	assert.Nil(t, l.Match(some, "POST"))
	assert.Equal(t, `egress: {allow: [{host: "some.example", methods: [DELETE]}]}`, l.Match(some, "DELETE").Allow)
	assert.Nil(t, l.Reaches(some), "a tunnel may turn out to be plain HTTP")
	assert.Contains(t, l.Match(some, allowlist.Opaque).Reason, "cannot be seen inside of TLS")
	assert.Nil(t, l.Match(read, "HEAD"))
	assert.NotNil(t, l.Match(read, "PUT"))
	assert.Nil(t, l.Match(read, allowlist.Opaque), "the operator's word is taken for it")
	only := l.ReadOnly()
	assert.Nil(t, only.Match(read, "GET"))
	assert.NotNil(t, only.Match(some, "GET"))
}

// Private, loopback, link-local and the like are refused unless they are
// named.
func TestAnAddressIsOfTheWideWorldOrNamed(t *testing.T) {
	t.Parallel()
	l := list(t, "*", "open.example:8080", "10.1.0.0/16", "127.0.0.1:8080", "0.0.0.0/0", "::/0")
	l.Rules = append(l.Rules, allowlist.Rule{Host: "inner.example", Private: true})
	l.Forwards = []allowlist.Forward{{Listen: 5432, Host: "db.example", Port: 5432}, {Listen: 6379, Host: "169.254.7.7", Port: 6379}}
	for _, c := range []struct {
		to, addr string
		own      bool
		refused  string
	}{
		{"open.example", "93.184.216.34", false, ""},
		{"open.example", "2606:4700::1", false, ""},
		{"open.example", "93.184.216.34", true, "the node itself"},
		{"inner.example", "93.184.216.34", true, ""},
		{"open.example", "10.2.0.1", false, "a private address"},
		{"open.example", "10.1.0.1", false, ""},
		{"open.example", "127.0.0.1", false, "a loopback address"},
		{"open.example:8080", "127.0.0.1", false, ""},
		{"open.example:8080", "127.0.0.2", false, "a loopback address"},
		{"inner.example", "192.168.0.1", false, ""},
		{"inner.example", "fd00::1", false, ""},
		{"inner.example", "100.64.0.1", false, ""},
		{"inner.example:8080", "192.168.0.1", false, "a private address"},
		{"inner.example", "169.254.169.254", false, "a link-local address"},
		{"inner.example", "127.0.0.1", false, "a loopback address"},
		{"inner.example", "::ffff:127.0.0.1", false, "a loopback address"},
		{"db.example:5432", "172.16.9.9", false, ""},
		{"db.example:5432", "127.0.0.1", false, "a loopback address"},
		{"169.254.7.7:6379", "169.254.7.7", false, ""},
		{"open.example", "0.0.0.0", false, "an address of this machine"},
		{"open.example", "::", false, "an address of this machine"},
		{"open.example", "::1", false, "a loopback address"},
		{"open.example", "fe80::1", false, "a link-local address"},
		{"open.example", "ff02::1", false, "a multicast address"},
		{"open.example", "224.0.0.1", false, "a multicast address"},
		{"open.example", "255.255.255.255", false, "a reserved address"},
		{"open.example", "198.18.0.1", false, "measurements"},
		{"open.example", "64:ff9b::a00:1", false, "in disguise"},
		{"open.example", "2002:a00:1::", false, "in disguise"},
		{"open.example", "2001::1", false, "a reserved address"},
		{"open.example", "::10.0.0.1", false, "a reserved address"},
		{"open.example", "fec0::1", false, "a reserved address"},
	} {
		refusal := l.Address(target(t, c.to), netip.MustParseAddr(c.addr), c.own)
		if c.refused == "" {
			assert.Nil(t, refusal, "%s as %s", c.to, c.addr)
			continue
		}
		require.NotNil(t, refusal, "%s as %s", c.to, c.addr)
		assert.Contains(t, refusal.Reason, c.refused)
	}
	refusal := l.Address(target(t, "open.example"), netip.MustParseAddr("192.168.1.1"), false)
	assert.Equal(t, `egress: {allow: [{host: "open.example", private: true}]}`, refusal.Allow)
	refusal = l.Address(target(t, "open.example"), netip.MustParseAddr("169.254.169.254"), false)
	assert.Empty(t, refusal.Allow)
}

func TestWhatIsNoRuleIsSaid(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"https://example.com/": "without \"https://\"",
		"":                     "is not a host name",
		"exa mple.com":         "is not a host name",
		"example.com/":         "not a network",
		"*.*.example.com":      "write *.example.com",
		"api*.example.com":     "write *.example.com",
		"example.com:":         "port after the colon is missing",
		"example.com:0":        "not a port",
		"example.com:+80":      "not a port",
		"example.com:80,80":    "is repeated",
		"example.com:99999":    "not a port",
		"10.0.0.1/8":           "write 10.0.0.0/8",
		"[::1":                 "not closed",
		"fe80::1%eth0":         "no zone",
		"127.1":                "usually written",
		"0x7f000001":           "usually written",
		"2130706433":           "usually written",
	} {
		_, err := allowlist.Parse(text)
		assert.ErrorContains(t, err, says, text)
	}
	for _, text := range []string{"127.1:80", "0x7f.1:80", "2130706433:80", "017700000001:80", "[fe80::1%25lo]:80", "a b:80", "example.com:http", "[::1", "host:0", ""} {
		_, err := allowlist.ParseTarget(text, 0)
		assert.Error(t, err, text)
	}
}

func TestPresetsAreSound(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"git", "models", "packages"}, allowlist.PresetNames())
	for _, name := range allowlist.PresetNames() {
		l := allowlist.List{Rules: allowlist.Preset(name)}
		require.NoError(t, l.Check(), name)
	}
}

// FuzzParse: whatever is taken is written again as it was meant.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"api.example.com", "*.example.com:443,8443", "10.0.0.0/8", "[fd00::/8]:22", "::1", "*", "[2606:4700::1]:443", "::ffff:1.2.3.4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := allowlist.Parse(text)
		if err != nil {
			return
		}
		again, err := allowlist.Parse(r.String())
		require.NoError(t, err, r.String())
		require.Equal(t, r, again)
	})
}

// FuzzTarget: whatever is taken is either an address or a name, and judged as
// what it is written as.
func FuzzTarget(f *testing.F) {
	for _, text := range []string{"example.com:443", "[::1]:80", "1.2.3.4", "EXAMPLE.com.:80", "[::ffff:127.0.0.1]:80"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		to, err := allowlist.ParseTarget(text, 80)
		if err != nil {
			return
		}
		again, err := allowlist.ParseTarget(to.String(), 0)
		require.NoError(t, err, to.String())
		require.Equal(t, to, again)
		_, err = netip.ParseAddr(to.Host)
		require.Equal(t, to.Addr.IsValid(), err == nil)
	})
}

func TestWhatNamesASpecialAddressIsTold(t *testing.T) {
	t.Parallel()
	l := list(t, "*", "open.example", "10.1.0.0/16", "127.0.0.1:8080", "0.0.0.0/0", "169.254.169.254", "[fe80::1]:80", "::1/128")
	l.Forwards = []allowlist.Forward{{Listen: 5432, Host: "db.example", Port: 5432}, {Listen: 6379, Host: "127.0.0.2", Port: 6379}, {Listen: 6380, Host: "10.0.0.1", Port: 6379}}
	require.Equal(t, []string{"127.0.0.1", "169.254.169.254", "fe80::1", "::1/128", "127.0.0.2"}, l.Special())
}

// A rule by method and path allows nothing to those who do not see the requests.
func TestARuleByMethodAndPathAllowsNothingByItself(t *testing.T) {
	t.Parallel()
	l := &allowlist.List{Rules: []allowlist.Rule{{Host: "api.example", HTTP: []string{"allow GET /"}}}}
	to := target(t, "api.example:443")
	assert.True(t, l.ByRequest(to))
	assert.False(t, l.ByRequest(target(t, "api.example:22")))
	assert.Nil(t, l.Reaches(to))
	for _, method := range []string{allowlist.Opaque, "GET"} {
		refusal := l.Match(to, method)
		require.NotNil(t, refusal)
		assert.Contains(t, refusal.Reason, "by method and path")
	}
}

// Rules for reading let no request pass that may change something: to single hosts each request
// is decided, and to several hosts nothing passes inside TLS.
func TestReadingLetsOnlySafeMethodsPass(t *testing.T) {
	t.Parallel()
	l := allowlist.List{Rules: []allowlist.Rule{
		{Host: "docs.example", ReadOnly: true}, {Host: "*.wide.example", ReadOnly: true}, {Host: "written.example", ReadOnly: true}, {Host: "any.example"},
	}}
	reading := l.ReadOnly().Reading()
	require.NoError(t, reading.Check())
	require.Len(t, reading.Rules, 3)
	assert.True(t, reading.ByRequest(target(t, "docs.example:443")))
	several := target(t, "a.wide.example:443")
	assert.Nil(t, reading.Match(several, "GET"))
	assert.NotNil(t, reading.Match(several, "POST"))
	assert.NotNil(t, reading.Match(several, allowlist.Opaque))
	assert.Empty(t, l.Rules[0].HTTP, "the list itself is as it was")

	mixed := allowlist.List{Rules: []allowlist.Rule{
		{Host: "api.example", ReadOnly: true, HTTP: []string{"allow POST /orders", "allow GET,POST /orders", "allow /items/**", "tool http_post POST /notes", "deny GET /secret"}},
		{Host: "posts.example", ReadOnly: true, HTTP: []string{"allow POST /orders"}},
		{Host: "head.example", ReadOnly: true, Methods: []string{"HEAD", "POST"}},
	}}
	require.ErrorContains(t, mixed.Rules[0].Check(), `http has "allow POST /orders", whose methods change something, and the rule is read_only`)
	reading = mixed.Reading()
	require.NoError(t, (&allowlist.Rule{Host: "api.example", ReadOnly: true, HTTP: []string{"allow GET /orders", "deny POST /orders"}}).Check())
	require.Len(t, reading.Rules, 2, "nothing is left of posts.example")
	assert.Equal(t, []string{"allow GET /orders", "allow GET,HEAD,OPTIONS /items/**", "deny GET /secret"}, reading.Rules[0].HTTP)
	assert.Equal(t, []string{"HEAD"}, reading.Rules[1].Methods)
	assert.NotNil(t, l.Upgrade(target(t, "docs.example:443")), "what passes through a WebSocket is not seen")
	assert.Nil(t, l.Upgrade(target(t, "any.example:443")))
}
