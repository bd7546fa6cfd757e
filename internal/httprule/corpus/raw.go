package corpus

import "strings"

// Raw is what a client sends on a connection of HTTP/1.
type Raw struct {
	Name  string
	Bytes []byte
	// Refused says that no request in it may be handled, or at least not be read
	// to its end without an error.
	Refused bool
	// NetHTTP says that net/http's server refuses it by itself, without the checks
	// of package httprule.
	NetHTTP bool
}

// Raws returns the messages. Each that is not refused has exactly one request.
// They are for the host example.com.
func Raws() []Raw {
	const (
		host    = "Host: example.com\r\n"
		get     = "GET / HTTP/1.1\r\n"
		post    = "POST / HTTP/1.1\r\n" + host
		chunked = post + "Transfer-Encoding: chunked\r\n\r\n"
		hidden  = "GET /hidden HTTP/1.1\r\nHost: example.com\r\n\r\n"
	)
	var out []Raw
	add := func(refused, netHTTP bool, cases ...[2]string) {
		for _, c := range cases {
			out = append(out, Raw{Name: c[0], Bytes: []byte(c[1]), Refused: refused, NetHTTP: netHTTP})
		}
	}
	add(false, false, [][2]string{
		{"a request", get + host + "\r\n"},
		{"a request of HTTP/1.0", "GET / HTTP/1.0\r\n" + host + "\r\n"},
		{"a body", post + "Content-Length: 5\r\n\r\nhello"},
		{"a body of no bytes", post + "Content-Length: 0\r\n\r\n"},
		{"chunks", chunked + "5\r\nhello\r\n1A\r\n" + strings.Repeat("x", 26) + "\r\n0\r\n\r\n"},
		{"a chunk size with zeros in front", chunked + "0005\r\nhello\r\n0\r\n\r\n"},
		{"trailers", post + "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n"},
		{"a value with a tab and letters that are not ASCII", get + host + "X: a\tb\xc3\xa9\r\n\r\n"},
		{"an empty value", get + host + "X:\r\n\r\n"},
		{"a port", get + "Host: example.com:8080\r\n\r\n"},
	}...)
	add(true, true, [][2]string{
		{"a trailer with a bare line feed", chunked + "0\r\nX: a\n\r\n"},
		{"a path in Host", get + "Host: example.com/admin\r\n\r\n"},
		{"a user in Host", get + "Host: user@example.com\r\n\r\n"},
		{"two Content-Lengths that differ", post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"},
		{"two Content-Lengths in one field", post + "Content-Length: 5, 5\r\n\r\nhello"},
		{"a Content-Length with a sign", post + "Content-Length: +5\r\n\r\nhello"},
		{"a negative Content-Length", post + "Content-Length: -1\r\n\r\n"},
		{"a hexadecimal Content-Length", post + "Content-Length: 0x5\r\n\r\nhello"},
		{"a Content-Length with a blank in it", post + "Content-Length: 1 0\r\n\r\nhello"},
		{"a Content-Length that overflows", post + "Content-Length: 18446744073709551621\r\n\r\nhello"},
		{"an unknown transfer encoding", post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden},
		{"gzip and chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{"chunked and identity", post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
		{"two transfer encodings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
		{"two equal transfer encodings", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"a vertical tab before chunked", post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"},
		{"an empty transfer encoding", post + "Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello"},
		{"a blank before the colon", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"},
		{"a tab before the colon", post + "Content-Length\t: 5\r\n\r\nhello"},
		{"a blank before the first field", get + " Host: example.com\r\n\r\n"},
		{"a field without a name", get + host + ": x\r\n\r\n"},
		{"a line without a colon", get + host + "x\r\n\r\n"},
		{"a bare carriage return in a value", get + host + "X: a\rContent-Length: 5\r\n\r\nhello"},
		{"a bare carriage return in a name", get + host + "X\rY: a\r\n\r\n"},
		{"NUL in a value", get + host + "X: a\x00b\r\n\r\n"},
		{"NUL in a name", get + host + "X\x00: a\r\n\r\n"},
		{"two Hosts", get + host + "Host: evil.example\r\n\r\n"},
		{"two equal Hosts", get + host + host + "\r\n"},
		{"no Host", get + "\r\n"},
		{"a blank in Host", get + "Host: example.com evil\r\n\r\n"},
		{"HTTP/0.9", "GET /\r\n\r\n"},
		{"HTTP/2.0", "GET / HTTP/2.0\r\n" + host + "\r\n"},
		{"a version in lower case", "GET / http/1.1\r\n" + host + "\r\n"},
		{"HTTP/1.1 with more digits", "GET / HTTP/1.10\r\n" + host + "\r\n"},
		{"two blanks after the method", "GET  / HTTP/1.1\r\n" + host + "\r\n"},
		{"two blanks before the version", "GET /  HTTP/1.1\r\n" + host + "\r\n"},
		{"a tab in the request line", "GET\t/\tHTTP/1.1\r\n" + host + "\r\n"},
		{"a blank in the target", "GET /a b HTTP/1.1\r\n" + host + "\r\n"},
		{"a control character in the target", "GET /a\x01 HTTP/1.1\r\n" + host + "\r\n"},
		{"an empty line first", "\r\n" + get + host + "\r\n"},
		{"a header of a megabyte and more", get + host + "X: " + strings.Repeat("a", 1<<20+8<<10) + "\r\n\r\n"},
		{"a chunk size with a sign", chunked + "+5\r\nhello\r\n0\r\n\r\n"},
		{"a negative chunk size", chunked + "-5\r\nhello\r\n0\r\n\r\n"},
		{"a chunk size with 0x", chunked + "0x5\r\nhello\r\n0\r\n\r\n"},
		{"a chunk size that overflows", chunked + "10000000000000005\r\nhello\r\n0\r\n\r\n"},
		{"a chunk size with a blank before it", chunked + " 5\r\nhello\r\n0\r\n\r\n"},
		{"an empty chunk size", chunked + "\r\nhello\r\n0\r\n\r\n"},
		{"a chunk size line with a bare line feed", chunked + "5\nhello\r\n0\r\n\r\n"},
		{"a chunk extension with a bare line feed", chunked + "5;a\nhello\r\n0\r\n\r\n"},
		{"a chunk size line with a bare carriage return", chunked + "5\rhello\r\n0\r\n\r\n"},
		{"a chunk that is longer than its size", chunked + "4\r\nhello\r\n0\r\n\r\n"},
		{"a chunk that ends with a line feed", chunked + "5\r\nhello\n0\r\n\r\n"},
		{"a body that ends early", post + "Content-Length: 10\r\n\r\nhello"},
		{"chunks that end early", chunked + "5\r\nhello\r\n"},
	}...)
	add(true, false, [][2]string{
		{"HTTP/1.2", "GET / HTTP/1.2\r\n" + host + "\r\n"},
		{"Content-Length and Transfer-Encoding", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"Transfer-Encoding and Content-Length", post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"},
		{"two equal Content-Lengths", post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"},
		{"Content-Length with an underscore", post + "Content_Length: 5\r\n\r\n"},
		{"Transfer-Encoding with an underscore", post + "Transfer_Encoding: chunked\r\n\r\n"},
		{"a tab before chunked", post + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n"},
		{"chunked in upper case", post + "Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n"},
		{"Transfer-Encoding in HTTP/1.0", "POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"a bare line feed after the request line", "GET / HTTP/1.1\n" + host + "\r\n"},
		{"bare line feeds at the end", get + "Host: example.com\n\n"},
		{"a bare line feed after a field", get + host + "X: a\nContent-Length: 0\r\n\r\n"},
		{"a folded field", get + host + "X: a\r\n b\r\n\r\n"},
		{"a folded Transfer-Encoding", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
		{"a folded Host", get + "Host:\r\n\texample.com\r\n\r\n"},
		{"an empty Host", get + "Host:\r\n\r\n"},
		{"a list in Host", get + "Host: example.com,evil.example\r\n\r\n"},
		{"a port that is not a number", get + "Host: example.com:80a\r\n\r\n"},
		{"HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n"},
		{"absolute form with another host", "GET http://evil.example/ HTTP/1.1\r\n" + host + "\r\n"},
		{"absolute form with a user", "GET http://example.com@evil.example/ HTTP/1.1\r\n" + host + "\r\n"},
		{"a method in lower case", "get / HTTP/1.1\r\n" + host + "\r\n"},
		{"a method with a colon's neighbour", "G!T / HTTP/1.1\r\n" + host + "\r\n"},
		{"TRACE", "TRACE / HTTP/1.1\r\n" + host + "\r\n"},
		{"CONNECT", "CONNECT example.com:443 HTTP/1.1\r\n" + host + "\r\n"},
		{"the asterisk form", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n"},
		{"an upgrade to h2c", get + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"a method in a field", get + host + "X-HTTP-Method-Override: DELETE\r\n\r\n"},
		{"a method in a field with underscores", get + host + "X_HTTP_Method_Override: DELETE\r\n\r\n"},
		{"a path in a field", get + host + "X-Original-URL: /admin\r\n\r\n"},
		{"a method in the query", "POST /?_method=DELETE HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n"},
		{"a method in the query, encoded", "POST /?a=b&%5fmetho%64=DELETE HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\n"},
		{"a chunk extension", chunked + "5;a=b\r\nhello\r\n0\r\n\r\n"},
		{"a chunk extension with quotes", chunked + "5;a=\"\r\nhello\r\n0\r\n\r\n"},
		{"a chunk size with a blank after it", chunked + "5 \r\nhello\r\n0\r\n\r\n"},
		{"a chunk size with many zeros", chunked + "0000000000000005\r\nhello\r\n0\r\n\r\n"},
		{"a trailer that is about framing", chunked + "0\r\nContent-Length: 5\r\n\r\n"},
		{"a trailer that is folded", chunked + "0\r\nX: a\r\n b\r\n\r\n"},
		{"a header of 100 kilobytes", get + host + "X: " + strings.Repeat("a", 100<<10) + "\r\n\r\n"},
	}...)
	return out
}
