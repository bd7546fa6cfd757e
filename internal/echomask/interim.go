package echomask

import "net/http"

// WithoutInterim returns a ResponseWriter that leaves interim responses out (1xx, but for 101):
// httputil.ReverseProxy passes them on before anybody can mask their header fields.
func WithoutInterim(w http.ResponseWriter) http.ResponseWriter { return final{w} }

type final struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (f final) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		f.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (f final) Unwrap() http.ResponseWriter { return f.ResponseWriter }
